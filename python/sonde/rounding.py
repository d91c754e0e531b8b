"""How far the result of an operator may be from the exact one by rounding alone.

The reference is the same operator in float64. Its inputs are then disturbed by one unit in the last place of the
recorded type, some times at random: how far the output moves is what the rounding of one element does, also where sums
cancel. The bound is a multiple of that movement and of the spacing of the output's values. It grows with the square
root of the length of the reduction, because roundings of different signs add up so.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import torch

from .recorded_calls import Argument, Call
from .recorded_runs import Again, run
from .recorded_values import Values, not_finite

_DISTURBANCES = 4
_FACTOR = 8.0
_NARROW = 1e-5  # the epsilon of a type of 16 or 8 bits is larger
_FACTOR_OF_NARROW = 3.0  # of 16 and 8 bits, whose kernels compute in float32
# Operators that copy or convert elements: they round once at most.
# fmt: off
_COPIES = {
    "to", "_to_copy", "type_as", "clone", "contiguous", "view", "_unsafe_view", "reshape", "_reshape_alias", "t",
    "transpose", "permute", "expand", "detach", "alias", "select", "slice", "narrow", "unsqueeze", "squeeze", "flatten",
    "unflatten", "cat", "stack", "split", "split_with_sizes", "chunk", "unbind", "index", "copy_", "lift_fresh", "flip",
    "roll", "embedding",
}
# fmt: on
# Operators whose result is not unique: of vectors the sign, of equal values the order.
_AMBIGUOUS = ("svd", "eig", "lobpcg", "qr", "geqrf", "unique")


class Distance(NamedTuple):
    """How far an output is from a reference, at the element that exceeds the bound most."""

    slot: int
    error: float
    bound: float
    lost: int = 0  # elements that are NaN or infinite where the reference is not, or the reverse

    @property
    def is_rounding(self) -> bool:
        """Whether rounding explains it."""
        return self.error <= self.bound and not self.lost


@dataclasses.dataclass(frozen=True)
class Reference:
    """Outputs of the exact operator, and how far each element moves. `kind`: the type of its floats, or `own`."""

    kind: str
    outputs: Values
    movement: Values


def reference_of(again: Again) -> Reference:
    """In float64; where PyTorch has no such kernel, in the recorded type."""
    epsilon = _epsilon(again)
    if not any(name in again.call.name for name in _AMBIGUOUS):
        for dtype in (torch.float64, torch.float32):
            if dtype == torch.float32 and epsilon < _NARROW:
                break
            try:
                return _reference(again, dtype, epsilon)
            except Exception:
                continue
    return Reference("own", again.outputs, {slot: torch.zeros(()) for slot in again.outputs})


def _reference(again: Again, dtype: torch.dtype, epsilon: float) -> Reference:
    call = _in_type(again.call, dtype)
    inputs = {slot: _wide(tensor, dtype) for slot, tensor in again.inputs.items()}
    exact = run(call, inputs)
    if any(slot not in exact or exact[slot].shape != tensor.shape for slot, tensor in again.recorded.items()):
        raise ValueError("other outputs")
    random = torch.Generator().manual_seed(0)
    movement = {slot: torch.zeros(tensor.shape, dtype=torch.float64) for slot, tensor in exact.items()}
    for _ in range(_DISTURBANCES):
        disturbed = {slot: _disturbed(tensor, epsilon, random) for slot, tensor in inputs.items()}
        moved = run(_disturbed_call(call, epsilon, random), disturbed)
        for slot, tensor in exact.items():
            movement[slot] = torch.maximum(movement[slot], _difference(moved[slot], tensor))
    return Reference(str(dtype).removeprefix("torch."), exact, movement)


def distance(again: Again, reference: Reference) -> Distance:
    """Of the output that exceeds its bound most."""
    found = [_distance(again, reference, slot) for slot in sorted(again.recorded)]
    return max(found, key=lambda one: (one.lost > 0, one.error / one.bound if one.bound else one.error * math.inf))


def overflows(again: Again, reference: Reference) -> bool:
    """Whether a recorded output is NaN or infinite where the reference, of a wider range, is finite."""
    return any(
        bool((not_finite(values) & ~not_finite(reference.outputs[slot])).any())
        for slot, values in again.recorded.items()
    )


def _distance(again: Again, reference: Reference, slot: int) -> Distance:
    recorded, exact = again.recorded[slot], reference.outputs[slot]
    if not recorded.numel():
        return Distance(slot, 0.0, 0.0)
    expected = exact.to(recorded.dtype) if recorded.dtype.is_floating_point else exact
    movement = reference.movement[slot].expand(recorded.shape)
    error = _difference(recorded, exact)
    allowed = _bound(again, recorded, exact, movement)
    lost = (not_finite(recorded) != not_finite(expected)) & ~torch.isnan(movement) & ~torch.isinf(movement)
    both = not_finite(recorded) & not_finite(expected)
    # Infinities of another sign, and a NaN in place of an infinity.
    lost |= both & ~torch.isnan(movement) & (_kind(recorded) != _kind(expected))
    error = torch.where(not_finite(recorded) | not_finite(expected), torch.zeros_like(error), error)
    excess = torch.where(error > 0, error / allowed, torch.zeros_like(error))  # NaN: the bound is not known
    worst = int(torch.nan_to_num(excess, nan=0.0).argmax())
    bound = float(allowed.flatten()[worst])
    return Distance(slot, float(error.flatten()[worst]), math.inf if math.isnan(bound) else bound, int(lost.sum()))


def _bound(again: Again, recorded: torch.Tensor, exact: torch.Tensor, movement: torch.Tensor) -> torch.Tensor:
    if not (recorded.dtype.is_floating_point or recorded.dtype.is_complex):
        return movement * _FACTOR  # a comparison or an index that the disturbance changes too
    epsilon = _epsilon(again)
    size = exact.abs().double()
    smallest = torch.finfo(recorded.dtype).tiny
    if again.op.op_type in _COPIES:
        return torch.finfo(recorded.dtype).eps * size + smallest
    finite = size[torch.isfinite(size)]
    usual = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    least = float(torch.nan_to_num(movement).median())
    growth = _growth(again)
    spacing = epsilon * torch.maximum(size, torch.full_like(size, usual))
    factor = _FACTOR_OF_NARROW if epsilon > _NARROW else _FACTOR
    return factor * growth * (spacing + movement.clamp(min=least)) + smallest


def _growth(again: Again) -> float:
    """Of roundings in a sum. Kernels add numbers of 16 bits up in float32, so that only the last rounding counts."""
    if torch.Tag.pointwise in again.call.overload.tags:
        return 1.0
    length = _reduction(again)
    return 1.0 + math.log2(length) / 4 if _epsilon(again) > _NARROW else math.sqrt(length)


def _reduction(again: Again) -> int:
    """The number of elements that make one output, at most."""
    largest = max((tensor.numel() for tensor in again.inputs.values()), default=1)
    sides = [side for tensor in again.inputs.values() for side in tensor.shape]
    sizes = [tensor.numel() for tensor in again.inputs.values() if tensor.dim()]
    sizes += [tensor.numel() for tensor in again.recorded.values()]
    smallest = max(1, min(sizes, default=1))
    return max(1, largest // smallest, max(sides, default=1))


def _epsilon(again: Again) -> float:
    """Of the narrowest type among inputs and outputs."""
    types = [tensor.dtype for tensor in [*again.inputs.values(), *again.recorded.values()]]
    return max((torch.finfo(dtype).eps for dtype in types if dtype.is_floating_point or dtype.is_complex), default=0.0)


def _kind(values: torch.Tensor) -> torch.Tensor:
    """1 infinity, -1 negative infinity, 0 NaN, 2 finite."""
    if values.dtype.is_complex or not values.dtype.is_floating_point:
        return torch.zeros(values.shape)
    wide = values.double()
    return torch.where(torch.isinf(wide), wide.sign(), torch.where(torch.isnan(wide), 0.0, 2.0))


def _difference(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Of two values, as float64; 0 where both are the same infinity or NaN."""
    wide = torch.complex128 if one.dtype.is_complex or other.dtype.is_complex else torch.float64
    left, right = one.to(wide), other.to(wide)
    same = (left == right) | (torch.isnan(left) & torch.isnan(right))
    return torch.where(same, torch.zeros((), dtype=torch.float64), (left - right).abs())


