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
        return self.text or repr(self)


def made(kind: type[Kind], found: Mapping[str, Any], classes: Mapping[str, Any], **others: object) -> Kind:
    """An object of `kind`, a class of contract/, from its JSON. `classes`: those by name that take the place of the
    generated ones. Members that `kind` does not have are of a newer Sonde: `warnings` names them."""
    unknown: list[str] = []
    values: dict[str, Any] = dict(others) | _values(kind, found, classes, "", unknown)
    if unknown:
        newer = f"a newer Sonde wrote members that this one does not know: {', '.join(unknown)}"
        values["warnings"] = (*values.get("warnings", ()), newer)
    return kind(**values)


def _values(
    kind: type, found: Mapping[str, Any], classes: Mapping[str, Any], place: str, unknown: list[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    known = {"error"}
    for name, (hint, merged) in _fields(kind, classes).items():
        member = name.removesuffix("_")  # of a word of Python's
        known |= {member, *merged}
        if merged:
            values[name] = {member: float(found[member]) for member in merged if member in found}
        elif member in found:
            values[name] = _value(hint, found[member], classes, f"{place}{member}", unknown)
    unknown += [f"{place}{name}" for name in found if name not in known]
    return values


def document_of(value: object) -> Any:
    """The JSON of an answer, or of a part of one: members that have their default are left out."""
    if isinstance(value, (Record, Answer)) and dataclasses.is_dataclass(value):
        fields = (one for one in dataclasses.fields(value) if one not in dataclasses.fields(Answer))
        members = ((one, getattr(value, one.name)) for one in fields)
        return {one.name.removesuffix("_"): document_of(found) for one, found in members if found != one.default}
    if isinstance(value, tuple):
        asdict = getattr(value, "_asdict", None)
        return document_of(asdict()) if asdict else [document_of(one) for one in value]
    return value


@functools.cache
def _fields_of(kind: type, names: tuple[tuple[str, Any], ...]) -> dict[str, tuple[Any, tuple[str, ...]]]:
    hints = typing.get_type_hints(kind, localns=dict(names))
    if not dataclasses.is_dataclass(kind):
        return {name: (hint, ()) for name, hint in hints.items()}
    return {field.name: (hints[field.name], field.metadata.get("members", ())) for field in dataclasses.fields(kind)}


def _fields(kind: type, classes: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[str, ...]]]:
    return _fields_of(kind, tuple(classes.items()))


def _value(hint: Any, value: Any, classes: Mapping[str, Any], place: str, unknown: list[str]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _value(arguments[0], value, classes, place, unknown)
    if origin is tuple:
        return tuple(_value(arguments[0], one, classes, f"{place}[{i}]", unknown) for i, one in enumerate(value))
    if origin is Mapping:
        return {name: _value(arguments[1], one, classes, f"{place}.{name}", unknown) for name, one in value.items()}
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return hint(**_values(hint, value, classes, f"{place}.", unknown))
    return float(value) if hint is float else value  # JSON has "nan", "inf" and "-inf"
