"""A reader of CANN's dump container, written from docs/format.md ("Container") alone."""

import struct

import numpy as np

# Numbers of the element types that NumPy has.
NUMPY = {
    1: "<f4", 2: "<f2", 3: "|i1", 4: "|u1", 5: "<i2", 6: "<u2", 7: "<i4", 8: "<i8", 9: "<u4", 10: "<u8",
    11: "|b1", 12: "<f8", 16: "<c8", 17: "<c16", 18: "|i1", 20: "<i4", 21: "|u1",
}  # fmt: skip
BFLOAT16 = 27


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field of a protobuf message; bytes where the value has a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, value


def shape_of(message):
    sizes = []
    for number, value in fields(message):
        assert number == 1
        at = 0
        while at < len(value):
            size, at = varint(value, at)
            sizes.append(size)
    return tuple(sizes)


def tensor_of(message, size_field, original_field):
    known = {1: 0, 2: 0, 3: b"", size_field: 0, original_field: b"", **dict(fields(message))}
    return {
        "type": known[1],
        "format": known[2],
        "shape": shape_of(known[3]),
        "size": known[size_field],
        "original_shape": shape_of(known[original_field]),
    }


def array_of(tensor, payload):
    if tensor["type"] == BFLOAT16:
        words = np.frombuffer(payload, "<u2").astype("<u4") << 16
        return words.view("<f4").reshape(tensor["shape"])
    if tensor["type"] not in NUMPY:
        return None
    return np.frombuffer(payload, NUMPY[tensor["type"]]).reshape(tensor["shape"])


def read(path):
    """The header, and `inputs` and `outputs`: a list of descriptions, each with its `array` (None: no tensor)."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    result = {"inputs": [], "outputs": []}
    for number, value in fields(data[8 : 8 + length]):
        if number == 1:
            result["version"] = value.decode()
        elif number == 2:
            result["time"] = value
        elif number == 3:
            result["outputs"].append(tensor_of(value, 6, 7))
        elif number == 4:
            result["inputs"].append(tensor_of(value, 5, 6))
        elif number == 6:
            result["op_name"] = value.decode()
    at = 8 + length
    for tensor in result["inputs"] + result["outputs"]:
        payload = data[at : at + tensor["size"]]
        assert len(payload) == tensor["size"]
        at += tensor["size"]
        tensor["array"] = array_of(tensor, payload) if tensor["size"] else None
    assert at == len(data)
    return result
