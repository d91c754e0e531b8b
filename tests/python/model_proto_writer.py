"""Writes the `.pb` graph of a few operators, as MindSpore does, by the tables of docs/format.md."""

FLOAT16, FLOAT32 = 10, 11
TENSOR = 14


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _type(element, shape):
    dims = b"".join(_field(1, _field(1, size)) for size in shape)
    return _field(1, TENSOR) + _field(2, _field(1, element) + _field(2, dims))


def graph(parameters, nodes):
    """parameters: {name: (element, shape)}; nodes: [(full name, type, [names of inputs], element, shape)], whose names
    as inputs are their numbers from 1 on."""
    body = b"".join(_field(3, _field(1, name) + _field(2, _type(*of))) for name, of in parameters.items())
    for number, (full_name, op_type, inputs, element, shape) in enumerate(nodes, 1):
        node = b"".join(_field(1, _field(1, name)) for name in inputs)
        node += _field(2, str(number)) + _field(3, op_type) + _field(6, _type(element, shape)) + _field(8, full_name)
        body += _field(1, node)
    return _field(4, body)
