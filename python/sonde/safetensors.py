"""The format of safetensors: 8 bytes with the length of a JSON text, that text, then tensors one after the other."""

import json
from collections.abc import Sequence
from typing import IO, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .errors import Error


class Source(Protocol):
    """A tensor of a dump, or another one with the same two members."""

    @property
    def dtype(self) -> str:
        """The name of its type."""

    def bits(self) -> tuple[NDArray[Any], str]:
        """(array, type), as those of dump.Tensor."""


Entry: TypeAlias = tuple[str, str, list[int], Source]  # name, code of its type, shape, the tensor

_CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "complex64": "C64",
    "qint8": "I8",
    "quint8": "U8",
    "qint32": "I32",
}


def bits_of(tensor: Source) -> tuple[str, list[int], NDArray[Any]]:
    """(code of its type, shape, its elements): a bfloat16 or 8-bit tensor keeps its type, even if the dump's file holds
    float32. Raises Error if the format has no such type."""
    elements, dtype = tensor.bits()
    wanted = tensor.dtype
    if dtype == "float32" and wanted != "float32" and (narrow := _narrowed(elements, wanted)) is not None:
        elements, dtype = narrow, wanted
    if dtype not in _CODES:
        raise Error(f"safetensors has no type for {dtype}")
    return _CODES[dtype], list(elements.shape), elements


def _narrowed(values: NDArray[Any], dtype: str) -> NDArray[Any] | None:
    """The bits of float32 values in the narrower type that they came from; None if some do not fit it."""
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values).view(np.uint32)
        return None if (bits & 0xFFFF).any() else (bits >> 16).astype(np.uint16).reshape(values.shape)
    if dtype == "float8_e5m2":
        bits = values.astype(np.float16).view(np.uint16)
        exact = np.array_equal(values, values.astype(np.float16), equal_nan=True) and not (bits & 0xFF).any()
        return (bits >> 8).astype(np.uint8) if exact else None
    if dtype == "float8_e4m3fn":
        table = _e4m3fn()
        order = np.argsort(table[:0x7F], kind="stable")
        found = np.searchsorted(table[:0x7F][order], np.abs(values)).clip(0, 0x7E)
        codes = order[found].astype(np.uint8)
        codes[np.isnan(values)] = 0x7F
        codes |= np.signbit(values).astype(np.uint8) << 7
        return codes if np.array_equal(table[codes], values, equal_nan=True) else None
    return None


def _e4m3fn() -> NDArray[np.float32]:
    """Values of the 256 codes: sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinities, 0x7F and 0xFF NaN."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    magnitude = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    magnitude[(code & 0x7F) == 0x7F] = np.nan
    return np.where(code < 128, magnitude, -magnitude).astype(np.float32)


def write(file: IO[bytes], entries: Sequence[Entry]) -> None:
    """Writes tensors, which are read one at a time. Raises Error if one has changed since, OSError."""
    header: dict[str, object] = {"__metadata__": {"format": "np", "producer": "sonde"}}
    offset = 0
    for name, code, shape, _ in entries:
        size = int(np.prod(shape, dtype=np.int64)) * _item_bytes(code)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name, code, shape, tensor in entries:
        again, same_shape, elements = bits_of(tensor)
        if (again, same_shape) != (code, shape):
            raise Error(f"{name} changed while it was written: {again} {same_shape}, before {code} {shape}")
        file.write(np.ascontiguousarray(elements).data.cast("B") if elements.size else b"")


def _item_bytes(code: str) -> int:
    if code.startswith(("F8", "BOOL")):
        return 1
    return int(code.lstrip("ABCFIU")) // 8
