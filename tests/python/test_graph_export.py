"""The recorded graph against torch.export's, which is made another way: by tracing, before anything runs.

Both list what the user's lines call. export's nodes name tensors by object, ours say who wrote what is read; so a node
of export's that reads memory which a later node wrote in place is taken to read that node's result.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest
import ten_models
import torch
from processes import python

NAMES = [name for name, _, _ in ten_models.models()]

# Runs every model once; each is a step.
PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import ten_models
for name, model, x in ten_models.models():
    model(x)
"""


class Expected:
    """Ops and edges of an exported graph, in the order of the run."""

    def __init__(self, program):
        self.ops = []  # op types
        self.edges = set()  # (index, slot, "index of the producer" or "parameter's name", output)
        self.scopes, self.lines = [], []
        self._made = {}  # node -> (index, output)
        self._wrote = {}  # storage -> (index, output) of the last op that wrote it
        signature = program.graph_signature
        names = signature.inputs_to_parameters | signature.inputs_to_buffers
        for node in program.graph.nodes:
            if node.op == "placeholder":
                self._made[node] = (names.get(node.name, "data"), 0)
            elif node.op == "get_attr":
                self._made[node] = ("data", 0)
            elif node.op == "call_function":
                self._call(node)

    def _call(self, node):
        if "getitem" in str(node.target):
            source, which = node.args
            self._made[node] = (self._made[source][0], which)
            return
        schema = node.target._schema
        index = len(self.ops)
        self.ops.append(schema.name.split("::")[1])
        self.scopes.append(list(node.meta["nn_module_stack"].values())[-1][0])
        lines = re.findall(r'ten_models.py", line (\d+)', node.meta["stack_trace"] or "")
        self.lines.append(int(lines[-1]) if lines else None)
        values = dict(zip([a.name for a in schema.arguments], node.args, strict=False)) | node.kwargs
        slot, written = 0, []
        for argument in schema.arguments:
            value = values.get(argument.name)
            if "Tensor" not in str(argument.type):
                continue
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(one, torch.fx.Node):
                    self.edges.add((index, slot, *self._producer(one)))
                    if argument.alias_info is not None and argument.alias_info.is_write:
                        written.append(_storage(one))
                slot += 1
        for storage in written:
            self._wrote[storage] = (index, 0)
        self._made[node] = (index, 0)

    def _producer(self, node):
        made = self._made[node]
        wrote = self._wrote.get(_storage(node))
        if wrote is None or (isinstance(made[0], int) and made[0] >= wrote[0]):
            return made
        return wrote


def _storage(node):
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


class Recorded:
    def __init__(self, graph):
        ops = [op for op in graph["ops"] if op["phase"] in ("forward", "outside")]
        index = {op["op_name"]: i for i, op in enumerate(ops)}
        self.ops = [op["op_type"] for op in ops]
        self.names = [op["op_name"] for op in ops]
        # `Default/network-Sequential/1-Residual/conv1-Conv2d/conv2d-op0` is in module `1.conv1`
        scopes = [name.split("/")[2:-1] for name in self.names]
        self.scopes = [".".join(part.rpartition("-")[0] or part for part in parts) for parts in scopes]
        self.lines = [op["trace"][0]["source_line"] for op in ops]
        self.edges = set()
        for i, op in enumerate(ops):
            for slot, value in enumerate(op["inputs"]):
                if "op_name" in value:
                    self.edges.add((i, slot, index[value["op_name"]], value["slot"]))
                elif "parameter" in value:
                    name = value["parameter"]
                    self.edges.add((i, slot, "data" if name.startswith("data-") else name, 0))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """{model: Recorded} of one run of all ten."""
    from conftest import CLI

    directory = tmp_path_factory.mktemp("export")
    (directory / "train.py").write_text(PROGRAM)
    dump = directory / "dump"
    command = [CLI, "run", "--out", dump, "--saved-data", "statistic", "--", *python(), directory / "train.py"]
    subprocess.run(command, check=True, capture_output=True, cwd=directory)
    graphs = {}
    for step, name in enumerate(NAMES):
        text = subprocess.run(
            [CLI, "graph", dump, "--step", str(step), "--json"], check=True, capture_output=True, text=True
        ).stdout
        graphs[name] = json.loads(text)
    return graphs


def in_model(edges, prefix):
    """Parameters of the second and later models begin with the model's label."""
    return {(i, slot, str(f)[len(prefix) :] if str(f).startswith(prefix) else f, o) for i, slot, f, o in edges}


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_is_exports(name, recorded):
    model, x = next((m, x) for n, m, x in ten_models.models() if n == name)
    expected = Expected(torch.export.export(model, (x,)))
    graph = Recorded(recorded[name])
    prefix = next(n.split("/")[1] for n in graph.names if n.startswith("Default/network")) + "."
    assert graph.ops == expected.ops
    assert graph.scopes == expected.scopes
    assert [line for line, known in zip(graph.lines, expected.lines, strict=True) if known] == [
        known for known in expected.lines if known
    ]
    found = in_model(graph.edges, prefix)
    assert (sorted(map(str, found - expected.edges)), sorted(map(str, expected.edges - found))) == ([], [])
