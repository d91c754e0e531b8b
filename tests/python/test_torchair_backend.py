"""torchair.get_npu_backend: the files of config.debug, and results with the bits of the model run eagerly."""

import csv
import json
import re
import sys
import textwrap

import numpy as np
import pytest
import text_protobuf
import torch
from processes import run_in

# A transformer's block with dropout, and a convolution net: eager, then compiled with the backend, from the same state.
TWO_MODELS = """
    import sys

    import torch
    from sonde import torchair
    from torch import nn

    torch.set_num_threads(1)


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
            self.drop = nn.Dropout(0.3)

        def forward(self, x):
            h = self.norm(x)
            x = x + self.attention(h, h, h, need_weights=False)[0]
            return x + self.drop(self.down(nn.functional.gelu(self.up(x))))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 3)

        def forward(self, x):
            a, b = torch.relu(self.norm(self.conv(x))).split([1, 3], 1)
            return self.fc(torch.cat([a * 2, b], 1).mean((2, 3)))


    def backend():
        config = torchair.CompilerConfig()
        for setting in sys.argv[1:]:
            exec(f"config.{setting}")
        return torchair.get_npu_backend(compiler_config=config)


    def train(kind, data, compiled):
        torch.manual_seed(3)
        model = kind()
        run = torch.compile(model, backend=compiled) if compiled else model
        optimizer = torch.optim.Adam(model.parameters())
        results = []
        for _ in range(2):
            optimizer.zero_grad()
            loss = run(data).square().mean()
            loss.backward()
            optimizer.step()
            results += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        return results + list(model.state_dict().values())


    for kind, shape in ((Block, (2, 5, 16)), (Net, (2, 2, 6, 6))):
        data = torch.randn(shape)
        eager, compiled = train(kind, data, None), train(kind, data, backend())
        same = [torch.equal(a, b) for a, b in zip(eager, compiled)]
        print(kind.__name__, "same bits" if all(same) else f"{same.count(False)} of {len(same)} differ")
"""


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """The directory in which both models ran with data, graphs and summary, and the process."""
    directory = tmp_path_factory.mktemp("dumped")
    (directory / "train.py").write_text(textwrap.dedent(TWO_MODELS))
    settings = ["debug.data_dump.type = 'npy'", "debug.graph_dump.type = 'txt'", "debug.fx_summary.type = 'csv'"]
    run = run_in(directory, None, sys.executable, "train.py", *settings)
    assert run.status == 0, run.stderr
    return directory, run


def test_a_graph_run_node_by_node_has_the_bits_of_the_eager_model(dumped):
    _, run = dumped
    assert run.stdout.splitlines() == ["Block same bits", "Net same bits"]
    assert run.sonde_lines == [
        "sonde: torchair: debug.data_dump and debug.fx_summary: the graph runs node by node, without Inductor"
    ]


def test_each_graph_has_the_data_of_its_steps(dumped, sonde):
    directory, _ = dumped
    root = directory / "worldsize1_global_rank0"
    assert sorted(path.name for path in root.iterdir()) == ["graph_1", "graph_2", "graph_3", "graph_4"]
    assert sorted(path.name for path in (root / "graph_3").iterdir()) == ["0", "1"]
    names = {re.sub(r"\.\d{20}\.npy$", "", path.name) for path in (root / "graph_3" / "0").iterdir()}
    assert {f"convolution-aten.convolution.default.INPUT.{i}" for i in range(9)} < names
    assert {"cat-aten.cat.default.INPUT.0.0", "cat-aten.cat.default.INPUT.0.1", "cat-aten.cat.default.OUTPUT.0"} < names
    assert not any("getitem" in name for name in names)
    (scaled,) = (root / "graph_3" / "0").glob("mul-aten.mul.Tensor.INPUT.0.*")
    (factor,) = (root / "graph_3" / "0").glob("mul-aten.mul.Tensor.INPUT.1.*")
    (product,) = (root / "graph_3" / "0").glob("mul-aten.mul.Tensor.OUTPUT.0.*")
    assert np.load(factor) == 2
    assert (np.load(scaled) * 2 == np.load(product)).all()
    ops = [json.loads(line) for line in sonde("ls", root / "graph_3", "--ops", "--jsonl").stdout.splitlines()]
    assert {"convolution-aten.convolution.default", "cat-aten.cat.default"} <= {op["op_name"] for op in ops}


