"""Checks of arguments."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Numbers: TypeAlias = int | Iterable[int] | None  # one, several, or all


class DebuggerParamTypeError(TypeError):
    """An argument of the wrong type; the message names it."""


class DebuggerParamValueError(ValueError):
    """An argument that is not allowed; the message names it and the allowed values."""


def check_type(name: str, value: object, expected: type) -> None:
    """Raises DebuggerParamTypeError unless the argument `name` is of that type."""
    if not isinstance(value, expected):
        raise DebuggerParamTypeError(f"{name} must be {expected.__name__}, not {type(value).__name__}: {value!r}")


def is_number(value: object) -> bool:
    """True if it is an int or float; a bool is neither."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_of(name: str, value: Any) -> float:
    """A parameter of a condition; True and False count as 1 and 0, as in the original. Raises
    DebuggerParamTypeError."""
    if not isinstance(value, (int, float)):
        raise DebuggerParamTypeError(f"{name} must be float, not {type(value).__name__}: {value!r}")
    return float(value)


def chosen(name: str, value: Numbers, known: Iterable[int]) -> list[int]:
    """The requested ones of `known`, in its order: all for None, otherwise a number or a list of them. Raises
    DebuggerParamTypeError or DebuggerParamValueError."""
    known = list(known)
    if value is None:
        return known
    numbers: list[Any] = list(value) if isinstance(value, (list, tuple, set, range)) else [value]
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise DebuggerParamTypeError(
                f"{name} must be int, list[int] or None, not {type(number).__name__}: {value!r}"
            )
        if number not in known:
            raise DebuggerParamValueError(f"{name} must be in {known}, not {number}")
    return [number for number in known if number in numbers]


def chosen_slots(slots: Sequence[int] | None) -> set[int] | None:
    """The numbers; None: all. Raises DebuggerParamTypeError."""
    if slots is None:
        return None
    if not isinstance(slots, (list, tuple)):
        raise DebuggerParamTypeError(f"slots must be list[int] or None, not {type(slots).__name__}: {slots!r}")
    for slot in slots:
        if not isinstance(slot, int) or isinstance(slot, bool):
            raise DebuggerParamTypeError(
                f"slots must be list[int] or None, not a list with {type(slot).__name__}: {slots!r}"
            )
    return set(slots)
