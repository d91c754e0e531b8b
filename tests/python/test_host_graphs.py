"""`sonde ls`, `show`, `graph` and `stats` of a dump that MindSpore wrote, with its graph files beside it: the files are
MindSpore's own (tests/engine/graph/mindspore), the values of the tensors are not."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import dumps
import model_proto_writer as proto
import numpy as np
import pytest
from conftest import CLI

from sonde import open as open_dump

FILES = pathlib.Path(__file__).parent.parent / "engine" / "graph" / "mindspore"
FILTER = "Gradients/Default/network-Net/conv-Conv2d/Grad_Conv2D/Conv2DBackpropFilter"


def sonde(*arguments):
    return subprocess.run(
        [CLI, *map(str, arguments)],
        env=os.environ | {"COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def rows(*arguments):
    result = sonde(*arguments, "--jsonl")
    assert result.returncode in (0, 1), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def graph(dump):
    return {op["op_name"]: op for op in json.loads(sonde("graph", dump, "--json").stdout)["ops"]}


@pytest.fixture(params=["2.7", "2.10"])
def dump(request, tmp_path):
    """A step of `small`, its tensors small and each different."""
    files = FILES / request.param / "small"
    step = tmp_path / "rank_0" / "Net" / "0" / "0"
    step.mkdir(parents=True)
    for number, name in enumerate((files / "files.txt").read_text().split()):
        np.save(step / name, np.full((2, 3), number, np.float32))
    (tmp_path / "rank_0" / "graphs").mkdir()
    (tmp_path / "rank_0" / "execution_order").mkdir()
    shutil.copy(files / "graph.pb", tmp_path / "rank_0/graphs/ms_output_trace_code_graph_0.pb")
    if (files / "graph.ir").exists():
        shutil.copy(files / "graph.ir", tmp_path / "rank_0/graphs/ms_output_trace_code_graph_0.ir")
    order = "rank_0/execution_order/ms_execution_order_graph_0.csv"
    shutil.copy(files / "execution_order.csv", tmp_path / order)
    return tmp_path


def test_every_op_is_listed_with_scope_and_line(dump):
    ops = [op for op in rows("ls", dump, "--ops") if not op["is_parameter"]]
    order = (dump / "rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().split()[1:]
    assert len(ops) == len(order)
    scopes = sorted(name.rpartition("/")[0] for name in order)
    assert sorted(op["op_name"].rpartition("/")[0] for op in ops) == scopes
    without = [op["op_type"] for op in ops if not op["source_line"]]
    assert without == ["AddN"]  # of which MindSpore knows none
    conv = next(op for op in ops if op["op_name"] == "Default/network-Net/conv-Conv2d/Conv2D-op0")
    assert (conv["source_file"], conv["source_line"], conv["function"]) == ("/home/user/train.py", 14, "block")
    listed = sonde("ls", dump, "--ops").stdout
    assert re.search(r"conv-Conv2d/Conv2D-op0 .* train\.py:14 +block", listed)


def test_a_tensor_is_shown_with_its_line_and_where_it_comes_from(dump):
    (shown,) = [json.loads(sonde("show", dump, "network-Net/ReLU-op1:input.0", "--json").stdout)]
    assert (shown["source_file"], shown["source_line"]) == ("/home/user/train.py", 14)
    assert shown["written_by"] == "Default/network-Net/conv-Conv2d/Conv2D-op1:output.0"
    assert shown["corner"]
    text = sonde("show", dump, "network-Net/ReLU-op1:input.0").stdout
    assert "source      /home/user/train.py:14 in block" in text
    assert "comes from  Default/network-Net/conv-Conv2d/Conv2D-op1:output.0" in text
    weight = json.loads(sonde("show", dump, "optimizer.network.conv.weight", "--json").stdout)
    assert "Default/network-Net/conv-Conv2d/Conv2D-op1:input.1" in weight["read_by"]


def test_statistics_have_the_line(dump):
    found = rows("stats", dump, "-s", "**/Conv2D-op1")
    assert {(row["source_file"], row["source_line"]) for row in found} == {("/home/user/train.py", 14)}
    assert "train.py:14" in sonde("stats", dump, "-s", "**/Conv2D-op1").stdout


def test_the_graph_says_what_feeds_each_op(dump):
    ops = graph(dump)
    concat = ops["Default/network-Net/Concat-op0"]
    split = next(name for name in ops if re.fullmatch(r"Default/(network-Net/)?Split-op0", name))
    assert [(i.get("op_name"), i.get("slot")) for i in concat["inputs"][:2]] == [(split, 1), (split, 0)]
    assert concat["inputs"][0]["type"] == {"dtype": "float32", "shape": [2, 3]}
    conv = ops["Default/network-Net/conv-Conv2d/Conv2D-op0"]
    assert [i["parameter"] for i in conv["inputs"]] == ["x", "optimizer.network.conv.weight"]
    assert conv["attributes"]["kernel_size"] == [3, 3]
    assert [pathlib.Path(line["source_file"]).name for line in conv["trace"]] == ["conv.py"] + ["train.py"] * 3
    assert conv["source_line"] == 14


def test_the_graph_is_one_for_the_command_and_for_python(dump):
    answer = json.loads(sonde("graph", dump, "--json").stdout)
    edges = dumps.edges_of_command(answer["ops"])
    assert edges.total() > 10
    assert dumps.edges_of_python(open_dump(dump).graph) == edges


def test_ops_that_were_made_anew_are_joined_by_the_order_of_the_first_step(dump):
    ops = graph(dump)
    first = ops[f"{FILTER}-op1"]
    assert first["inputs"][0]["op_name"] == "Gradients/Default/network-Net/Grad_ReLU/ReluGrad-op0"
    assert [i["op_name"] for i in ops["Gradients/Default/AddN-op0"]["inputs"]] == [f"{FILTER}-op0", f"{FILTER}-op1"]


def test_a_page_shows_the_code_though_the_source_is_gone(dump):
    page = sonde("graph", dump, "network-Net/conv-Conv2d/Conv2D-op0")
    assert page.returncode == 0
    # The values are not those of this graph, nor are their sizes.
    assert page.stderr.count("warning") == 1 and "other sizes than in the graph" in page.stderr
    assert ">    14 |         return ops.relu(self.conv(x))" in page.stdout
    assert re.search(r"calls       /opt/\S+/conv\.py:\d+  output = self\.conv2d\(x, self\.weight\)", page.stdout)
    assert "called from /home/user/train.py:17  x = self.block(x)" in page.stdout


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_damaged_graph_files_are_one_finding_and_the_tensors_are_there(dump, damage):
    for name in ("graphs/ms_output_trace_code_graph_0.pb", "graphs/ms_output_trace_code_graph_0.ir"):
        path = dump / "rank_0" / name
        data = path.read_bytes() if path.exists() else b""
        noise = np.random.default_rng(1).integers(0, 256, 5000, np.uint8).tobytes()
        path.write_bytes({"cut": data[: len(data) // 3], "noise": noise, "empty": b""}[damage])
    order = dump / "rank_0/execution_order/ms_execution_order_graph_0.csv"
    order.write_bytes(order.read_bytes()[:500] + b"\xff\x00")
    result = sonde("stats", dump, "--jsonl")
    assert result.returncode == 3
    assert len(result.stdout.splitlines()) == len(list((dump / "rank_0/Net/0/0").iterdir()))
    assert result.stderr.count("warning") == 1
    assert "ms_output_trace_code_graph_0.pb: it" in result.stderr


def test_without_graph_files_the_graph_says_what_is_missing(dump):
    shutil.rmtree(dump / "rank_0" / "graphs")
    result = sonde("graph", dump)
    assert result.returncode == 3
    assert "neither a journal of Sonde nor MindSpore's own graphs/*.pb" in result.stderr
    assert sonde("ls", dump, "--ops").returncode == 0


class Casts:
    """MatMul of two tensors that are cast before it. The casts of x have the numbers `of_x` in the files; in the graph
    they are 0 and 1, those of w are 2 and 3."""

    GRAPH = (
        ("Default/fc/Cast-op0", "Cast", ["x"], proto.FLOAT16, "x"),
        ("Default/fc/Cast-op1", "Cast", ["1"], proto.FLOAT32, "x"),
        ("Default/fc/Cast-op2", "Cast", ["w"], proto.FLOAT16, "w"),
        ("Default/fc/Cast-op3", "Cast", ["3"], proto.FLOAT32, "w"),
        ("Default/fc/MatMul-op0", "MatMul", ["2", "4"], proto.FLOAT16, "y"),
    )

    def __init__(self, directory, of_x, shapes=None, parameters=True, equal=False):
        self.directory, self.time = directory, 1700000000000000
        self.of_x, self.of_w = of_x, tuple(n for n in range(4) if n not in of_x)
        shapes = shapes or {"x": (2, 16), "w": (8, 16), "y": (2, 8)}
        graph = proto.graph(
            {name: (proto.FLOAT32, shapes[name]) for name in "xw"},
            [(*node[:4], shapes[node[4]]) for node in self.GRAPH],
        )
        for place, data in (("graphs/ms_output_trace_code_graph_0.pb", graph), ("Net/0/0/", None)):
            (directory / "rank_0" / place).parent.mkdir(parents=True, exist_ok=True)
            if data is not None:
                (directory / "rank_0" / place).write_bytes(data)
        (directory / "rank_0/Net/0/0").mkdir(parents=True, exist_ok=True)
        x, w = (np.zeros(shapes[name], np.float32) + (0 if equal else n) for n, name in enumerate("xw", 1))
        for numbers, value in ((self.of_x, x), (self.of_w, w)):
            for number, (before, after) in zip(
                numbers, ((np.float32, np.float16), (np.float16, np.float32)), strict=True
            ):
                self.save("Cast", number, [value.astype(before)], value.astype(after))
        self.save("MatMul", 0, [x, w], (x.reshape(len(x), -1) @ w.reshape(len(w), -1).T if not equal else x))
        for name, value in (("x", x), ("w", w)) if parameters else ():
            np.save(self.file(f"Parameter.{name}", "output", 0, value), value)

    def file(self, name, side, slot, value):
        kind = value.dtype.name.capitalize()
        return self.directory / f"rank_0/Net/0/0/{name}.0.0.{self.time}.{side}.{slot}.DefaultFormat.{kind}.npy"

    def save(self, op_type, number, inputs, output):
        self.time += 1
        name = f"{op_type}.Default_fc_{op_type}-op{number}"
        for slot, value in enumerate(inputs):
            np.save(self.file(name, "input", slot, value), value)
        np.save(self.file(name, "output", 0, output), output)

    def check(self):
        ops = graph(self.directory)
        for numbers, parameter in ((self.of_x, "x"), (self.of_w, "w")):
            first, second = (f"Default/fc/Cast-op{number}" for number in numbers)
            assert ops[first]["inputs"][0]["parameter"] == parameter
            assert ops[second]["inputs"][0]["op_name"] == first
        sources = [entry["op_name"] for entry in ops["Default/fc/MatMul-op0"]["inputs"]]
        assert sources == [f"Default/fc/Cast-op{numbers[1]}" for numbers in (self.of_x, self.of_w)]


@pytest.mark.parametrize("of_x", [(0, 1), (2, 3), (1, 0), (3, 0)])
def test_names_that_contradict_shapes_and_types_are_not_believed(tmp_path, of_x):
    Casts(tmp_path, of_x).check()


@pytest.mark.parametrize("of_x", [(2, 3), (3, 1)])
def test_names_that_contradict_values_are_not_believed(tmp_path, of_x):
    Casts(tmp_path, of_x, {"x": (4, 4), "w": (4, 4), "y": (4, 4)}).check()


def test_without_contradiction_names_are_believed(tmp_path):
    Casts(tmp_path, (0, 1), {"x": (4, 4), "w": (4, 4), "y": (4, 4)}, equal=True).check()


def test_a_graph_of_another_run_names_no_source_of_another_size(tmp_path):
    """Its files were replaced by those of a run with another batch."""
    Casts(tmp_path, (0, 1))
    for path in tmp_path.rglob("*MatMul-op0*.input.0.*"):
        np.save(path, np.ones((3, 16), np.float32))
    (tmp_path / "statistics").mkdir()
    table = tmp_path / "rank_0/Net/0/0/statistic.csv"
    header = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value"
    table.write_text(
        f"{header}\n"
        + "".join(
            f'{kind},Default/fc/{kind}-op{n},0,0,{time},{io},0,1,float32,"[{shape}]",1\n'
            for kind, n, time, io, shape in (
                ("Cast", 1, 1700000000000002, "output", "2,16"),
                ("MatMul", 0, 1700000000000005, "input", "3,16"),
            )
        )
    )
    ops = graph(tmp_path)
    assert "op_name" not in ops["Default/fc/MatMul-op0"]["inputs"][0]
    said = sonde("ls", tmp_path)
    assert said.returncode == 0
    assert "ms_output_trace_code_graph_0.pb" in said.stderr
    assert "have other sizes than in the graph: the graph is of another run, or its names are wrong" in said.stderr


def test_a_graph_of_another_run_is_named_also_where_names_are_unique(tmp_path):
    """A graph for a batch of 2, files of a batch of 3: the edges may be right, and nothing proves them wrong."""
    graph = Casts(tmp_path / "graph", (0, 1))
    other = Casts(tmp_path / "run", (0, 1), {"x": (3, 16), "w": (8, 16), "y": (3, 8)})
    for dump in (graph, other):
        for path in dump.directory.rglob("*Cast*"):
            path.unlink()
    place = "rank_0/graphs/ms_output_trace_code_graph_0.pb"
    shutil.copy(tmp_path / "graph" / place, tmp_path / "run" / place)
    assert "of another run" not in sonde("ls", tmp_path / "graph").stderr
    assert "have other sizes than in the graph: the graph is of another run" in sonde("ls", tmp_path / "run").stderr