def test_graphs_are_protobuf_text_with_the_names_of_fx(dumped):
    directory, _ = dumped
    for stage in ("original", "optimized"):
        files = sorted(directory.glob(f"dynamo_{stage}_graph_*_rank_0_pid_*_ts_*.txt"))
        assert [path.name.split("_")[3] for path in files] == ["1", "2", "3", "4"]
    graph = text_protobuf.parse(files[2].read_text())
    assert graph["name"] == ["graph_3"]
    ops = {op["name"][0]: op for op in graph["op"]}
    cat = ops["cat"]
    assert cat["type"] == ["cat"]
    assert cat["input"] == ["mul:0", "split_with_sizes:1"]
    assert [one["name"] for one in cat["input_desc"]] == [["tensors_0"], ["tensors_1"]]
    (result,) = cat["output_desc"]
    assert (result["dtype"], result["shape"]) == (["DT_FLOAT"], [{"dim": [2, 4, 4, 4]}])
    attributes = {one["key"][0]: one["value"][0] for one in result["attr"]}
    assert attributes["_fx_tensor_name"] == {"s": ["cat-aten.cat.default.OUTPUT.0"]}
    assert ops["NetOutput"]["type"] == ["NetOutput"]
    assert {op["type"][0] for op in graph["op"] if not op.get("input")} == {"Data"}


def test_the_summary_counts_the_calls_of_each_operator(dumped):
    directory, _ = dumped
    (_, _, third, _) = sorted(directory.glob("summary_rank_0_pid_*_ts_*.csv"))
    rows = list(csv.reader(third.open(encoding="utf-8-sig")))
    assert rows[0] == ["目标函数", "函数类型", "支持状态", "调用次数", "输入统计", "输出统计"]
    found = {row[0]: row[1:] for row in rows[1:]}
    assert found["aten.mul.Tensor"] == [
        "aten", "已支持", "1", "1次：(float32(2, 1, 4, 4), 2)", "1次：float32(2, 1, 4, 4)"
    ]  # fmt: skip
    assert found["built-in function getitem"][0] == "builtin"


@pytest.fixture
def small(train, script, execute):
    """small(settings, lines): a small model compiled and called twice with these settings, and the process."""

    def run(*settings, body="x - y", argument="", **environment):
        source = f"""
            import torch
            from sonde import torchair


            class Network(torch.nn.Module):
                def forward(self, x, y):
                    with torchair.scope.npu_stream_switch("1"):
                        z = torch.add(x, y) * 2
                    return z, {body}


            config = torchair.CompilerConfig()
            {"; ".join(f"config.{setting}" for setting in settings) or "pass"}
            backend = torchair.get_npu_backend(compiler_config=config)
            network = torch.compile(Network(), backend=backend, fullgraph=True, dynamic=False{argument})
            x, y = torch.full((2, 2), 3.0, dtype=torch.float16), torch.ones(2, 2, dtype=torch.bfloat16)
            for _ in range(2):
                z, w = network(x, y)
            print(z.tolist(), w.tolist())
        """
        return execute(sys.executable, script(source), **environment)

    return run


def test_py_is_text_with_the_line_and_the_node_of_each_operator(small, tmp_path):
    run = small("debug.graph_dump.type = 'py'", "debug.graph_dump.path = 'graphs'", "debug.run_eagerly = True")
    assert run.status == 0  # the directory is missing: one line says so, and the program goes on
    assert "[[8.0, 8.0], [8.0, 8.0]]" in run.stdout
    assert "cannot write" in run.stderr and "set debug.graph_dump.path" in run.stderr
    (tmp_path / "graphs").mkdir()
    assert (
        small("debug.graph_dump.type = 'py'", "debug.graph_dump.path = 'graphs'", "debug.run_eagerly = True").status
        == 0
    )
    (path,) = (tmp_path / "graphs").glob("dynamo_original_graph_1_rank_0_pid_*_ts_*.py")
    text = path.read_text()
    compile(text, str(path), "exec")
    assert re.search(r'# File ".*train.py", line 9, in forward z = torch.add\(x, y\) \* 2\n## FX Code: add: ', text)
    assert 'mul_0 = ge.mul(add_0, 2, node_name="mul")' in text
    assert text.endswith("_ = ge.NetOutput([mul_0, sub_0], dependencies=[])\n")


