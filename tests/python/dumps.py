"""Reading a dump in tests the way a user without Sonde would: file names, numpy, csv."""

import csv
import re
from collections import Counter

import numpy as np

NAME = re.compile(
    r"(?P<type>[^.]+)\.(?P<name>.+)\.(?P<task>\d+)\.(?P<stream>\d+)\.(?P<time>\d{16})"
    r"\.(?P<io>input|output)\.(?P<slot>\d+)\.(?P<format>[^.]+)\.(?P<dtype>[^.]+)\.npy$"
)


def step_directory(dump, iteration=0, graph=0, rank=0, net="Net"):
    return dump / f"rank_{rank}" / net / str(graph) / str(iteration)


def tensors(dump, iteration=0, graph=0, rank=0, numbered=False):
    """{(sanitised op name, 'input' or 'output', slot): array} of one step.

    numbered: files whose names were too long, so that mapping.csv knows them by a number, are left out."""
    found = {}
    for path in step_directory(dump, iteration, graph, rank).glob("*.npy"):
        parts = NAME.match(path.name)
        if numbered and path.stem.isdecimal():
            continue
        assert parts, path.name
        found[parts["name"], parts["io"], int(parts["slot"])] = np.load(path)
    return found


def statistics(dump, iteration=0, graph=0, rank=0):
    """Rows of statistic.csv as dictionaries, in file order."""
    with open(step_directory(dump, iteration, graph, rank) / "statistic.csv", newline="") as file:
        return list(csv.DictReader(file))


def steps(dump, graph=0, rank=0, net="Net"):
    directory = dump / f"rank_{rank}" / net / str(graph)
    return sorted(int(path.name) for path in directory.iterdir()) if directory.exists() else []


def execution_order(dump, graph=0, rank=0):
    lines = (
        (dump / f"rank_{rank}" / "execution_order" / f"ms_execution_order_graph_{graph}.csv").read_text().splitlines()
    )
    assert lines[0] == "NodeExecutionOrder-FullNameWithScope"
    return lines[1:]


def sanitised(full_name):
    """A full name in the form of file names."""
    return re.sub(r"[/\\. ]", "_", full_name)


def edges_of_command(ops):
    """The edges in the answer of `sonde graph --json`: (from, its slot, None: something inside of it, to, its slot) or
    (parameter, None, to, its slot), each with its number."""
    return Counter(
        (operand.get("op_name") or operand["parameter"], operand.get("slot"), op["op_name"], slot)
        for op in ops
        for slot, operand in enumerate(op["inputs"])
        if "op_name" in operand or "parameter" in operand
    )


def edges_of_python(graph):
    """The edges of `sonde.open(dump).graph`, in the form of edges_of_command()."""

    def slot_of(edge):
        outputs = [] if edge.from_op is None else [tensor.slot for tensor in edge.from_op.outputs]
        return edge.from_slot if edge.from_slot <= max(outputs, default=-1) else None

    return Counter(
        (edge.from_op.op_name if edge.from_op else edge.parameter, slot_of(edge), edge.to_op.op_name, edge.to_slot)
        for edge in graph.edges
    )
