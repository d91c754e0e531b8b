"""Graphs of a dump: from its graph files, or, if it has none or they lack an operator, from the records."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..dump import Dump, Op
from ..dump.graph import edges_of_step, ops_of_step
from . import model_proto
from .data import Data
from .nodes import Graph, Node, Source

_FILE = re.compile(r"ms_output_trace_code_graph_(\d+)\.pb")
_NAMELESS = "\u0444"  # before the name of a parameter of a block
_NUMBER = re.compile(r"-op\d+$")


def graphs_of(dump: Dump) -> tuple[list[Graph], Data]:
    """Every Graph of a dump, by rank and number, and the Data of their tensors."""
    data = Data(dump)
    graphs: list[Graph] = []
    for rank in dump.ranks:
        found: dict[int, Graph] = {}
        for number, path in _files(dump.directory(rank), rank):
            try:
                found[number] = _from_file(data, rank, number, path)
            except (model_proto.BadGraph, OSError):
                continue  # the records supply the rest
        for number in sorted({step.graph for step in dump.steps if step.rank == rank}):
            _add_recorded(data, rank, number, found)
        for number in sorted(found):
            found[number].connect()
            graphs.append(found[number])
    return graphs, data


def _files(directory: Path, rank: int) -> list[tuple[int, Path]]:
    """(number, path) of the graph files of a rank, wherever its layout has them."""
    metadata = directory / ".dump_metadata"
    for place in (directory, metadata, metadata / "mindspore" / f"rank_{rank}"):
        found = [(int(match[1]), path) for path in place.glob("graphs/*.pb") if (match := _FILE.fullmatch(path.name))]
        if found:
            return sorted(found)
    return []


def _iterations(data: Data, rank: int, *numbers: int) -> list[int]:
    steps = [step for step in data.dump.steps if step.rank == rank]
    own = [step for step in steps if step.graph in numbers]
    return sorted({step.step for step in own or steps})


# --- from a graph file ------------------------------------------------------------------------------------------------


def _from_file(data: Data, rank: int, number: int, path: Path) -> Graph:
    raw = model_proto.read_graph(path)
    root_id = int(raw["root_name"]) if re.fullmatch(r"[0-9]{1,9}", raw["root_name"]) else number
    graph = Graph(
        data, rank, number, root_id=root_id, name=raw["name"], iterations=_iterations(data, rank, root_id, number)
    )
    by_name: dict[str, Node] = {}  # of the file -> node
    for constant in raw["constants"]:
        node = graph.add(
            Node(
                graph, constant["name"], "Const", kind="constant", short_name=constant["name"], value=constant["value"]
            )
        )
        by_name[constant["name"]] = node
    for parameter in raw["parameters"]:
        node = graph.add(Node(graph, parameter["name"].removeprefix(_NAMELESS), "Parameter", kind="parameter"))
        node.outputs = parameter["outputs"]
        by_name[parameter["name"]] = node
    for operator in raw["nodes"]:
        by_name[operator["name"]] = graph.add(_node_of(graph, operator))
    for operator in raw["nodes"]:
        _join(by_name, operator)
    _match_names(data, graph)
    return graph


def _node_of(graph: Graph, raw: model_proto.RawNode) -> Node:
    name = raw["full_name"] or raw["name"]
    if raw["type"] == "Load":  # MindSpore renumbers these in each scope; the debugger uses their place
        name = _NUMBER.sub(f"-op{raw['name']}", name)
    lines = [line.strip() for line in raw["source"].splitlines()]
    stack = [Source.of_line(line) for line in lines if line]
    node = Node(
        graph, name, raw["type"], short_name=raw["name"], scope=raw["scope"], stack=stack, attributes=raw["attributes"]
    )
    node.file_name = raw["full_name"]
    node.outputs = raw["outputs"]
    return node


def _join(by_name: Mapping[str, Node], operator: model_proto.RawNode) -> None:
    """All elements of a tuple that is read."""
    node = by_name[operator["name"]]
    for name in operator["inputs"]:
        maker = by_name.get(name) or by_name.get(name.removeprefix(_NAMELESS))
        if maker is not None:
            node.inputs.append((maker, None))


def _match_names(data: Data, graph: Graph) -> None:
    """Operators that MindSpore recreated after their files got a name are matched with those of the same scope and
    type: by their lines, as in the catalog (docs/format.md, "MindSpore's own graphs"), otherwise in order."""
    recorded = set(data.names_of(graph.rank))
    known = {node.name for node in graph.nodes}
    left: dict[str, list[str]] = {}  # scope and type -> names of files
    for name in sorted(recorded - known, key=_numbered):
        left.setdefault(_numbered(name)[0], []).append(name)
    for node in graph.nodes:
        stem = _numbered(node.name)[0]
        if node.kind == "operator" and node.name not in recorded and left.get(stem):
            lines = {(line.file_path, line.line_no) for line in node.stack}
            names = left[stem]
            fitting = next(
                (name for name in names if (own := data.lines_of(graph.rank, name)) and own <= lines), names[0]
            )
            names.remove(fitting)
            data.rename(graph.key, node.name, fitting)


def _numbered(name: str) -> tuple[str, int]:
    stem, _, number = name.rpartition("-op")
    return (stem, int(number)) if stem and number.isdecimal() else (name, -1)


# --- from the records -------------------------------------------------------------------------------------------------


def _add_recorded(data: Data, rank: int, number: int, found: dict[int, Graph]) -> None:
    """Operators of the dump that no graph file of the rank has."""
    dump = data.dump
    graph = found.get(number)
    known = data.renamed(each.key for each in found.values())
    known |= {node.name for each in found.values() for node in each.nodes}
    if graph is None:
        graph = Graph(
            data, rank, number, root_id=number, name=f"kernel_graph{number}", iterations=_iterations(data, rank, number)
        )
        found[number] = graph
    nodes = {node.name: node for node in graph.nodes}
    parameters: list[Node] = []
    operators: list[Node] = []
    for step_row, step in enumerate(dump.steps):
        if (step.rank, step.graph) != (rank, number):
            continue
        new = [op for op in ops_of_step(dump.tables, step_row) if op.op_name not in known]
        for op in new:
            if op.op_name in nodes:
                continue
            node = nodes[op.op_name] = _recorded_node(graph, op)
            (parameters if op.is_parameter else operators).append(node)
        if new:
            _join_recorded(dump, graph, step_row, nodes=nodes, new={op.row for op in new}, parameters=parameters)
        known |= {op.op_name for op in new}
    graph.nodes = graph.nodes + operators if not parameters else _ordered(graph.nodes + parameters + operators)
    if not graph.nodes:
        del found[number]


def _ordered(nodes: Iterable[Node]) -> list[Node]:
    order = {"constant": 0, "parameter": 1, "operator": 2}
    return sorted(nodes, key=lambda node: order[node.kind])


def _recorded_node(graph: Graph, op: Op) -> Node:
    kind = "parameter" if op.is_parameter else "operator"
    stack = [Source(place.file, place.line, place.code.strip()) for place in op.stack]
    scope = op.op_name.rpartition("/")[0]
    node = Node(
        graph,
        op.op_name,
        "Parameter" if op.is_parameter else op.op_type,
        kind=kind,
        short_name=op.op_name,
        scope=scope,
        stack=stack,
        attributes=op.attributes,
    )
    slots: dict[int, model_proto.Slot] = {}
    for tensor in op.outputs:
        slots[tensor.slot] = (tensor.recorded_dtype or None, tensor.recorded_shape)
    node.outputs = [slots.get(slot, (None, None)) for slot in range(max(slots, default=-1) + 1)]
    return node


def _join_recorded(
    dump: Dump, graph: Graph, step_row: int, *, nodes: dict[str, Node], new: set[int], parameters: list[Node]
) -> None:
    names = dump.tables.ops.name
    for made, slot, parameter, reader, to_slot in edges_of_step(dump.tables, step_row):
        if reader not in new:
            continue
        node = nodes[names[reader]]
        maker: Node | None
        if made >= 0:
            maker = nodes.get(names[made])
        elif parameter in nodes:
            maker = nodes[parameter]
        else:
            maker = nodes[parameter] = Node(graph, parameter, "Parameter", kind="parameter", short_name=parameter)
            parameters.append(maker)
        if maker is not None:
            while len(node.inputs) < to_slot:
                node.inputs.append(None)
            node.inputs[to_slot:] = [(maker, slot)]