def test_a_scope_leaves_nothing_in_the_files_of_a_graph(train, tmp_path, dump):
    dump.mkdir()
    source = f"""
        import torch
        from sonde import torchair

        recording = torchair.CompilerConfig()
        recording.dump_config.enable_dump = True
        recording.dump_config.dump_path = {str(dump)!r}
        recording.start()


        def function(x):
            with torchair.scope.data_dump():
                return x * 2


        config = torchair.CompilerConfig()
        config.debug.data_dump.type = "npy"
        config.debug.graph_dump.type = "py"
        compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
        print(compiled(torch.ones(2)).tolist())
    """
    run = train(source)
    assert run.stdout == "[2.0, 2.0]\n", run.stderr
    assert {path.name.partition("-")[0] for path in tmp_path.rglob("*.npy")} == {"mul"}
    (path,) = tmp_path.glob("dynamo_original_graph_1_*.py")
    assert "dump_scope" not in path.read_text()


def test_a_filter_chooses_nodes_and_bfloat16_is_written_as_float32(small, tmp_path):
    run = small(
        "debug.data_dump.type = 'npy'",
        "debug.data_dump.path = '.'",
        "debug.data_dump.filter = lambda n: n if n.name in ('sub', 'mul') else None",
    )
    assert run.status == 0, run.stderr
    steps = tmp_path / "worldsize1_global_rank0" / "graph_1"
    assert sorted(path.name for path in steps.iterdir()) == ["0", "1"]  # a model without parameters has steps, too
    assert {path.name.partition("-")[0] for path in steps.rglob("*.npy")} == {"sub", "mul"}
    (y,) = (steps / "1").glob("sub-aten.sub.Tensor.INPUT.1.*.npy")
    assert np.load(y).dtype == np.float32


def test_a_filter_that_gives_something_else_is_an_error(small):
    run = small("debug.data_dump.type = 'npy'", "debug.data_dump.filter = lambda n: True")
    assert run.status != 0
    assert "debug.data_dump.filter gave True for the node add; expected: the node itself, or None" in run.stderr


def test_where_nothing_can_be_written_one_line_says_so(small, tmp_path):
    (tmp_path / "worldsize1_global_rank0").write_text("")
    run = small("debug.data_dump.type = 'npy'")
    assert run.status == 0
    assert "[[8.0, 8.0], [8.0, 8.0]]" in run.stdout
    assert run.stderr.count("debug.data_dump cannot write the files of add in") == 1
    assert len(run.sonde_lines) == 2  # beside the line that the graph runs node by node


def test_sizes_that_are_known_only_at_run_time_are_negative(train, tmp_path):
    source = """
        import torch
        from sonde import torchair

        config = torchair.CompilerConfig()
        config.debug.data_dump.type = "npy"
        config.debug.graph_dump.type = "txt"
        function = torch.compile(
            lambda x: x.reshape(-1) * 2, backend=torchair.get_npu_backend(compiler_config=config), dynamic=True
        )
        print(function(torch.ones(2, 3)).sum().item(), function(torch.ones(4, 5)).sum().item())
    """
    run = train(source)
    assert run.stdout == "12.0 40.0\n", run.stderr
    (path,) = tmp_path.glob("dynamo_original_graph_1_*.txt")
    ops = {op["type"][0]: op for op in text_protobuf.parse(path.read_text())["op"]}
    assert ops["mul"]["output_desc"][0]["shape"] == [{"dim": [-1]}]
    assert len(list(tmp_path.glob("worldsize1_global_rank0/graph_1/*/mul*-aten.mul.Tensor.OUTPUT.0.*.npy"))) == 2


