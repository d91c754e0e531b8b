"""Graphs of a dump: from its graph files, and, where it has none or these lack an operator, from what was recorded."""

import re
from pathlib import Path

import numpy as np

from ..dump import Tensor
from . import model_proto
from .nodes import Node, Source

_FILE = re.compile(r"ms_output_trace_code_graph_(\d+)\.pb")
_NAMELESS = "\u0444"  # before the name of a parameter of a block
_NUMBER = re.compile(r"-op\d+$")


class Data:
    """Where the tensors of nodes lie in a dump."""

    def __init__(self, dump):
        self.dump = dump
        self._ops = {}  # (rank, name) -> [(graph, iteration, row of the dump's table of ops)]
        steps, ops = dump._table("step"), dump._table("op")
        rank = steps["rank"][ops["step"]].tolist()
        graph = steps["graph"][ops["step"]].tolist()
        iteration = steps["iteration"][ops["step"]].tolist()
        names, words = ops["name"].codes.tolist(), ops["name"].words
        self._first = ops["first_tensor"].tolist()
        self._count = ops["tensors"].tolist()
        tensors = dump._table("tensor")
        self._slot = tensors["slot"].tolist()
        self._is_input = tensors["is_input"].astype(bool).tolist()
        self._time = tensors["timestamp_us"].tolist()
        has_file = np.array([word != "" for word in tensors["file"].words], bool)[tensors["file"].codes]
        self._recorded = (has_file | tensors["has_statistics"].astype(bool)).tolist()
        for row, code in enumerate(names):
            self._ops.setdefault((rank[row], words[code]), []).append((graph[row], iteration[row], row))
        self._other_names = {}  # (graph object, name of the graph file) -> name of the files

    def names_of(self, rank):
        return [name for of_rank, name in self._ops if of_rank == rank]

    def lines_of(self, rank, name):
        """(file, line) of the stack of an operator."""
        _, _, row = self._ops[rank, name][0]
        return {(file, line) for file, line, _ in self.dump._core.trace(row)}

    def tensor(self, row):
        return Tensor(self.dump, row)

    def rename(self, graph, name, name_of_files):
        self._other_names[id(graph), name] = name_of_files

    def find(self, graph, name, iteration, is_input, slot):
        """The row of a tensor: of several of one name the newest."""
        rows = [row for row in self._rows(graph, name, iteration, is_input) if self._slot[row] == slot]
        return max(rows, key=lambda row: self._time[row], default=None)

    def all(self, graph, name, iteration, is_input):
        """Tensors that have a file."""
        tensors = [self.tensor(row) for row in self._rows(graph, name, iteration, is_input)]
        return [tensor for tensor in tensors if tensor.file is not None]

    def _rows(self, graph, name, iteration, is_input):
        name = self._other_names.get((id(graph), name), name)
        runs = [run for run in self._ops.get((graph.rank, name), ()) if run[1] == iteration]
        own = [run for run in runs if run[0] in (graph.id, graph.root_id)]
        return [
            row
            for _, _, op in own or runs
            for row in range(self._first[op], self._first[op] + self._count[op])
            if self._is_input[row] == is_input and self._recorded[row]
        ]


class Graph:
    """One graph of one rank."""

    def __init__(self, data, rank, number, *, root_id, name, iterations):
        self.data = data
        self.rank = rank
        self.id = number
        self.root_id = root_id
        self.name = name
        self.iterations = iterations
        self.nodes = []  # constants, parameters, operators

    def add(self, node):
        self.nodes.append(node)
        return node

    def connect(self):
        for node in self.nodes:
            for made in node._inputs:
                if made is not None:
                    made[0]._readers.append((made[1], node))


def graphs_of(dump):
    """Every Graph of a dump, by rank and number, and the Data of their tensors."""
    data = Data(dump)
    graphs = []
    for rank in dump.ranks:
        found = {}
        for number, path in _files(Path(dump._core.directory(rank)), rank):
            try:
                found[number] = _from_file(data, rank, number, path)
            except (model_proto.BadGraph, OSError):
                continue  # what was recorded tells the rest
        for number in sorted({step.graph for step in dump.steps if step.rank == rank}):
            _add_recorded(data, rank, number, found)
        for number in sorted(found):
            found[number].connect()
            graphs.append(found[number])
    return graphs, data


def _files(directory, rank):
    """(number, path) of the graph files of a rank, wherever its layout has them."""
    metadata = directory / ".dump_metadata"
    for place in (directory, metadata, metadata / "mindspore" / f"rank_{rank}"):
        found = [(int(match[1]), path) for path in place.glob("graphs/*.pb") if (match := _FILE.fullmatch(path.name))]
        if found:
            return sorted(found)
    return []


def _iterations(data, rank, *numbers):
    steps = [step for step in data.dump.steps if step.rank == rank]
    own = [step for step in steps if step.graph in numbers]
    return sorted({step.iteration for step in own or steps})


# --- from a graph file ------------------------------------------------------------------------------------------------


