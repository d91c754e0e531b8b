"""Dumps as CANN and small devices write them, byte by byte, for tests."""

import struct

import numpy as np

# The numbers of the container's types and formats.
FLOAT, FLOAT16, INT8, UINT8, INT32, BOOL, BF16, INT4, UINT1, STRING, HIFLOAT8 = 1, 2, 3, 4, 7, 11, 27, 28, 29, 13, 33
E5M2, E4M3, E8M0, E3M2, E2M3, E2M1, E1M2, COMPLEX32 = 34, 35, 36, 37, 38, 39, 40, 32
NCHW, NHWC, ND, NC1HWC0, FRACTAL_Z, HWCN, FRACTAL_NZ = 0, 1, 2, 3, 4, 16, 29
NUMBERS = {"float32": FLOAT, "float16": FLOAT16, "int8": INT8, "uint8": UINT8, "int32": INT32, "bool": BOOL}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def shape_message(shape):
    return field(1, b"".join(varint(size) for size in shape))


class Tensor:
    """One tensor of a container: its bytes, and its description in the header."""

    def __init__(
        self, data, data_type=None, shape=None, *, cann_format=ND, original=None, groups=0, origin=None, size=None,
        address=0,
    ):  # fmt: skip
        array = data if isinstance(data, np.ndarray) else None
        self.bytes = array.tobytes() if array is not None else bytes(data)
        self.data_type = NUMBERS[str(array.dtype)] if data_type is None else data_type
        self.shape = tuple(array.shape) if shape is None else shape
        self.format, self.original, self.groups, self.origin = cann_format, original, groups, origin
        self.size = len(self.bytes) if size is None else size
        self.address = address

    def message(self, is_input, input_type=0):
        first = 5 if is_input else 6  # inputs have no original_op: their numbers are one lower
        text = field(1, self.data_type) + field(2, self.format) + field(3, shape_message(self.shape))
        if self.origin and not is_input:
            text += field(4, field(1, self.origin[0].encode()) + field(4, self.origin[1]))
        text += field(first, self.size)
        if self.original is not None:
            text += field(first + 1, shape_message(self.original))
        if self.groups:
            text += field(first + 2, self.groups)
        if self.address:
            text += field(first + 3, self.address)
        return text + (field(11, input_type) if input_type else b"")


def tensor(value):
    return value if isinstance(value, Tensor) else Tensor(value)


def container(inputs=(), outputs=(), op_name="net/op", *, buffers=(), spaces=(), attributes=(), general=()):
    """`general`: bytes of an exception dump's arguments, described as inputs and stored last."""
    inputs, outputs = [tensor(t) for t in inputs], [tensor(t) for t in outputs]
    message = field(1, b"2.0") + field(2, 1700000000000000)
    message += b"".join(field(3, t.message(False)) for t in outputs)
    message += b"".join(field(4, t.message(True)) for t in inputs)
    message += b"".join(field(4, Tensor(g, 0, ()).message(True, 1)) for g in general)
    message += b"".join(field(5, field(3, len(b))) for b in buffers)
    message += field(6, op_name.encode())
    message += b"".join(field(7, field(1, k.encode()) + field(2, v.encode())) for k, v in attributes)
    message += b"".join(field(8, field(3, len(s))) for s in spaces)
    parts = [t.bytes for t in [*inputs, *outputs]] + [*buffers, *spaces, *general]
    return struct.pack("<Q", len(message)) + message + b"".join(parts)


def nano(inputs=(), outputs=()):
    """Arrays of float32 and uint8, as a small device has them; a shape of None is left out."""
    ge_types = {"float32": 0, "uint8": 4, "float16": 1}

    def tlv(tag, data):
        return struct.pack("<II", tag, len(data)) + data

    def record(array, shape, is_input):
        parts = b"" if shape is None else tlv(0, struct.pack(f"<{len(shape)}Q", *shape))
        head = struct.pack("<iii", ge_types[str(array.dtype)], ND, 0)
        head += b"" if is_input else struct.pack("<iii", 0, 0, 2)
        return head + struct.pack("<QQQI", 0x1000, 0, array.nbytes, len(parts)) + parts

    header = struct.pack("<II", 0x5A5A5A5A, 1)
    for tag, side in ((4, inputs), (5, outputs)):
        value = struct.pack("<I", len(side)) + b"".join(record(a, s, tag == 4) for a, s in side)
        header += tlv(tag, value)
    return struct.pack("<Q", len(header)) + header + b"".join(a.tobytes() for a, _ in [*inputs, *outputs])
