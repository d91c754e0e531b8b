"""Graphs as a workbook: `dump_{YYYYmmdd_HHMMSS}.xlsx`."""

import json
import re
import time
from pathlib import Path

from ..dump import extra

_ID = re.compile(r"-op(\d+)$")
_MOST_OF_A_CELL = 32767
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_TITLES = {
    "info": ("argument", "value"),
    "constant": ("name", "value", "downstream", "rank_id", "graph_name"),
    "parameter": ("name", "output_dtype", "output_shape", "downstream", "rank_id", "graph_name"),
    "operator": (
        "operator",
        "input",
        "input_dtype",
        "input_shape",
        "output_dtype",
        "output_shape",
        "downstream",
        "name",
        "attrs",
        "scope",
        "full_name",
        "rank_id",
        "graph_name",
        "stack",
    ),
    "statistics": ("operator", "count"),
    "source": ("stack", "operator", "full_name", "rank_id", "graph_name"),
}


def export(dump, graphs, output_dir=None):
    openpyxl = extra("openpyxl", "xlsx", "a workbook")
    directory = Path("." if output_dir is None else output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    path = (directory / time.strftime("dump_%Y%m%d_%H%M%S.xlsx")).resolve()
    book = openpyxl.Workbook(write_only=False)
    book.remove(book.active)
    groups = _sources(graphs)
    tables = {
        "info": _info(dump),
        "constant": [_constant(node) for node in _nodes(graphs, "constant")],
        "parameter": [_parameter(node) for node in _nodes(graphs, "parameter")],
        "operator": [_operator(node) for node in _nodes(graphs, "operator")],
        "statistics": _statistics(graphs),
        "source": [row for group in groups for row in group],
    }
    for title, rows in tables.items():
        sheet = book.create_sheet(title)
        sheet.append(_TITLES[title])
        for row in rows:
            sheet.append([_cell(value) for value in row])
            for cell in sheet[sheet.max_row]:
                if cell.data_type == "f":  # a text that begins with `=` is no formula
                    cell.data_type = "s"
        sheet.freeze_panes = "B2"
        sheet.auto_filter.ref = f"A1:{openpyxl.utils.get_column_letter(len(_TITLES[title]))}1"
        if title == "source":
            _merge_stacks(sheet, groups)
    book.save(path)
    return str(path)


def _merge_stacks(sheet, groups):
    first = 2
    for group in groups:
        if len(group) > 1:
            sheet.merge_cells(start_row=first, end_row=first + len(group) - 1, start_column=1, end_column=1)
        first += len(group)


def _nodes(graphs, kind):
    return [node for graph in graphs for node in graph.nodes if node._kind == kind]


def _cell(value):
    """What a workbook can hold: control characters are left out."""
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return _UNPRINTABLE.sub("", str(value))[:_MOST_OF_A_CELL]


def _info(dump):
    rows = [("dump-dir", str(dump.path))]
    for rank in dump.ranks:
        path = Path(dump._core.directory(rank), ".dump_metadata", "data_dump.json")
        try:
            settings = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        rows += [(name, value if isinstance(value, (bool, int)) else str(value)) for name, value in _flat(settings)]
        break
    return rows


def _flat(settings, prefix=""):
    for name, value in settings.items() if isinstance(settings, dict) else ():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _label(node):
    """`{type}_{number}`; of parameters and constants the name."""
    if node._kind != "operator":
        return node.name
    number = _ID.search(node.name)
    if node._type == "Load" or number is None:
        return f"{node._type}_{node._short_name}"
    return f"{node._type}_{number[1]}"


def _downstream(node):
    return "\n".join(_label(reader) for _, reader in node._readers)


def _slots(pairs):
    """Two cells: types, and shapes, a line for each slot."""
    types = "\n".join(dtype or "-" for dtype, _ in pairs)
    shapes = "\n".join("-" if shape is None else str(shape) for _, shape in pairs)
    return types, shapes


def _constant(node):
    value = node._value
    plain = isinstance(value, (bool, int, float, str)) or value is None
    return node.name, value if plain else str(value), _downstream(node), node.rank, node.graph_name


def _parameter(node):
    return (node.name, *_slots(node._outputs), _downstream(node), node.rank, node.graph_name)


def _outputs_of(node, slot):
    """Of one slot, or of all."""
    if slot is None:
        return node._outputs or [(None, None)]
    return [node._outputs[slot]] if slot < len(node._outputs) else [(None, None)]


def _operator(node):
    if node._type == "make_tuple":
        row = dict.fromkeys(_TITLES["operator"]) | {"operator": _label(node)}
        return tuple((row | {"rank_id": node.rank, "graph_name": node.graph_name}).values())
    inputs = [made for made in node._inputs if made is not None]
    outputs = [pair for maker, slot in inputs for pair in _outputs_of(maker, slot)]
    return (
        _label(node),
        "\n".join(_label(maker) for maker, _ in inputs),
        *_slots(outputs),
        *_slots(node._outputs),
        _downstream(node),
        node._short_name,
        str(node._attributes),
        node._scope,
        getattr(node, "_file_name", node.name),
        node.rank,
        node.graph_name,
        "\n".join(str(line) for line in node.stack),
    )


def _statistics(graphs):
    counts = {}
    for node in _nodes(graphs, "operator"):
        counts[node._type] = counts.get(node._type, 0) + 1
    return sorted(counts.items())


def _sources(graphs):
    """Rows of operators, those of one stack in one group, by number in it; the stack in the first."""
    groups = {}
    for node in _nodes(graphs, "operator"):
        stack = "\n".join(str(line) for line in node.stack)
        if stack:
            groups.setdefault(stack, []).append(node)
    tables = []
    for stack, nodes in groups.items():
        nodes.sort(key=lambda node: int(match[1]) if (match := _ID.search(node.name)) else -1)
        rows = [(None, _label(node), node.name, node.rank, node.graph_name) for node in nodes]
        tables.append([(stack, *rows[0][1:]), *rows[1:]])
    return tables