def _from_file(data, rank, number, path):
    raw = model_proto.read_graph(path)
    root_id = int(raw["root_name"]) if re.fullmatch(r"[0-9]{1,9}", raw["root_name"]) else number
    graph = Graph(
        data, rank, number, root_id=root_id, name=raw["name"], iterations=_iterations(data, rank, root_id, number)
    )
    by_name = {}  # of the file -> node
    for constant in raw["constants"]:
        node = graph.add(
            Node(
                graph, constant["name"], "Const", kind="constant", short_name=constant["name"], value=constant["value"]
            )
        )
        by_name[constant["name"]] = node
    for parameter in raw["parameters"]:
        node = graph.add(Node(graph, parameter["name"].removeprefix(_NAMELESS), "Parameter", kind="parameter"))
        node._outputs = parameter["outputs"]
        by_name[parameter["name"]] = node
    for operator in raw["nodes"]:
        by_name[operator["name"]] = graph.add(_node_of(graph, operator))
    for operator in raw["nodes"]:
        _join(by_name, operator)
    _match_names(data, graph)
    return graph


def _node_of(graph, raw):
    name = raw["full_name"] or raw["name"]
    if raw["type"] == "Load":  # MindSpore numbers those anew in each scope; the debugger by their place
        name = _NUMBER.sub(f"-op{raw['name']}", name)
    lines = [line.strip() for line in raw["source"].splitlines()]
    stack = [Source.of_line(line) for line in lines if line]
    node = Node(
        graph, name, raw["type"], short_name=raw["name"], scope=raw["scope"], stack=stack, attributes=raw["attributes"]
    )
    node._file_name = raw["full_name"]
    node._outputs = raw["outputs"]
    return node


def _join(by_name, operator):
    """Of a tuple that is read, all is."""
    node = by_name[operator["name"]]
    for name in operator["inputs"]:
        maker = by_name.get(name) or by_name.get(name.removeprefix(_NAMELESS))
        if maker is not None:
            node._inputs.append((maker, None))


def _match_names(data, graph):
    """Operators that MindSpore made anew after their files got a name are those of the same scope and type: by their
    lines, as the catalog has found them (docs/format.md, "MindSpore's own graphs"), else in order."""
    recorded = set(data.names_of(graph.rank))
    known = {node.name for node in graph.nodes}
    left = {}  # scope and type -> names of files
    for name in sorted(recorded - known, key=_numbered):
        left.setdefault(_numbered(name)[0], []).append(name)
    for node in graph.nodes:
        stem = _numbered(node.name)[0]
        if node._kind == "operator" and node.name not in recorded and left.get(stem):
            lines = {(line.file_path, line.line_no) for line in node.stack}
            names = left[stem]
            fitting = next(
                (name for name in names if (own := data.lines_of(graph.rank, name)) and own <= lines), names[0]
            )
            names.remove(fitting)
            data.rename(graph, node.name, fitting)


def _numbered(name):
    stem, _, number = name.rpartition("-op")
    return (stem, int(number)) if stem and number.isdecimal() else (name, -1)


# --- from what was recorded -------------------------------------------------------------------------------------------


def _add_recorded(data, rank, number, found):
    """Operators of the dump that no graph file of the rank has."""
    dump = data.dump
    graph = found.get(number)
    own = {id(each) for each in found.values()}
    known = {name for (owner, _), name in data._other_names.items() if owner in own}
    known |= {node.name for each in found.values() for node in each.nodes}
    if graph is None:
        graph = Graph(
            data, rank, number, root_id=number, name=f"kernel_graph{number}", iterations=_iterations(data, rank, number)
        )
        found[number] = graph
    nodes = {node.name: node for node in graph.nodes}
    parameters = []
    operators = []
    for step_row, step in enumerate(dump.steps):
        if (step.rank, step.graph) != (rank, number):
            continue
        new = [op for op in dump.graph._ops_of(step_row) if op.name not in known]
        for op in new:
            if op.name in nodes:
                continue
            node = nodes[op.name] = _recorded_node(graph, op)
            (parameters if op.is_parameter else operators).append(node)
        if new:
            _join_recorded(dump, graph, step_row, nodes=nodes, new={op._row for op in new}, parameters=parameters)
        known |= {op.name for op in new}
    graph.nodes = graph.nodes + operators if not parameters else _ordered(graph.nodes + parameters + operators)
    if not graph.nodes:
        del found[number]


def _ordered(nodes):
    order = {"constant": 0, "parameter": 1, "operator": 2}
    return sorted(nodes, key=lambda node: order[node._kind])


def _recorded_node(graph, op):
    kind = "parameter" if op.is_parameter else "operator"
    stack = [Source(place.file, place.line, place.code.strip()) for place in op.stack]
    scope = op.name.rpartition("/")[0]
    node = Node(
        graph,
        op.name,
        "Parameter" if op.is_parameter else op.type,
        kind=kind,
        short_name=op.name,
        scope=scope,
        stack=stack,
        attributes=op.attributes,
    )
    slots = {}
    for tensor in op.outputs:
        shape = tensor.shape if tensor._of("has_shape") else None
        slots[tensor.slot] = (tensor._of("dtype") or None, shape)
    node._outputs = [slots.get(slot, (None, None)) for slot in range(max(slots, default=-1) + 1)]
    return node


def _join_recorded(dump, graph, step_row, *, nodes, new, parameters):
    edges = dump.graph._edges_of(step_row)
    names = dump._table("op")["name"]
    for made, slot, parameter, reader, to_slot in edges:
        if reader not in new:
            continue
        node = nodes[names[reader]]
        if made >= 0:
            maker = nodes.get(names[made])
        elif parameter in nodes:
            maker = nodes[parameter]
        else:
            maker = nodes[parameter] = Node(graph, parameter, "Parameter", kind="parameter", short_name=parameter)
            parameters.append(maker)
        if maker is not None:
            while len(node._inputs) < to_slot:
                node._inputs.append(None)
            node._inputs[to_slot:] = [(maker, slot)]
