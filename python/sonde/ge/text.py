"""A graph as text in GE's forms.

proto     protobuf text of GE's ModelDef, as in ge_proto_*.txt
graph_def the same of one GraphDef, as TorchAir's graph_dump `txt`
tensorflow  protobuf text of TensorFlow's GraphDef, as TorchAir's graph_dump `pbtxt`, for TensorBoard and Netron
onnx      protobuf text of ONNX's ModelProto, as in ge_onnx_*.pbtxt
readable  GE's readable form, as in ge_readable_*.txt
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from .graph import Description, GeGraph, Operator, Value, type_name


class Word(str):
    """A value that is printed without quotes: a member of an enum."""


_Field: TypeAlias = "str | int | float | bool | Word | Sequence[tuple[str, _Field]]"
_Fields: TypeAlias = "list[tuple[str, _Field]]"

# Of a list's values in GE's AttrDef: its field, and its val_type.
_KINDS: dict[type, tuple[str, str]] = {
    bool: ("b", "VT_LIST_BOOL"),
    int: ("i", "VT_LIST_INT"),
    float: ("f", "VT_LIST_FLOAT"),
    str: ("s", "VT_LIST_STRING"),
}


def proto(graph: GeGraph) -> str:
    """Protobuf text of GE's ModelDef."""
    return _text([("name", graph.name), ("version", 2), ("graph", _graph_fields(graph))])


def graph_def(graph: GeGraph) -> str:
    """Protobuf text of GE's GraphDef."""
    return _text(_graph_fields(graph))


def tensorflow(graph: GeGraph) -> str:
    """Protobuf text of TensorFlow's GraphDef."""
    return _text([("node", _tensorflow_fields(one)) for one in graph.operators])


def onnx(graph: GeGraph) -> str:
    """Protobuf text of ONNX's ModelProto."""
    fields: _Fields = [("name", graph.name)]
    fields[:0] = [("node", _onnx_fields(one)) for one in graph.operators]
    fields += [("input", [("name", name)]) for name in graph.inputs()]
    fields += [("output", [("name", name)]) for name in graph.outputs()]
    return _text([("ir_version", 4), ("producer_name", "sonde"), ("graph", fields)])


def readable(graph: GeGraph) -> str:
    """GE's readable form."""
    readers: dict[str, int] = {}
    for one in graph.operators:
        for source in one.inputs:
            readers[source] = readers.get(source, 0) + 1
    instances = {one.name: f"{_identifier(one.name)}_{n}" for n, one in enumerate(graph.operators)}
    lines = [f'graph("{graph.name}"):']
    results: dict[str, str] = {}  # `name:output` -> the text that names it
    elements = 0
    for one in graph.operators:
        if one.type == "NetOutput":
            continue
        count = len(one.output_descriptions)
        lines.append(f"  %{instances[one.name]} : [#users={count}] = Node[type={one.type}]{_arguments(one, results)}")
        results[f"{one.name}:0"] = f"%{instances[one.name]}"
        for slot in range(count if count > 1 else 0):
            element = f"%ret_{elements}" if elements else "%ret"
            users = readers.get(f"{one.name}:{slot}", 0)
            lines.append(f"  {element} : [#users={users}] = get_element[node=%{instances[one.name]}]({slot})")
            results[f"{one.name}:{slot}"] = element
            elements += 1
    lines += ["", _returned([results.get(name, "%none") for name in graph.outputs()])]
    return "\n".join(lines) + "\n"


def _arguments(operator: Operator, results: dict[str, str]) -> str:
    """` (inputs = (x1=%a, x2=%b), attrs = {axis: 1})`."""
    parts = []
    names = [description.name for description in operator.input_descriptions]
    names += [f"_input_{n}" for n in range(len(names), len(operator.inputs))]
    inputs = [
        f"{name}={results[source]}" for name, source in zip(names, operator.inputs, strict=False) if source in results
    ]
    if inputs:
        parts.append(f"inputs = ({', '.join(inputs)})")
    attributes = [f"{key}: {_readable_value(value)}" for key, value in operator.attributes.items() if key[:1] != "_"]
    if attributes:
        parts.append("attrs = {" + ", ".join(attributes) + "}")
    return f" ({', '.join(parts)})"


def _returned(results: list[str]) -> str:
    if len(results) == 1:
        return f"  return ({results[0]})"
    return "  return (" + ", ".join(f"output_{n}={name}" for n, name in enumerate(results)) + ")"


def _readable_value(value: Value) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Sequence):
        shown = [_readable_value(one) for one in value]
        if len(shown) > 6:
            shown = [*shown[:3], "...", *shown[-3:]]
        return "{" + ", ".join(shown) + "}" if shown else "<empty>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _identifier(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)


# --- fields of messages -----------------------------------------------------------------------------------------------


def _graph_fields(graph: GeGraph) -> _Fields:
    fields: _Fields = [("name", graph.name)]
    fields += [("input", name) for name in graph.inputs()]
    fields += [("output", name) for name in graph.outputs()]
    makers = {one.name: one for one in graph.operators}
    fields += [("op", _operator_fields(n, one, makers)) for n, one in enumerate(graph.operators)]
    return fields


