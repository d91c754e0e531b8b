"""A recorded operator as a call of PyTorch: which overload, with which arguments.

A dump has the type of the operator, the arguments that are not tensors as texts, and its tensors by slot. It does not
have the overload, the lengths of lists of tensors, whether a number was an integer, and whether a tensor of no
dimension was a number of Python. Where these leave a choice, there are several calls, the likeliest first; the recorded
output decides.
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch._ops import OpOverload

from .dump import Op
from .recorded_values import CannotRun, Values, dtype_named

Origin: TypeAlias = Literal["recorded", "default", "found"]

# Members that the recorder adds to the arguments.
_ADDED = {"group_ranks", "placements", "called_by"}
_MOST_CALLS = 64
# Operators of PyTorch that reach files, or memory that is not in their arguments.
_REFUSED = {"from_file": "it reads or writes a file", "set_": "it takes the memory of another tensor"}
_ENUMERATORS = {"ScalarType": "dtype", "Layout": "layout", "MemoryFormat": "memory_format", "Device": "device"}
_NAMES_OF_DIMENSIONS = {"dim", "dim0", "dim1", "start_dim", "end_dim", "axis"}


class Slot(NamedTuple):
    """An input of the operator; `as_number`: as a number of Python."""

    number: int
    as_number: bool = False


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of the call. `value` has Slots in place of tensors."""

    name: str
    value: Any
    origin: Origin
    keyword_only: bool


@dataclasses.dataclass(frozen=True)
class Call:
    """One call. `grad`: its inputs require gradients, which selects other kernels for some operators."""

    overload: OpOverload
    arguments: tuple[Argument, ...]
    grad: bool = False

    @property
    def name(self) -> str:
        """`aten::softmax.int`"""
        return str(self.overload._schema).partition("(")[0]


def calls_of(op: Op, inputs: Values, outputs: Values) -> list[Call]:
    """The possible calls, the likeliest first. Raises CannotRun if there is none."""
    recorded = {name: text for name, text in op.attributes.items() if name not in _ADDED}
    if "placements" in op.attributes:
        raise CannotRun("its tensors are parts of DTensors")
    if "group_ranks" in op.attributes or "group_name" in recorded:
        raise CannotRun("it is a collective: the other ranks take part in it")
    if op.op_type in _REFUSED:
        raise CannotRun(_REFUSED[op.op_type])
    gives_out = any(tensor.skipped == "only written" for tensor in op.inputs)
    overloads = [one for one in _overloads(op.op_type) if _has_out(one) == gives_out]
    if not overloads:
        raise CannotRun(f"PyTorch has no operator '{op.op_type}' here; is it of another library, or compiled?")
    calls = [
        call for overload in _by_names(overloads, recorded) for call in _calls(overload, recorded, inputs, outputs)
    ]
    if not calls:
        raise CannotRun(f"no overload of '{op.op_type}' takes the recorded inputs and arguments")
    with_grad = [dataclasses.replace(call, grad=True) for call in calls]
    return calls[:_MOST_CALLS] + (with_grad if op.phase == "forward" else [])[:8]


def bound(value: Any, inputs: Mapping[int, torch.Tensor]) -> Any:
    """The value of an argument with tensors in place of Slots."""
    if isinstance(value, Slot):
        return inputs[value.number].item() if value.as_number else inputs[value.number]
    if isinstance(value, list):
        return [bound(element, inputs) for element in value]
    return value


def slots_in(value: Any) -> list[Slot]:
    """The Slots of an argument, in order."""
    if isinstance(value, Slot):
        return [value]
    return [slot for element in value for slot in slots_in(element)] if isinstance(value, list) else []


# --- overloads --------------------------------------------------------------------------------------------------------


def _overloads(op_type: str) -> list[OpOverload]:
    """All of this name, those of aten first. Collectives of C10D are not among them."""
    if not re.fullmatch(r"[A-Za-z_]\w*", op_type):
        return []
    spaces = sorted(_libraries_by_name().get(op_type, ()), key=lambda space: (space != "aten", space))
    if "aten" not in spaces and any("c10d" in space for space in spaces):
        raise CannotRun("it is a collective: the other ranks take part in it")
    packets = [getattr(getattr(torch.ops, space), op_type) for space in spaces if "c10d" not in space]
    return [getattr(packet, name) for packet in packets for name in packet.overloads()]


