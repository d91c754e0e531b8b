"""Kinds of TorchAir's options: the default of each, the check of a value that is set, and TorchAir's words."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

INT64_MAX = 2**63 - 1


class Option(Protocol):
    """One option: its default, and its allowed values."""

    @property
    def default(self) -> object:
        """Its default."""

    def check(self, value: object) -> None:
        """Raises ValueError, TypeError or FileNotFoundError, with TorchAir's words."""


class OneOf:
    """An option with a list of values."""

    def __init__(self, default: object, values: Sequence[object]) -> None:
        self.default = default
        self.values = values

    def check(self, value: object) -> None:
        """Raises ValueError."""
        if not any(type(value) is type(one) and value == one for one in self.values):
            raise ValueError(
                f"Value {value!r} (type: {type(value)}) not in optional list {self.values!r} "
                f"(type: {type(self.values[0])})."
            )


class Flag(OneOf):
    """An option that is True or False."""

    def __init__(self, default: bool) -> None:
        super().__init__(default, [True, False])


class Matching:
    """An option whose text has a certain form."""

    default = ""

    def __init__(self, expression: str, example: str) -> None:
        self.expression = expression
        self.example = example

    def check(self, value: object) -> None:
        """Raises ValueError."""
        if not isinstance(value, str) or re.match(self.expression, value) is None:
            raise ValueError(
                f"Please set legal regex value format match {self.expression}, {value} is Illegal format, "
                f"correct example:{self.example}."
            )


class Directory:
    """An option that names a directory; it must be there when the option is set."""

    default = "./"

    def check(self, value: object) -> None:
        """Raises FileNotFoundError."""
        if not isinstance(value, str) or not os.path.isdir(value):
            raise FileNotFoundError(f"Please set legal dir path, {value} is not found or is not a file directory!")


class JsonFile:
    """An option that names a file ending in .json."""

    default = None

    def check(self, value: object) -> None:
        """Raises ValueError or FileNotFoundError."""
        if value == "":
            raise ValueError("File path cannot be empty!")
        if not isinstance(value, str) or not value.endswith(".json") or not os.path.isfile(value):
            raise FileNotFoundError(f"Please set legal file path, {value} is not found or is not '.json' file!")


class ExistingFile:
    """An option that names a file, or None."""

    default = None

    def check(self, value: object) -> None:
        """Raises FileNotFoundError."""
        if value is not None and not (isinstance(value, str) and os.path.isfile(value)):
            raise FileNotFoundError(f"Please set legal file path, {value} is not found or is not a file!")


class Integer:
    """An option that is an integer of a range."""

    def __init__(self, default: int | None, least: int, most: int = INT64_MAX) -> None:
        self.default = default
        self.least = least
        self.most = most

    def check(self, value: object) -> None:
        """Raises ValueError."""
        if not isinstance(value, int):
            raise ValueError(f"Please set integer type, but got {type(value)}")
        if not self.least <= value <= self.most:
            raise ValueError(f"Please set value in [{self.least}, {self.most}], {value} is out of range.")


class OfType:
    """An option that is None or of some types."""

    default = None

    def __init__(self, *types: type, name: str) -> None:
        self.types = types
        self.name = name

    def check(self, value: object) -> None:
        """Raises TypeError."""
        if value is not None and not isinstance(value, self.types):
            raise TypeError(f"value must be {self.name} or None, got {type(value)}")


class Function:
    """An option that is a function or None."""

    default = None

    def check(self, value: object) -> None:
        """Raises TypeError."""
        if value is not None and not callable(value):
            raise TypeError(f"value must be Callable or None, got {type(value)}")


class Anything:
    """An option that TorchAir does not check."""

    def __init__(self, default: object = None) -> None:
        self.default = default

    def check(self, value: object) -> None:
        """Accepts every value."""


class RealPath(Anything):
    """A path that TorchAir does not check; it is kept as os.path.realpath() gives it."""

    def check(self, value: object) -> None:
        """Raises TypeError."""
        if not isinstance(value, str | os.PathLike):
            raise TypeError(f"expected str, bytes or os.PathLike object, not {type(value).__name__}")


class Options:
    """An object that takes the options of its class and no others."""

    _options: ClassVar[Mapping[str, Option]] = {}
    _parts: ClassVar[Mapping[str, Callable[[], "Options"]]] = {}  # options that are such objects
    given: dict[str, Any]  # the options that were set

    def __init__(self) -> None:
        object.__setattr__(self, "given", {})
        for name, part in self._parts.items():
            object.__setattr__(self, name, part())

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._parts:
            own = type(getattr(self, name))
            if not isinstance(value, own):
                raise ValueError(f"{name} is a {own.__name__}, not a {type(value).__name__}")
            object.__setattr__(self, name, value)
            return
        option = self._option(name)
        option.check(value)
        if isinstance(option, RealPath) and isinstance(value, str | os.PathLike):
            value = os.path.realpath(value)
        self.given[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # copying and pickling request it
        return self.given.get(name, self._option(name).default)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values() == other.values()

    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        parts = {name: getattr(self, name) for name in self._parts}
        return _restored, (type(self), dict(self.given), parts)

    def values(self) -> dict[str, Any]:
        """Every option below this object that was set to another value than its default, by its dotted name."""
        set_here = {name: value for name, value in self.given.items() if value != self._option(name).default}
        for name in self._parts:
            set_here.update({f"{name}.{key}": value for key, value in getattr(self, name).values().items()})
        return set_here

    def _option(self, name: str) -> Option:
        if name not in self._options:
            known = [*self._parts, *self._options]
            raise ValueError(f"{type(self).__name__} has no option {name}, all options {known}")
        return self._options[name]


def _restored(kind: type[Options], given: dict[str, Any], parts: dict[str, Options]) -> Options:
    """A copied or unpickled object."""
    restored = kind()
    restored.given.update(given)
    for name, part in parts.items():
        object.__setattr__(restored, name, part)
    return restored
