"""`sonde run --npu-stand-in`: TorchAir's scripts as they are, and TorchAir's dump options on a compiled model."""

import json
import sys
import textwrap

import pytest
import torch
from processes import CLI, python

# In the form of TorchAir's page about its dump of data: a model without parameters, options, a scope.
NETWORK = """
    import logging

    import torch
    import torchair
    from torchair import logger

    logger.setLevel(logging.DEBUG)


    class Network(torch.nn.Module):
        def forward(self, left, right):
            total = torch.add(left, right)
            with torchair.scope.data_dump():
                difference = torch.sub(left, right)
            return total, difference, torch.mul(left, right)


    left = torch.randn(2, 2, dtype=torch.float16).npu()
    right = torch.randn(2, 2, dtype=torch.float16).npu()
    expected = [left + right, left - right, left * right]
    config = torchair.CompilerConfig()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = "dump"
    config.dump_config.dump_layer = " Add "
    backend = torchair.get_npu_backend(compiler_config=config)
    network = torch.compile(Network().npu(), fullgraph=True, backend=backend, dynamic=False)
    for _ in range(3):
        results = network(left, right)
    print([result.tolist() for result in results] == [result.tolist() for result in expected])
"""

# In the form of the page's first sample: a model with parameters on a device, trained.
MODEL = """
    import torch_npu, torchair
    import torch


    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 3)

        def forward(self, x):
            scale = torch.ones(3, device="npu") * torch.ones(3, device=torch.device("npu", 0))
            return torch.relu(self.fc(x)) * scale


    model = Model().to("npu:0")
    config = torchair.CompilerConfig()
    config.debug.data_dump.type = "npy"
    config.debug.graph_dump.type = "py"
    model = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))
    model(torch.randn(2, 4, device=torch.device("npu"))).sum().backward()
    torch.npu.synchronize()
    print(torch_npu.npu.is_available(), torch.load(__file__.replace(".py", ".pt"), map_location="npu:0")["x"].device)
"""


@pytest.fixture
def run(script, execute, tmp_path):
    def run(source, *arguments, **environment):
        return execute(CLI, "run", "--npu-stand-in", *arguments, "--", *python(), script(source), **environment)

    return run


def test_a_script_for_ascend_runs_unchanged(run, tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "train.pt")
    ran = run(MODEL)
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == ["True cpu"]
    assert ran.sonde_lines == [
        "sonde: --npu-stand-in: torch_npu is Sonde's, for the CPU",
        "sonde: --npu-stand-in: torchair is Sonde's, for the CPU",
        'sonde: --npu-stand-in: the device "npu" is the CPU',
        "sonde: torchair: debug.data_dump: the graph runs node by node, without Inductor",
    ]
    assert len(list(tmp_path.glob("worldsize1_global_rank0/graph_1/0/relu-aten.relu.default.OUTPUT.0.*.npy"))) == 1
    (graph,) = tmp_path.glob("dynamo_original_graph_1_*.py")
    assert 'train.py", line 12, in forward scale = torch.ones(3, device="npu")' in graph.read_text()


def test_the_sample_with_a_scope_records_what_the_options_and_the_scope_select(run, tmp_path, sonde):
    (tmp_path / "dump").mkdir()
    ran = run(NETWORK, DUMP_GE_GRAPH="3")  # as the page does first, to get the names
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "True"
    assert "the recording that a variable has begun ends: the program starts one itself" in ran.stderr
    # The graph that the variable asks for, and that of the program's own recording.
    assert len(list(tmp_path.glob("ge_proto_*_graph_1_Build.txt"))) == 2
    assert "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor]" in ran.stdout
    rows = [json.loads(line) for line in sonde("ls", "dump", "--ops", "--jsonl").stdout.splitlines()]
    ops = {row["op_name"]: row["times"] for row in rows if row["op_type"] != "Parameter" and row["tensors"]}
    # A model without parameters makes a step at each call.
    assert ops == {"Default/network-Network/add-op0": 3, "Default/network-Network/sub-op0": 3}
    (graph,) = (tmp_path / "dump").glob("worldsize1_global_rank0/ge_proto_00000000_graph_1_Build.txt")
    assert 'name: "Default/network-Network/sub-op0"' in graph.read_text()


