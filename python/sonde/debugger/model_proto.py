"""Graph files of MindSpore and Sonde, `ms_output_trace_code_graph_{id}.pb`: message ModelProto of docs/format.md."""

import os
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from .._core import message_fields

Slot: TypeAlias = tuple[str | None, tuple[int, ...] | None]  # type and shape; None if it is not a tensor

_LARGEST = 256 << 20
_DEEPEST = 50
_TYPES = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    13: "string",
    46: "bfloat16",
}
_TUPLE, _LIST, _NONE, _MONADS = 31, 32, 34, (43, 44)


class BadGraph(ValueError):
    """The bytes are not a graph."""


class RawNode(TypedDict):
    """NodeProto. `inputs`: names of nodes, parameters and constants; `source`: lines of the stack."""

    inputs: list[str]
    name: str
    type: str
    scope: str
    attributes: dict[str, object]
    outputs: list[Slot]
    full_name: str
    source: str


class RawParameter(TypedDict):
    """ParameterProto."""

    name: str
    outputs: list[Slot]


class RawConstant(TypedDict):
    """NamedValueProto."""

    name: str
    value: object


class RawGraph(TypedDict):
    """GraphProto."""

    name: str
    root_name: str
    nodes: list[RawNode]
    parameters: list[RawParameter]
    constants: list[RawConstant]


def read_graph(path: str | os.PathLike[str]) -> RawGraph:
    """The GraphProto of a file, as a dictionary. Raises BadGraph, OSError."""
    path = Path(path)
    if path.stat().st_size > _LARGEST:
        raise BadGraph(f"{path}: more than {_LARGEST >> 20} MB")
    try:
        for field, value in message_fields(path.read_bytes()):
            if field == 4:
                return _graph(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadGraph(f"{path}: not a complete ModelProto: {error}") from None
    raise BadGraph(f"{path}: a ModelProto without a graph")


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else ""


def _named(data: bytes) -> dict[int, Any]:
    """{number: value}, the last of each."""
    return dict(message_fields(data))


def _graph(data: bytes) -> RawGraph:
    graph: RawGraph = {"name": "", "root_name": "", "nodes": [], "parameters": [], "constants": []}
    for field, value in message_fields(data):
        if field == 1:
            graph["nodes"].append(_node(value))
        elif field == 2:
            graph["name"] = _text(value)
        elif field == 3:
            named = _named(value)
            graph["parameters"].append({"name": _text(named.get(1)), "outputs": _type(named.get(2, b""))})
        elif field == 5:
            named = _named(value)
            graph["constants"].append({"name": _text(named.get(1)), "value": _constant(named.get(2))})
        elif field == 6:
            graph["root_name"] = _text(value)
    return graph


def _node(data: bytes) -> RawNode:
    node: RawNode = {
        "inputs": [],
        "name": "",
        "type": "",
        "scope": "",
        "attributes": {},
        "outputs": [],
        "full_name": "",
        "source": "",
    }
    for field, value in message_fields(data):
        if field == 1:
            node["inputs"].append(_text(_named(value).get(1)))
        elif field == 2:
            node["name"] = _text(value)
        elif field == 3:
            node["type"] = _text(value)
        elif field == 4:
            node["scope"] = _text(value)
        elif field == 5:
            named = _named(value)
            node["attributes"][_text(named.get(1))] = _value(named.get(2, b""))
        elif field == 6:
            node["outputs"] = _type(value)
        elif field == 8:
            node["full_name"] = _text(value)
        elif field == 9:
            node["source"] = _text(value)
    return node


def _type(data: bytes, depth: int = 0) -> list[Slot]:
    """(type, shape) of each slot; (None, None) for one that is not a tensor."""
    code, tensor, sequence = 0, None, None
    for field, value in message_fields(data):
        if field == 1:
            code = value
        elif field == 2:
            tensor = value
        elif field == 3:
            sequence = value
    if sequence is not None and depth < _DEEPEST:
        return [slot for field, value in message_fields(sequence) if field == 1 for slot in _type(value, depth + 1)]
    if tensor is None:
        return [(_TYPES.get(code), None)]
    named = _named(tensor)
    if depth and not named.get(2):
        return [(_TYPES.get(named.get(1, 0), "?"), None)]  # the shape of a tuple's element is not given
    sizes = []
    for field, dim in message_fields(named.get(2, b"")):
        if field == 1:
            sizes.append(_named(dim).get(1, 0))
    return [(_TYPES.get(named.get(1, 0), "?"), tuple(sizes))]


def _value(data: bytes, depth: int = 0) -> object:
    """A number, text, tuple or list; None for a value without a plain form."""
    code = 0
    plain: object = None
    several: list[object] = []
    for field, value in message_fields(data):
        if field == 1:
            code = value
        elif field == 2:
            plain = bool(value)
        elif field in (3, 4, 5, 6):
            plain = value
        elif field == 7:
            plain = _text(value)
        elif field == 18 and depth < _DEEPEST:
            several.append(_value(value, depth + 1))
    if code == _TUPLE:
        return tuple(several)
    if code == _LIST:
        return several
    if plain is None and code in _TYPES and code <= 9:  # a zero is not written
        return False if code == 1 else 0
    return plain


def _constant(data: bytes | None) -> object:
    """Its value; 'NONE' if it has none, 'TENSOR' for a tensor, whose values are not in graph files."""
    if data is None:
        return "TENSOR"
    if not data:
        return "NONE"
    named = _named(data)
    if named.get(1) in _MONADS or named.get(1) == _NONE:
        return "NONE"
    value = _value(data)
    return "TENSOR" if value is None else value