# --- the call in another type -----------------------------------------------------------------------------------------


def _wide(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    return tensor.to(dtype) if tensor.dtype.is_floating_point else tensor


def _in_type(call: Call, dtype: torch.dtype) -> Call:
    def wide(value: Any) -> Any:
        if not isinstance(value, torch.dtype):
            return value
        complex_one = torch.complex128 if dtype == torch.float64 else torch.complex64
        return complex_one if value.is_complex else dtype if value.is_floating_point else value

    return _changed(call, lambda argument: wide(argument.value))


def _disturbed(tensor: torch.Tensor, epsilon: float, random: torch.Generator) -> torch.Tensor:
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        return tensor
    signs = torch.randint(0, 2, tensor.shape, generator=random).double() * 2 - 1
    return tensor * (1 + epsilon * signs)


def _disturbed_call(call: Call, epsilon: float, random: torch.Generator) -> Call:
    def disturbed(value: Any) -> Any:
        if isinstance(value, list):
            return [disturbed(element) for element in value]
        if isinstance(value, float) and value != int(value if math.isfinite(value) else 0):
            return value * (1 + epsilon * (1 if torch.rand((), generator=random) < 0.5 else -1))
        return value

    return _changed(call, lambda argument: disturbed(argument.value))


def _changed(call: Call, change: Any) -> Call:
    arguments: tuple[Argument, ...] = tuple(
        dataclasses.replace(argument, value=change(argument)) for argument in call.arguments
    )
    return dataclasses.replace(call, arguments=arguments)
