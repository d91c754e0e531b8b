"""The graph files of a dump, read as MindSpore's own tools read them: `.ir` line by line, `.pb` field by field."""

import csv
import json
import pathlib
import re
import shutil
import sys
import textwrap

import dumps
import model_proto
import numpy as np
import pytest
from conftest import run_in, settings_of
from processes import CLI, python

from sonde import open as open_dump

TRAINING = """
    import torch
    from torch import nn

    torch.manual_seed(0)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.fc = nn.Linear(4 * 36, 3)

        def forward(self, x):
            y = torch.relu(self.norm(self.conv(x)))
            a, b = nn.functional.dropout(y, 0.25).chunk(2, 1)
            return self.fc(torch.cat([b * 2.5, a], 1).flatten(1))


    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        (net(torch.randn(2, 1, 8, 8)).square().mean() * torch.tensor([0.5])).sum().backward()
        optimizer.step()
    with torch.no_grad():
        net.eval()(torch.randn(2, 1, 8, 8))
"""

# The text of an op's name in each release, by the line that contains it.
FULL_NAME = {
    "2.0": r"      : \((Default\S*|Gradients\S*)\)$",
    "2.3": r"      : full_name_with_scope: \((\S+)\)$",
    "2.5": r"      : full_name_with_scope: \((\S+)\)$",
    "2.7": r"      # Fullname with scope: \((\S+)\)$",
}
SOURCE = {
    "2.0": r"      # In file (\S+):(\d+)/(.*)/$",
    "2.3": r"      # In file (\S+)\((\d+)\)/(.*)/$",
    "2.5": r"      # In file (\S+)\((\d+)\)/(.*)/$",
    "2.7": r"      # In file (\S+):(\d+)(?:~\d+)?, \d+~\d+/(.*)/$",
}
BOOKKEEPING = ("TupleGetItem", "MakeTuple", "Return")


def names_in(text, version="2.7"):
    names = re.findall(FULL_NAME[version], text, re.MULTILINE)
    return [name for name in names if name.rsplit("/")[-1].rpartition("-op")[0] not in BOOKKEEPING]


def graphs(dump):
    return dump / "rank_0/graphs"