def test_scopes_in_a_trained_model_select_the_backward_and_quantisations_their_inputs(train, dump, sonde):
    dump.mkdir()
    source = f"""
        import torch
        import torch.ao.quantization.fx._decomposed  # the operators of PyTorch's quantised graphs
        from sonde import torchair

        quantised = torch.ops.quantized_decomposed


        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

            def forward(self, x):
                h = torch.relu(self.up(x))
                with torchair.scope.data_dump():
                    y = self.down(h)
                q = quantised.quantize_per_tensor(h, 0.1, 0, -128, 127, torch.int8)
                return quantised.dequantize_per_tensor(q, 0.1, 0, -128, 127, torch.int8) + y


        config = torchair.CompilerConfig()
        config.dump_config.enable_dump = True
        config.dump_config.dump_path = {str(dump)!r}
        config.dump_config.dump_mode = "output"
        config.dump_config.dump_layer = "Default_network-Model_relu-op0"
        config.dump_config.quant_dumpable = True
        model = torch.compile(Model(), backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True)
        model(torch.randn(2, 4)).sum().backward()
    """
    run = train(source)
    assert run.status == 0, run.stderr
    rows = [json.loads(line) for line in sonde("ls", dump, "--ops", "--jsonl").stdout.splitlines()]
    recorded = {row["op_name"]: row["tensors"] for row in rows if row["tensors"] and row["op_type"] != "Parameter"}
    assert recorded.pop("Default/network-Model/relu-op0") == 1
    assert recorded.pop("Default/network-Model/quantize_per_tensor-op0") == 1
    assert recorded["Default/network-Model/down-Linear/addmm-op0"] == 1
    assert recorded["Gradients/Default/network-Model/down-Linear/Grad_addmm/mm-op0"] == 1
    assert all("down-Linear" in name for name in recorded)
    (row,) = sonde("stats", dump, "--select", "quantize_per_tensor", "--jsonl").stdout.splitlines()
    assert json.loads(row)["side"] == "input"


def test_without_the_option_the_modules_are_not_there(script, execute):
    ran = execute(sys.executable, script("import torch\nprint(hasattr(torch, 'npu'))\nimport torchair"))
    assert ran.stdout == "False\n"
    assert "ModuleNotFoundError: No module named 'torchair'" in ran.stderr


def test_a_real_torch_npu_is_used_and_named(run, tmp_path):
    real = tmp_path / "packages" / "torch_npu"
    real.mkdir(parents=True)
    (real / "__init__.py").write_text("real = True\n")
    source = """
        import torch
        import torch_npu

        print(torch_npu.real, hasattr(torch.Tensor, "npu"))
    """
    ran = run(source, PYTHONPATH=real.parent)
    assert ran.stdout == "True False\n"
    assert ran.stderr == f"sonde: --npu-stand-in: torch_npu is installed in '{real}/__init__.py', and is used\n"


def test_what_the_stand_in_lacks_is_named(run):
    source = """
        import torch_npu, torch
        for missing in ("torch_npu.npu_format_cast", "torch.npu.Stream"):
            try:
                eval(missing)
            except AttributeError as error:
                print(error)
    """
    lines = run(source).stdout.splitlines()
    assert lines[0].startswith("torch_npu.npu_format_cast is not available: --npu-stand-in gives .npu() and")
    assert lines[1].startswith("torch.npu.Stream is not available: --npu-stand-in gives .npu(), the device 'npu', and")


def test_a_program_may_be_recorded_under_the_commands_own_options(run, dump, sonde):
    ran = run(textwrap.dedent(MODEL).partition("model = torch.compile")[0] + "model(torch.ones(1, 4))", "--out", dump)
    assert ran.status == 0, ran.stderr
    assert "Default/network-Model/fc-Linear/linear-op0" in sonde("ls", dump, "--ops").stdout


def test_the_backend_npugraph_ex_is_known_by_name(run, tmp_path):
    source = """
        import torch
        import torch_npu

        compiled = torch.compile(
            lambda x: x * 2 + 1, backend="npugraph_ex", options={"dump_tensor_data": True, "data_dump_dir": "."}
        )
        print(compiled(torch.ones(2).npu()).tolist())
    """
    ran = run(source)
    assert ran.stdout == "[3.0, 3.0]\n", ran.stderr
    assert len(list(tmp_path.glob("worldsize1_global_rank0/*_device_0_0.pt"))) == 3