def _operator_fields(number: int, operator: Operator, makers: dict[str, Operator]) -> _Fields:
    fields: _Fields = [("name", operator.name), ("type", operator.type)]
    fields += [("input", source) for source in operator.inputs]
    fields += [("attr", _attribute_fields(key, value)) for key, value in operator.attributes.items()]
    fields.append(("id", number))
    fields += [("input_name", one.name) for one in operator.input_descriptions]
    made = [(name, slot) for name, _, slot in (source.rpartition(":") for source in operator.inputs) if name in makers]
    fields += [("src_name", name) for name, _ in made]
    fields += [("src_index", int(slot)) for _, slot in made]
    fields += [("input_desc", _description_fields(one)) for one in operator.input_descriptions]
    fields += [("output_desc", _description_fields(one)) for one in operator.output_descriptions]
    return fields


def _description_fields(description: Description) -> _Fields:
    fields: _Fields = [("name", description.name), ("dtype", Word(type_name(description.dtype)))]
    fields += [("shape", [("dim", size) for size in description.shape]), ("layout", "ND")]
    fields += [("attr", _attribute_fields(key, value)) for key, value in description.attributes.items()]
    return [*fields, ("device_type", "CPU")]


def _attribute_fields(key: str, value: Value) -> _Fields:
    return [("key", key), ("value", _value_fields(value))]


def _value_fields(value: Value) -> _Fields:
    if isinstance(value, str | int | float):
        return [(_KINDS[type(value)][0], value)]
    if not value:
        return [("list", [])]
    numbers = [one for one in value if isinstance(one, str | int | float)]
    if {type(one) for one in numbers} == {int, float}:
        numbers = [float(one) for one in numbers]
    if len(numbers) < len(value) or len({type(one) for one in numbers}) > 1:
        return [("s", str(value))]
    name, kind = _KINDS[type(numbers[0])]
    return [("list", [*((name, one) for one in numbers), ("val_type", Word(kind))])]


def _tensorflow_fields(operator: Operator) -> _Fields:
    fields: _Fields = [("name", operator.name), ("op", operator.type)]
    for source in operator.inputs:
        name, _, slot = source.rpartition(":")
        fields.append(("input", f"^{name}" if slot == "-1" else source))
    texts = [(key, _text(_value_fields(value)).strip()) for key, value in operator.attributes.items()]
    for letter, descriptions in (("i", operator.input_descriptions), ("o", operator.output_descriptions)):
        texts += [(f"[{letter}]{one.name}", _text(_description_fields(one))) for one in descriptions]
    fields += [("attr", [("key", key), ("value", [("s", text)])]) for key, text in texts]
    return fields


class _OnnxOperator(NamedTuple):
    name: str
    op_type: str


def _onnx_fields(operator: Operator) -> _Fields:
    fields: _Fields = [("input", source) for source in operator.inputs]
    fields += [("output", f"{operator.name}:{slot}") for slot in range(len(operator.output_descriptions))]
    fields += _OnnxOperator(operator.name, f"ge:{operator.type}")._asdict().items()
    attributes: dict[str, Value] = dict(operator.attributes)
    for side, descriptions in (("input", operator.input_descriptions), ("output", operator.output_descriptions)):
        for n, one in enumerate(descriptions):
            attributes[f"{side}_desc_dtype:{n}"] = type_name(one.dtype)
            attributes[f"{side}_desc_layout:{n}"] = "ND"
            attributes[f"{side}_desc_shape:{n}"] = list(one.shape)
    return [*fields, *(("attribute", _onnx_attribute(key, value)) for key, value in attributes.items())]


def _onnx_attribute(key: str, value: Value) -> _Fields:
    if isinstance(value, bool | int):
        return [("name", key), ("i", int(value)), ("type", Word("INT"))]
    if isinstance(value, float):
        return [("name", key), ("f", value), ("type", Word("FLOAT"))]
    if not isinstance(value, str):
        if all(isinstance(one, int) for one in value):
            return [("name", key), *(("ints", int(one)) for one in value), ("type", Word("INTS"))]  # type: ignore[arg-type]
        value = str(value)
    return [("name", key), ("s", value), ("type", Word("STRING"))]


# --- protobuf's text --------------------------------------------------------------------------------------------------


def _text(fields: _Fields) -> str:
    return "".join(f"{line}\n" for line in _lines(fields, ""))


def _lines(fields: Sequence[tuple[str, "_Field"]], indent: str) -> Iterator[str]:
    for name, value in fields:
        if isinstance(value, str | int | float):
            if value or _is_in_a_choice(name):
                yield f"{indent}{name}: {_scalar(value)}"
        else:
            yield f"{indent}{name} {{"
            yield from _lines(value, indent + "  ")
            yield f"{indent}}}"


def _is_in_a_choice(name: str) -> bool:
    """True for fields that are printed even if they are zero or empty: repeated ones, and those of a one-of."""
    return name in ("s", "i", "f", "b", "input", "dim", "ints", "src_index")


def _scalar(value: str | int | float) -> str:
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return f'"{_escaped(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def _escaped(text: str) -> str:
    """With C's escapes; bytes of other characters than ASCII's in octal, as protobuf prints them."""
    shown = []
    for c in text:
        if c in _ESCAPES:
            shown.append(_ESCAPES[c])
        elif " " <= c <= "~":
            shown.append(c)
        else:
            shown += [f"\\{byte:03o}" for byte in c.encode(errors="backslashreplace")]
    return "".join(shown)
