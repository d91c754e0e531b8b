"""Graphs as a workbook: `dump_{YYYYmmdd_HHMMSS}.xlsx`."""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..dump import Dump
from ..extras import extra
from .model_proto import Slot
from .nodes import Graph, Node

_ID = re.compile(r"-op(\d+)$")
_MOST_OF_A_CELL = 32767
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


class _Setting(NamedTuple):
    argument: str
    value: object


class _Constant(NamedTuple):
    name: str
    value: object
    downstream: str
    rank_id: int
    graph_name: str


class _Parameter(NamedTuple):
    name: str
    output_dtype: str
    output_shape: str
    downstream: str
    rank_id: int
    graph_name: str


class _Operator(NamedTuple):
    operator: str
    input: str | None = None
    input_dtype: str | None = None
    input_shape: str | None = None
    output_dtype: str | None = None
    output_shape: str | None = None
    downstream: str | None = None
    name: str | None = None
    attrs: str | None = None
    scope: str | None = None
    full_name: str | None = None
    rank_id: int | None = None
    graph_name: str | None = None
    stack: str | None = None


class _Source(NamedTuple):
    stack: str | None
    operator: str
    full_name: str
    rank_id: int
    graph_name: str


def export(dump: Dump, graphs: Sequence[Graph], output_dir: str | os.PathLike[str] | None = None) -> str:
    """Writes the graphs into `dump_{time}.xlsx` in a directory (that of the process), and returns its path. Raises
    ImportError without openpyxl, OSError."""
    openpyxl = extra("openpyxl", "xlsx", "a workbook")
    directory = Path("." if output_dir is None else output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    path = (directory / time.strftime("dump_%Y%m%d_%H%M%S.xlsx")).resolve()
    book = openpyxl.Workbook(write_only=False)
    book.remove(book.active)
    groups = _sources(graphs)
    tables: dict[str, tuple[Sequence[str], Sequence[tuple[object, ...]]]] = {
        "info": (_Setting._fields, _info(dump)),
        "constant": (_Constant._fields, [_constant(node) for node in _nodes(graphs, "constant")]),
        "parameter": (_Parameter._fields, [_parameter(node) for node in _nodes(graphs, "parameter")]),
        "operator": (_Operator._fields, [_operator(node) for node in _nodes(graphs, "operator")]),
        "statistics": (("operator", "count"), _statistics(graphs)),
        "source": (_Source._fields, [row for group in groups for row in group]),
    }
    for title, (columns, rows) in tables.items():
        sheet = book.create_sheet(title)
        sheet.append(columns)
        for row in rows:
            sheet.append([_cell(value) for value in row])
            for cell in sheet[sheet.max_row]:
                if cell.data_type == "f":  # a text that begins with `=` is not a formula
                    cell.data_type = "s"
        sheet.freeze_panes = "B2"
        sheet.auto_filter.ref = f"A1:{openpyxl.utils.get_column_letter(len(columns))}1"
        if title == "source":
            _merge_stacks(sheet, groups)
    book.save(path)
    return str(path)


def _merge_stacks(sheet: Any, groups: Iterable[Sequence[_Source]]) -> None:
    first = 2
    for group in groups:
        if len(group) > 1:
            sheet.merge_cells(start_row=first, end_row=first + len(group) - 1, start_column=1, end_column=1)
        first += len(group)


def _nodes(graphs: Iterable[Graph], kind: str) -> list[Node]:
    return [node for graph in graphs for node in graph.nodes if node.kind == kind]


def _cell(value: object) -> object:
    """The text in a form that a workbook can store: control characters are left out."""
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return _UNPRINTABLE.sub("", str(value))[:_MOST_OF_A_CELL]


def _info(dump: Dump) -> list[_Setting]:
    rows = [_Setting("dump-dir", str(dump.path))]
    for rank in dump.ranks:
        path = dump.directory(rank) / ".dump_metadata" / "data_dump.json"
        try:
            settings = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        for name, value in _flat(settings):
            rows.append(_Setting(name, value if isinstance(value, (bool, int)) else str(value)))
        break
    return rows


def _flat(settings: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in settings.items() if isinstance(settings, dict) else ():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _label(node: Node) -> str:
    """`{type}_{number}`; for parameters and constants the name."""
    if node.kind != "operator":
        return node.name
    number = _ID.search(node.name)
    if node.op_type == "Load" or number is None:
        return f"{node.op_type}_{node.short_name}"
    return f"{node.op_type}_{number[1]}"


def _downstream(node: Node) -> str:
    return "\n".join(_label(reader) for _, reader in node.readers)


def _slots(pairs: Sequence[Slot]) -> tuple[str, str]:
    """Two cells: types, and shapes, a line for each slot."""
    types = "\n".join(dtype or "-" for dtype, _ in pairs)
    shapes = "\n".join("-" if shape is None else str(shape) for _, shape in pairs)
    return types, shapes


def _constant(node: Node) -> _Constant:
    value = node.value
    plain = isinstance(value, (bool, int, float, str)) or value is None
    return _Constant(node.name, value if plain else str(value), _downstream(node), node.rank, node.graph_name)


def _parameter(node: Node) -> _Parameter:
    return _Parameter(node.name, *_slots(node.outputs), _downstream(node), node.rank, node.graph_name)


def _outputs_of(node: Node, slot: int | None) -> list[Slot]:
    """The text for one slot, or for all."""
    if slot is None:
        return node.outputs or [(None, None)]
    return [node.outputs[slot]] if slot < len(node.outputs) else [(None, None)]


def _operator(node: Node) -> _Operator:
    if node.op_type == "make_tuple":
        return _Operator(_label(node), rank_id=node.rank, graph_name=node.graph_name)
    inputs = [made for made in node.inputs if made is not None]
    outputs = [pair for maker, slot in inputs for pair in _outputs_of(maker, slot)]
    return _Operator(
        _label(node),
        "\n".join(_label(maker) for maker, _ in inputs),
        *_slots(outputs),
        *_slots(node.outputs),
        _downstream(node),
        node.short_name,
        str(node.attributes),
        node.scope,
        node.file_name,
        node.rank,
        node.graph_name,
        "\n".join(str(line) for line in node.stack),
    )


def _statistics(graphs: Iterable[Graph]) -> list[tuple[str, int]]:
    return sorted(Counter(node.op_type for node in _nodes(graphs, "operator")).items())


def _sources(graphs: Iterable[Graph]) -> list[list[_Source]]:
    """Rows of operators; those of one stack are in one group, ordered by number; the stack is in the first row."""
    groups: dict[str, list[Node]] = {}
    for node in _nodes(graphs, "operator"):
        stack = "\n".join(str(line) for line in node.stack)
        if stack:
            groups.setdefault(stack, []).append(node)
    tables: list[list[_Source]] = []
    for stack, nodes in groups.items():
        nodes.sort(key=lambda node: int(match[1]) if (match := _ID.search(node.name)) else -1)
        rows = [_Source(None, _label(node), node.name, node.rank, node.graph_name) for node in nodes]
        tables.append([rows[0]._replace(stack=stack), *rows[1:]])
    return tables
