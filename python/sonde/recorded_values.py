"""Recorded tensors as tensors of PyTorch, with their own type."""

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from . import safetensors
from .dump import Op, Tensor
from .errors import Error

Values: TypeAlias = dict[int, torch.Tensor]  # by slot

_TYPES = {
    "BOOL": torch.bool,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "U8": torch.uint8,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}


class CannotRun(Exception):
    """An operator cannot run again; the text is the reason."""


def torch_tensor(tensor: Tensor) -> torch.Tensor:
    """A copy of its values. Raises CannotRun if the dump does not have them, or PyTorch lacks the type."""
    what = f"{tensor.side}.{tensor.slot}"
    if is_empty(tensor):
        return torch.zeros(tensor.shape or (), dtype=dtype_named(tensor.dtype))
    if tensor.tensor_file is None:
        raise CannotRun(f"the dump has no values of {what}{f': {tensor.skipped}' if tensor.skipped else ''}")
    if tensor.dtype.startswith(("qint", "quint")):
        raise CannotRun(f"{what} is quantized, and the dump has its integers without their scale")
    if tensor.placement:
        raise CannotRun(f"{what} is a part of a DTensor")
    try:
        if tensor.dtype == "complex128":
            return torch.from_numpy(np.array(tensor.numpy()))
        code, shape, elements = safetensors.bits_of(tensor)
    except Error as error:
        raise CannotRun(f"{what} cannot be read: {error}") from None
    if code not in _TYPES:
        raise CannotRun(f"{what} is {tensor.dtype}, which cannot be read here")
    return torch.from_numpy(np.array(elements)).view(_TYPES[code]).reshape(shape)


class Bits:
    """A tensor of PyTorch as `safetensors.write` takes it."""

    def __init__(self, values: torch.Tensor) -> None:
        self._values = values.resolve_conj().contiguous()
        self.dtype = str(values.dtype).removeprefix("torch.")

    def bits(self) -> tuple[NDArray[Any], str]:
        """(array, type): unsigned integers where NumPy lacks the type."""
        narrow = self._values.dtype.is_floating_point and (self.dtype == "bfloat16" or self._values.itemsize == 1)
        if not narrow:
            return self._values.numpy(), self.dtype
        return self._values.view(torch.uint8 if self._values.itemsize == 1 else torch.uint16).numpy(), self.dtype


def inputs_of(op: Op) -> Values:
    """The inputs of an operator. An argument that it only writes is zeros. Raises CannotRun."""
    found: Values = {}
    for tensor in op.inputs:
        if tensor.skipped == "only written":
            found[tensor.slot] = torch.zeros(tensor.shape or (), dtype=dtype_named(tensor.dtype))
        else:
            found[tensor.slot] = torch_tensor(tensor)
    return found


def outputs_of(op: Op) -> Values:
    """The outputs that have values; those that the operator returns without having written them are left out."""
    found: Values = {}
    for tensor in op.outputs:
        if tensor.tensor_file is not None or is_empty(tensor):
            found[tensor.slot] = torch_tensor(tensor)
    return found


def is_empty(tensor: Tensor) -> bool:
    """Whether it has no element: its values are known without a file."""
    return tensor.skipped == "empty tensor" and 0 in (tensor.shape or ())


def has_values(tensors: Iterable[Tensor]) -> bool:
    """Whether the dump has the values of one of these."""
    return any(tensor.tensor_file is not None or is_empty(tensor) for tensor in tensors)


def dtype_named(name: str) -> torch.dtype:
    """torch.float32 for `float32` or c10's `Float`. Raises CannotRun if PyTorch has no such type."""
    lower = name.lower()
    words = {"byte": "uint8", "char": "int8", "complexfloat": "complex64", "complexdouble": "complex128"}
    lower = words.get(lower, lower)
    found = getattr(torch, lower, None) if re.fullmatch(r"\w+", lower) else None
    if not isinstance(found, torch.dtype):
        raise CannotRun(f"PyTorch has no type {name} here")
    return found


def is_fault(values: torch.Tensor) -> bool:
    """Whether a NaN or infinity is among the values."""
    return bool(not_finite(values).any())


def not_finite(values: torch.Tensor) -> torch.Tensor:
    """True where a NaN or infinity is. Types of 8 bits have no test of their own."""
    if values.dtype.is_complex or values.dtype.is_floating_point:
        return ~torch.isfinite(values.float() if values.dtype.itemsize == 1 else values)
    return torch.zeros(values.shape, dtype=torch.bool)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal type, shape and bits; every NaN equals every NaN, and 0 does not equal -0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.is_complex:
        return same_bits(torch.view_as_real(one.resolve_conj()), torch.view_as_real(other.resolve_conj()))
    different = _bits(one) != _bits(other)
    if one.dtype.is_floating_point:
        wide: Any = [tensor.float() if tensor.dtype.itemsize == 1 else tensor for tensor in (one, other)]
        different &= ~(torch.isnan(wide[0]) & torch.isnan(wide[1]))
    return not bool(different.any())


def _bits(values: torch.Tensor) -> torch.Tensor:
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return values.detach().resolve_neg().contiguous().view(integers[values.dtype.itemsize])