def ir(dump, graph=0, step=None):
    directory = graphs(dump) if step is None else graphs(dump) / f"step_{step}"
    return (directory / f"ms_output_trace_code_graph_{graph}.ir").read_text()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One training under each layout: {version: dump}."""
    found = {}
    for version in FULL_NAME:
        directory = tmp_path_factory.mktemp("layout")
        (directory / "train.py").write_text(textwrap.dedent(TRAINING))
        settings = settings_of(directory / "dump", None, {"layout": f"mindspore-{version}"}, {"iteration": "all"})
        (directory / "data_dump.json").write_text(json.dumps(settings))
        run = run_in(
            directory,
            directory / "dump",
            sys.executable,
            "train.py",
            MINDSPORE_DUMP_CONFIG=directory / "data_dump.json",
        )
        assert run.status == 0, run.stderr
        found[version] = run.dump
    return found


@pytest.mark.parametrize("version", FULL_NAME)
def test_names_are_the_same_in_graph_order_table_and_journal(version, trained, sonde):
    dump = trained[version]
    names = names_in(ir(dump), version)
    assert len(names) > 50
    assert names == dumps.execution_order(dump)
    graph = json.loads(sonde("graph", dump, "--step", 0, "--graph", 0, "--json").stdout)
    assert [op["op_name"] for op in graph["ops"]] == names
    with open(dumps.step_directory(dump) / "statistic.csv", newline="") as file:
        rows = {row["Op Name"] for row in csv.DictReader(file) if row["Op Type"] != "Parameter"}
    as_in_table = {
        "2.0": lambda name: name.rsplit("/")[-1],
        "2.3": lambda name: re.sub(r"[/\\. ]", "_", name),
        "2.5": lambda name: re.sub(r"[/\\. ]", "_", name),
        "2.7": lambda name: name,
    }[version]
    assert rows <= {as_in_table(name) for name in names}


@pytest.mark.parametrize("version", FULL_NAME)
def test_every_op_of_the_users_lines_shows_its_source(version, trained):
    text = ir(trained[version])
    lines = re.findall(SOURCE[version], text, re.MULTILINE)
    assert any(code.strip() == "y = torch.relu(self.norm(self.conv(x)))" for _, _, code in lines)
    for file, number, code in lines:
        kept = graphs(trained[version]) / "sources" / file.lstrip("/")
        assert kept.read_text().splitlines()[int(number) - 1] == code


def test_a_line_in_the_text_has_what_mindspores_checker_relies_on(trained):
    lines = ir(trained["2.7"]).splitlines()
    nodes = [i for i, line in enumerate(lines) if line.startswith("  %")]
    for i in nodes:
        assert re.match(r"  %\d+\(\w+\) = \w+\(", lines[i]), lines[i]
        assert re.match(r"      : \(.*<.*>\) -> \(<.*>\)$|      : \(\) -> \(<.*>\)$", lines[i + 1]), lines[i + 1]
        full_name = next(line for line in lines[i + 1 :] if "Fullname" in line)
        assert re.match(FULL_NAME["2.7"], full_name)


def test_everything_a_first_step_reads_has_a_name(trained):
    parameters = re.findall(r"^%para\d+_(\S+?):", ir(trained["2.7"]), re.MULTILINE)
    assert "data-0" in parameters
    assert {"conv.weight", "norm.running_mean", "fc.bias"} <= set(parameters)
    assert [name for name in parameters if name.startswith("carried")] == []


def test_backward_reads_what_forward_saved_and_the_optimizer_what_backward_made(trained, sonde):
    graph = json.loads(sonde("graph", trained["2.7"], "--step", 0, "--graph", 0, "--json").stdout)
    ops = {op["op_name"]: op for op in graph["ops"]}

    def reads(name):
        return {value.get("op_name", value.get("parameter")) for value in ops[name]["inputs"]}

    net = "network-Net"
    norm = f"Gradients/Default/{net}/norm-BatchNorm2d/Grad_batch_norm/native_batch_norm_backward-op0"
    # running mean and variance, which it updates, then mean and deviation of the batch
    inside = [(v.get("op_name"), v.get("is_inner")) for v in ops[norm]["inputs"][3:]]
    assert inside == [(f"Default/{net}/norm-BatchNorm2d/batch_norm-op0", True)] * 4
    assert f"Default/{net}/conv-Conv2d/conv2d-op0" in reads(norm)
    mask = [op for name, op in ops.items() if "Grad_dropout" in name]
    assert any(v.get("op_name") == f"Default/{net}/dropout-op0" for op in mask for v in op["inputs"])
    assert f"Default/{net}/norm-BatchNorm2d/batch_norm-op0" in reads(f"Default/{net}/relu-op0")
    steps = [op for name, op in ops.items() if name.startswith("Default/optimizer-SGD/add_")]
    assert len(steps) == 6
    for op in steps:
        change = op["inputs"][1]["op_name"]  # the momentum, a copy of the gradient
        assert change.startswith("Default/optimizer-SGD/clone")
        while change.startswith("Default/optimizer-SGD/"):
            (change,) = reads(change)
        assert change.startswith("Gradients/")
        assert op["attributes"]["alpha"] == -0.1


def test_attributes_come_from_the_schema(trained):
    text = ir(trained["2.7"])
    assert "stride: [I64(1), I64(1)], padding: [I64(0), I64(0)], dilation: [I64(1), I64(1)], groups: I64(1)" in text
    assert "p: F64(0.25), train: Bool(1)" in text
    assert "Tensor(shape=[], dtype=Float64, value=2.5)" in text
    assert re.search(r"TupleGetItem\(%\d+, I64\(1\)\)", text)


def test_steps_that_differ_have_graphs_of_their_own(trained):
    dump = trained["2.7"]
    table = (graphs(dump) / "steps_graph_0.csv").read_text().splitlines()
    # SGD makes its momentum in the first step.
    assert table == ["step,graph_of_step", "0,0", "1,1", "2,1", "3,1"]
    assert "clone" in ir(dump)
    assert "optimizer-SGD/clone" not in ir(dump, step=1)
    assert not (graphs(dump) / "step_2").exists()
    order = (graphs(dump) / "step_1/ms_execution_order_graph_0.csv").read_text().splitlines()[1:]
    assert order == names_in(ir(dump, step=1))
    # Evaluation has its own graph, without gradients.
    assert "Gradients/" not in ir(dump, graph=1)
    assert "conv2d-op0" in ir(dump, graph=1)


@pytest.mark.parametrize("version", FULL_NAME)
def test_the_protobuf_holds_the_same_graph(version, trained):
    directory = graphs(trained[version])
    model = model_proto.decode((directory / "ms_output_trace_code_graph_0.pb").read_bytes())
    graph = model["graph"][0]
    nodes = graph["node"]
    assert [node["name"][0] for node in nodes] == [str(i + 1) for i in range(len(nodes))]
    ops = [node["full_name"][0] for node in nodes if node["op_type"][0] not in BOOKKEEPING]
    assert ops == names_in(ir(trained[version]), version)
    known = {node["name"][0] for node in nodes} | {p["name"][0] for p in graph["parameters"]}
    known |= {constant["key"][0] for constant in graph.get("const_vals", [])}
    for node in nodes:
        assert {value["name"][0] for value in node.get("input", [])} <= known
    conv = nodes[0]
    assert conv["op_type"] == ["conv2d"]
    tensor = conv["output_type"][0]["tensor_type"][0]
    assert (tensor["elem_type"], [d["size"][0] for d in tensor["shape"][0]["dim"]]) == ([11], [2, 4, 6, 6])
    stride = next(a["value"][0] for a in conv["attribute"] if a["name"] == ["stride"])
    assert [value["int_val"] for value in stride["values"]] == [[1], [1]]
    assert "train.py" in conv["source_address"][0].splitlines()[0]


def test_a_run_for_the_graph_alone(train, config, dump):
    run = train(config=config(sonde_settings={"saved_data": "graph"}))
    assert run.status == 0, run.stderr
    assert names_in(ir(dump)) == dumps.execution_order(dump)
    assert not (dumps.step_directory(dump)).exists()


def test_cells_of_a_notebook_keep_their_text(train, config, dump):
    program = """
        import linecache
        import torch

        def cell(number, text):
            name = f"/tmp/ipykernel_1/{number}.py"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            exec(compile(text, name, "exec"), globals())

        cell(1, "net = torch.nn.Linear(2, 1)\\n")
        cell(2, "# the forward\\nnet(torch.ones(1, 2)).relu()\\n")
    """
    run = train(program, config(saved_data="statistic"))
    assert run.status == 0, run.stderr
    assert "In file /tmp/ipykernel_1/2.py:2, 0~21/net(torch.ones(1, 2)).relu()/" in ir(dump)
    assert (graphs(dump) / "sources/tmp/ipykernel_1/2.py").read_text().startswith("# the forward\n")


def test_neighbours_of_an_op_are_shown_with_its_source(trained, sonde):
    shown = sonde("graph", trained["2.7"], "norm-BatchNorm2d/batch_norm-op0", "--step", 1, "--graph", 0)
    assert shown.status == 0, shown.stderr
    assert re.search(r"> +\d+ \| +y = torch\.relu\(self\.norm\(self\.conv\(x\)\)\)", shown.stdout)
    assert re.search(r"input\.0 .*from Default/network-Net/conv-Conv2d/conv2d-op0:output\.0", shown.stdout)
    assert re.search(r"input\.1 .*from norm\.weight", shown.stdout)
    assert re.search(r"output\.0 .*to +Default/network-Net/relu-op0:input\.0", shown.stdout)
    assert "native_batch_norm_backward-op0" in shown.stdout
    assert "momentum=0.1" in shown.stdout


def test_the_graph_is_drawn(trained, sonde):
    whole = sonde("graph", trained["2.7"], "--step", 1, "--graph", 0, "--dot").stdout
    near = sonde("graph", trained["2.7"], "relu-op0", "--dot", "--step", 1, "--graph", 0, "--distance", 1).stdout
    for text in (whole, near):
        nodes = set(re.findall(r"^  ([np]\d+) \[", text, re.MULTILINE))
        edges = re.findall(r"^  ([np]\d+) -> (n\d+) \[", text, re.MULTILINE)
        assert edges and {node for edge in edges for node in edge} <= nodes
    assert 3 <= len(re.findall(r"^  n\d+ \[", near, re.MULTILINE)) < 8
    assert "conv2d" in whole and "conv.weight" in whole


def test_a_name_that_is_not_an_op_is_reported_with_near_ones(trained, sonde, tmp_path):
    shown = sonde("graph", trained["2.7"], "relu-op7", "--step", 0, "--graph", 0)
    assert shown.status == 2
    assert "no op 'relu-op7' in step 0 of graph 0" in shown.stderr and "relu-op0" in shown.stderr
    for wrong, message in {
        ("--dot", "--json"): "--json excludes --dot",
        ("relu-op0", "--distance", "2"): "--distance is for the neighbours of an OP",
        ("relu-op0", "--dot", "--distance", "-1"): "--distance: Value -1 not in range",
    }.items():
        shown = sonde("graph", trained["2.7"], "--step", 0, "--graph", 0, *wrong)
        assert shown.status == 2 and message in shown.stderr, shown.stderr
    step = tmp_path / "outputs" / "rank_0" / "Net" / "0" / "0"
    step.mkdir(parents=True)
    np.save(step / "ReLU.Default_ReLU-op0.0.0.1001.output.0.DefaultFormat.Float32.npy", np.float32([1]))
    shown = sonde("graph", tmp_path / "outputs")
    assert shown.status == 3 and "neither a journal of Sonde" in shown.stderr


def test_without_recorded_data_flow_it_comes_from_equal_values(trained, sonde, tmp_path):
    def edges(dump):
        shown = sonde("graph", dump, "--json", "--step", 0, "--graph", 0)
        assert shown.status == 0
        ops = json.loads(shown.stdout)["ops"]
        return {
            (operand["op_name"], op["op_name"], slot)
            for op in ops
            for slot, operand in enumerate(op["inputs"])
            if "op_name" in operand
        }, shown.stderr

    recorded, _ = edges(trained["2.7"])
    copy = shutil.copytree(trained["2.7"], tmp_path / "copy")
    (copy / "rank_0/.dump_metadata/sonde/journal").unlink()
    found, warnings = edges(copy)
    assert "edges are inferred from equal values" in warnings
    assert len(recorded & found) > 0.9 * len(found) > 0


GOLDEN = ("mindspore-2.0-tensor", "mindspore-2.5-async-npy", "mindspore-2.7-statistic", "acl-model")
RECORD_GOLDEN = f"""
    import pathlib
    import sys

    sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
    import golden

    for number, name in enumerate({GOLDEN}):
        directory = pathlib.Path(str(number)).absolute()
        directory.mkdir()
        golden.record(golden.golden_cases.CASES[name], directory)