def test_the_modes_of_captured_graphs_save_every_tensor(small, tmp_path):
    settings = ["mode = 'npugraph_ex'"]
    run = small(*settings, argument=", options={'dump_tensor_data': True}")
    assert run.status == 0, run.stderr
    root = tmp_path / "worldsize1_global_rank0"
    assert {path.name for path in root.iterdir()} == {
        f"{name}_device_0_{n}.pt" for n in (0, 1) for name in ("arg0_1", "arg1_1", "add", "mul", "sub")
    }
    assert torch.load(root / "mul_device_0_1.pt").tolist() == [[8.0, 8.0], [8.0, 8.0]]
    assert "mode npugraph_ex with enable_dump: the graph runs node by node" in run.stderr


def test_an_option_of_torch_compile_that_there_is_not_is_refused(small):
    run = small(argument=", options={'dump': True}")
    assert run.status != 0
    assert "Invalid option 'dump', allowed options: ['capture_limit'" in run.stderr


def test_a_dump_path_that_has_gone_is_refused_by_the_backend(train, tmp_path):
    source = """
        import os
        from sonde import torchair

        os.mkdir("gone")
        config = torchair.CompilerConfig()
        config.dump_config.enable_dump = True
        config.dump_config.dump_path = "gone"
        os.rmdir("gone")
        torchair.get_npu_backend(compiler_config=config)
    """
    run = train(source)
    assert run.status == 1
    assert "FileNotFoundError: Please set legal dir path, gone is not found or is not a file directory!" in run.stderr


def test_inductor_compiles_and_its_graphs_are_written_before_and_after(small, tmp_path):
    run = small(
        "debug.graph_dump.type = 'pbtxt'", "debug.fx_summary.type = 'csv'", "debug.fx_summary.skip_compile = False"
    )
    assert run.status == 0, run.stderr
    assert "[[8.0, 8.0], [8.0, 8.0]] [[2.0, 2.0], [2.0, 2.0]]" in run.stdout
    (original,) = tmp_path.glob("dynamo_original_graph_1_*.pbtxt")
    (optimized,) = tmp_path.glob("dynamo_optimized_graph_1_*.pbtxt")
    nodes = {node["name"][0]: node for node in text_protobuf.parse(original.read_text())["node"]}
    assert nodes["mul"]["op"] == ["mul"] and nodes["mul"]["input"] == ["add:0"]
    keys = [one["key"][0] for one in nodes["mul"]["attr"]]
    assert keys == ["other", "[i]self", "[o]y"]
    assert "mul" in {node["op"][0] for node in text_protobuf.parse(optimized.read_text())["node"]}
    assert len(list(tmp_path.glob("summary_*.csv"))) == 1


@pytest.mark.parametrize(
    "setting", ["debug.run_eagerly = True", pytest.param("debug.run_eagerly = False", marks=pytest.mark.long)]
)
def test_the_debug_folder_has_each_stage_of_each_graph(tmp_path, setting):
    (tmp_path / "train.py").write_text(textwrap.dedent(TWO_MODELS))
    run = run_in(tmp_path, None, sys.executable, "train.py", setting, TORCH_COMPILE_DEBUG="1", timeout=300)
    assert run.status == 0, run.stderr
    (folder,) = (tmp_path / "torch_compile_debug").glob("run_*-pid_*/torchair")
    stages = ["graph.txt", "original_ge_graph.pbtxt", "optimized_ge_graph.pbtxt"]
    for model in ("model__0", "model__1"):
        for phase in ("forward", "backward"):
            names = sorted(path.name for path in (folder / model / phase).iterdir())
            assert names == [f"{n:03}_aot_{phase}_{stage}" for n, stage in enumerate(stages)]
    assert "self.norm(x)" in (folder / "model__0" / "dynamo_out_graph.txt").read_text()
    assert "aten.convolution.default(" in (folder / "model__1/forward/000_aot_forward_graph.txt").read_text()
    assert (
        'op: "convolution_backward"'
        in (folder / "model__1/backward/001_aot_backward_original_ge_graph.pbtxt").read_text()
    )
    assert (folder / "debug.log").read_text().count("graph: ") == 4
