"""Reads a `.pb` graph by the tables of docs/format.md alone: {field name: [values]} per message."""

# Message -> field number -> (name, kind); a kind that is a message of this table is decoded in turn.
MESSAGES = {
    "ModelProto": {1: ("ir_version", "int"), 4: ("graph", "GraphProto")},
    "GraphProto": {
        1: ("node", "NodeProto"),
        2: ("name", "text"),
        3: ("parameters", "Typed"),
        4: ("outputs", "Typed"),
        5: ("const_vals", "NamedValueProto"),
        6: ("root_name", "text"),
    },
    "NodeProto": {
        1: ("input", "InputProto"),
        2: ("name", "text"),
        3: ("op_type", "text"),
        4: ("scope", "text"),
        5: ("attribute", "AttributeProto"),
        6: ("output_type", "TypeProto"),
        8: ("full_name", "text"),
        9: ("source_address", "text"),
    },
    "InputProto": {1: ("name", "text"), 2: ("type", "int")},
    "AttributeProto": {1: ("name", "text"), 2: ("value", "ValueProto")},
    "Typed": {1: ("name", "text"), 2: ("type", "TypeProto")},
    "NamedValueProto": {1: ("key", "text"), 2: ("value", "ValueProto"), 3: ("full_name", "text")},
    "TypeProto": {1: ("data_type", "int"), 2: ("tensor_type", "TensorType"), 3: ("sequence_type", "SequenceType")},
    "TensorType": {1: ("elem_type", "int"), 2: ("shape", "Shape")},
    "SequenceType": {1: ("elem_types", "TypeProto")},
    "Shape": {1: ("dim", "Dim")},
    "Dim": {1: ("size", "int")},
    "ValueProto": {
        1: ("dtype", "int"),
        2: ("bool_val", "int"),
        3: ("int_val", "int"),
        6: ("double_val", "double"),
        7: ("str_val", "text"),
        18: ("values", "ValueProto"),
    },
}


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def decode(data, message="ModelProto"):
    found, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        name, kind = MESSAGES[message][key >> 3]  # a field the document does not list is an error
        if key & 7 == 0:
            assert kind == "int"
            value, at = _varint(data, at)
        elif key & 7 == 1:
            assert kind == "double"
            value, at = data[at : at + 8], at + 8
        else:
            assert key & 7 == 2
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
            value = value.decode() if kind == "text" else decode(value, kind)
        found.setdefault(name, []).append(value)
    return found