"""


@pytest.fixture(scope="module")
def recorded(trained, tmp_path_factory):
    """{name: dump}: the training above, and new recordings of cases of tests/golden."""
    directory = tmp_path_factory.mktemp("golden", numbered=True)
    (directory / "record.py").write_text(textwrap.dedent(RECORD_GOLDEN))
    run = run_in(directory, None, sys.executable, "record.py")
    assert run.status == 0, run.stderr
    return {"training": trained["2.7"], **{name: directory / str(i) / "dump" for i, name in enumerate(GOLDEN)}}


def as_recorded(dump):
    pass


def without_journal(dump):
    for journal in dump.rglob(".dump_metadata/sonde/journal"):
        journal.unlink()


def tensors_only(dump):
    without_journal(dump)
    for directory in [*dump.rglob("graphs"), *dump.rglob("execution_order")]:
        shutil.rmtree(directory)


@pytest.mark.parametrize("change", [as_recorded, without_journal, tensors_only])
@pytest.mark.parametrize("name", ["training", *GOLDEN])
def test_the_graph_is_one_for_the_command_and_for_python(name, change, recorded, sonde, tmp_path):
    copy = shutil.copytree(recorded[name], tmp_path / "copy")
    change(copy)
    steps = open_dump(copy).steps
    step = steps[len(steps) // 2]
    graph = open_dump(copy).graph.select(step=step.step, graph=step.graph)
    shown = sonde("graph", copy, "--json", "--step", step.step, "--graph", step.graph)
    assert shown.status == 0, shown.stderr
    edges = dumps.edges_of_command(json.loads(shown.stdout)["ops"])
    assert edges.total() > 5
    assert dumps.edges_of_python(graph) == edges


def test_without_its_journal_lines_are_those_of_the_graph_files(trained, sonde, tmp_path):
    copy = shutil.copytree(trained["2.7"], tmp_path / "copy")
    (copy / "rank_0/.dump_metadata/sonde/journal").unlink()

    def lines(dump):
        rows = map(json.loads, sonde("ls", dump, "--ops", "--jsonl").stdout.splitlines())
        return {row["op_name"]: (row["source_file"], row["source_line"]) for row in rows if not row["is_parameter"]}

    with_journal = lines(trained["2.7"])
    assert lines(copy)
    assert lines(copy).items() <= with_journal.items()


TWICE = """
import torch

def log_of(x):
    return torch.log(x)

weight = torch.ones(3, requires_grad=True)
for step in range(2):
    first = log_of(weight)
    second = log_of(weight * step)  # the second call
    (first.sum() + second.sum()).backward()
"""


def test_a_line_that_two_lines_call_has_the_caller_of_each_call(tmp_path):
    """Also in the backward pass, and in later steps."""
    (tmp_path / "train.py").write_text(TWICE)
    run = run_in(tmp_path, tmp_path, CLI, "run", "--out", "dump", "--", *python(), "train.py")
    assert run.status == 0, run.stderr
    for op in ("Default/log-op1", "Gradients/Default/Grad_log/div-op0"):
        page = run_in(tmp_path, tmp_path, CLI, "graph", "dump", op).stdout
        assert "return torch.log(x)" in page and "train.py:10  second = log_of(weight * step)" in page, page
    page = run_in(tmp_path, tmp_path, CLI, "graph", "dump", "Default/log-op0").stdout
    assert "train.py:9  first = log_of(weight)" in page, page
    answer = run_in(tmp_path, tmp_path, CLI, "first-bad", "dump").stdout
    assert "first bad: Default/log-op1" in answer and "  called from " in answer and "train.py:10 in <module>" in answer
