"""The common part of all answers, and how one is made from a document of the command."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

Kind = TypeVar("Kind")

# A number, several, or a text such as "0-5|8"; None: all.
Steps = int | str | Iterable[int] | None


class Record:
    """A part of an answer."""


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Answer:
    """The common part of all answers: `text` is the page that the command prints, `document` that of its --json."""

    text: str = ""
    document: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


def made(kind: type[Kind], found: Mapping[str, Any], classes: Mapping[str, Any], **others: object) -> Kind:
    """An object of `kind`, a class of contract/, from its JSON. `classes`: those by name that take the place of the
    generated ones. Members that `kind` does not have are of a newer Sonde, and are left out."""
    values: dict[str, Any] = dict(others)
    for name, (hint, merged) in _fields(kind, classes).items():
        if merged:
            values[name] = {member: float(found[member]) for member in merged if member in found}
        elif name in found:
            values[name] = _value(hint, found[name], classes)
    return kind(**values)


@functools.cache
def _fields_of(kind: type, names: tuple[tuple[str, Any], ...]) -> dict[str, tuple[Any, tuple[str, ...]]]:
    hints = typing.get_type_hints(kind, localns=dict(names))
    if not dataclasses.is_dataclass(kind):
        return {name: (hint, ()) for name, hint in hints.items()}
    return {field.name: (hints[field.name], field.metadata.get("members", ())) for field in dataclasses.fields(kind)}


def _fields(kind: type, classes: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[str, ...]]]:
    return _fields_of(kind, tuple(classes.items()))


def _value(hint: Any, value: Any, classes: Mapping[str, Any]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _value(arguments[0], value, classes)
    if origin is tuple:
        return tuple(_value(arguments[0], one, classes) for one in value)
    if origin is Mapping:
        return {name: _value(arguments[1], one, classes) for name, one in value.items()}
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return made(hint, value, classes)
    return float(value) if hint is float else value  # JSON has "nan", "inf" and "-inf"