@functools.cache
def _libraries_by_name() -> Mapping[str, set[str]]:
    """{name: the libraries that have such an operator}"""
    found: dict[str, set[str]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition(".")[0].partition("::")
        found.setdefault(name, set()).add(space)
    return found


def _is_tensor(argument: Any) -> bool:
    return "Tensor" in str(argument.type)


def _has_out(overload: OpOverload) -> bool:
    """Whether it takes `out=`, which it writes without having read it."""
    return any(argument.is_out for argument in overload._schema.arguments)


def _is_list(argument: Any) -> bool:
    return _is_tensor(argument) and "List" in str(argument.type)


def _may_be_absent(argument: Any) -> bool:
    return "Optional" in str(argument.type)


def _by_names(overloads: Sequence[OpOverload], recorded: Mapping[str, str]) -> list[OpOverload]:
    """Those whose arguments have the recorded names; without, those that have more."""
    names = {
        overload: {argument.name for argument in overload._schema.arguments if not _is_tensor(argument)}
        for overload in overloads
    }
    exact = [overload for overload in overloads if names[overload] == set(recorded)]
    return exact or [overload for overload in overloads if names[overload] >= set(recorded)]


# --- arguments --------------------------------------------------------------------------------------------------------


def _calls(overload: OpOverload, recorded: Mapping[str, str], inputs: Values, outputs: Values) -> Iterator[Call]:
    arguments = overload._schema.arguments
    plain = [argument for argument in arguments if not _is_tensor(argument)]
    try:
        choices = [_choices(argument, recorded, inputs, outputs) for argument in plain]
    except (CannotRun, ValueError):
        return
    splits = list(_tensor_arguments(overload, inputs))
    for tensors in splits:
        for numbers in _numbers(arguments, tensors, inputs):
            for chosen in itertools.product(*choices) if choices else [()]:
                others = dict(zip((argument.name for argument in plain), chosen, strict=True))
                yield Call(overload, tuple(_argument(one, others, numbers) for one in arguments))


def _argument(argument: Any, others: Mapping[str, tuple[Any, Origin]], tensors: Mapping[str, Any]) -> Argument:
    value, origin = others.get(argument.name, (tensors.get(argument.name), "recorded"))
    return Argument(argument.name, value, origin, argument.kwarg_only)


def _choices(argument: Any, recorded: Mapping[str, str], inputs: Values, outputs: Values) -> list[tuple[Any, Origin]]:
    """(value, origin), the likeliest first."""
    if argument.name in recorded:
        return [(value, "recorded") for value in _parsed(recorded[argument.name], argument)]
    found: list[tuple[Any, Origin]] = []
    if argument.has_default_value():
        found.append((argument.default_value, "default"))
    elif _may_be_absent(argument):
        found.append((None, "default"))
    found += [(value, "found") for value in _likely(argument, inputs, outputs)]
    if not found:
        raise CannotRun(f"the dump does not have the argument {argument.name}")
    return found


def _likely(argument: Any, inputs: Values, outputs: Values) -> list[Any]:
    """A few values of an argument that the dump does not have."""
    kind, name = str(argument.type).removeprefix("Optional[").removesuffix("]"), argument.name
    dimensions = list(range(max((tensor.dim() for tensor in inputs.values()), default=0)))
    if kind == "bool":
        return [False, True]
    if kind in ("int", "SymInt") and name in _NAMES_OF_DIMENSIONS:
        return list(dimensions)
    if kind == "int" and name == "reduction":
        return [0, 1, 2]
    if "List[" in str(argument.type) and name in ("dim", "dims"):
        return [[one] for one in dimensions] + [dimensions]
    if "List[" in str(argument.type) and name in ("size", "shape", "normalized_shape"):
        first = list(inputs[min(inputs)].shape) if inputs else []
        ends = [first[beginning:] for beginning in reversed(range(len(first)))]
        return ends if name == "normalized_shape" else [list(tensor.shape) for tensor in outputs.values()]
    return []


def missing(op: Op) -> list[str]:
    """The arguments of every overload that the dump does not have."""
    recorded = set(op.attributes)
    lists = [
        [one.name for one in overload._schema.arguments if not _is_tensor(one) and one.name not in recorded]
        for overload in _overloads(op.op_type)
    ]
    return min(lists, key=len, default=[])


def _parsed(text: str, argument: Any) -> list[Any]:
    """The values that have this text; a number without a fraction may be an integer or not."""
    kind, real = str(argument.type), str(argument.real_type)
    if text == "None":
        return [None]
    for name, what in _ENUMERATORS.items():
        if name in real or (name == "Device" and "Device" in kind):
            return [_enumerator(text, what)]
    if text.startswith("[") and "List" in kind:
        parts = text[1:-1].split(", ") if text != "[]" else []
        element = "number" if "number" in kind else "float" if "float" in kind else "bool" if "bool" in kind else "int"
        element = "str" if "str" in kind else element
        lists = [[_scalar(part, element, as_float) for part in parts] for as_float in (False, True)]
        return lists if element == "number" else lists[:1]
    plain = kind.removeprefix("Optional[").removesuffix("]")
    if plain == "Generator":
        return [None]
    values = [_scalar(text, plain, as_float) for as_float in (False, True)]
    return values[:1] if repr(values[0]) == repr(values[1]) else values


def _scalar(text: str, kind: str, as_float: bool) -> Any:
    if kind in ("bool", "number") and text in ("true", "false"):
        return text == "true"
    plain = {"str": str, "float": float, "int": int, "SymInt": int}
    if kind in plain:
        return plain[kind](text)
    if text.endswith("j"):
        real, _, imaginary = text[:-1].rpartition("+")
        return complex(float(real), float(imaginary))
    return int(text) if not as_float and re.fullmatch(r"-?\d+", text) else float(text)


def _enumerator(text: str, what: str) -> Any:
    if what == "dtype":
        return dtype_named(text)
    if what == "device":
        return torch.device("meta" if text == "meta" else "cpu")
    names = {"Contiguous": "contiguous_format", "Preserve": "preserve_format", "ChannelsLast": "channels_last"}
    names |= {"ChannelsLast3d": "channels_last_3d", "Strided": "strided", "Sparse": "sparse_coo"}
    if text not in names:
        raise CannotRun(f"the {what} {text} is not known")
    return getattr(torch, names[text])


# --- tensors ----------------------------------------------------------------------------------------------------------


def _tensor_arguments(overload: OpOverload, inputs: Values) -> Iterator[dict[str, Any]]:
    """{argument: Slots} for each way to cut the slots into lists."""
    arguments = [argument for argument in overload._schema.arguments if _is_tensor(argument)]
    used = max(inputs, default=-1) + 1
    lists = sum(_is_list(argument) for argument in arguments)
    single = len(arguments) - lists
    trailing = len(list(itertools.takewhile(_may_be_absent, (one for one in reversed(arguments) if not _is_list(one)))))
    if lists == 0:
        totals: Sequence[int] = [0] if used <= single else []
    else:
        totals = range(max(used - single, 0), max(used - single, 0) + trailing + 1)
    for total in totals:
        for lengths in _lengths(total, lists):
            found = _assigned(arguments, lengths, inputs)
            if found is not None:
                yield found


def _lengths(total: int, lists: int) -> Iterator[tuple[int, ...]]:
    """Lengths of lists: equal ones first, then some empty, then, of two, any."""
    if lists <= 1:
        yield (total,) * lists
        return
    tried = set()
    for filled in itertools.product((True, False), repeat=min(lists, 8)):
        count = sum(filled)
        if count and total % count == 0 and len(filled) == lists:
            tried.add(lengths := tuple(total // count if is_filled else 0 for is_filled in filled))
            yield lengths
    if lists == 2:
        yield from ((first, total - first) for first in range(total + 1) if (first, total - first) not in tried)


def _assigned(arguments: Sequence[Any], lengths: tuple[int, ...], inputs: Values) -> dict[str, Any] | None:
    """None: a tensor is missing where the schema asks for one."""
    found: dict[str, Any] = {}
    slot, of_list = 0, iter(lengths)
    for argument in arguments:
        if _is_list(argument):
            length = next(of_list)
            elements = [Slot(i) if i in inputs else None for i in range(slot, slot + length)]
            if None in elements and "Optional" not in str(argument.type):
                return None
            found[argument.name], slot = elements, slot + length
            continue
        if slot not in inputs and not _may_be_absent(argument):
            return None
        found[argument.name], slot = Slot(slot) if slot in inputs else None, slot + 1
    return found if slot > max(inputs, default=-1) else None


def _numbers(arguments: Sequence[Any], tensors: dict[str, Any], inputs: Values) -> Iterator[dict[str, Any]]:
    """Tensors of no dimension as numbers of Python first, if they have the type of one; then as tensors."""
    wide = (torch.float64, torch.int64, torch.bool, torch.complex128)
    written = {one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write}
    as_numbers = {
        name: Slot(value.number, True)
        for name, value in tensors.items()
        if name not in written
        and isinstance(value, Slot)
        and not inputs[value.number].dim()
        and inputs[value.number].dtype in wide
    }
    if as_numbers and len(inputs) > len(as_numbers):
        yield tensors | as_numbers
    if len(as_numbers) > 1:
        yield from (tensors | {name: as_numbers[name]} for name in reversed(as_numbers))
    yield tensors
