"""The dumps that a server was started with: the only files that its answers come from."""

import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

from .. import _core, remote
from ..errors import Error

_LISTED = 20  # dumps in a message


class NamedDump(NamedTuple):
    """A dump, and its name in questions."""

    name: str
    path: str


class Dumps:
    """In the order of the command line."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises Error if one of them is not a dump."""
        self.all: list[NamedDump] = []
        for given in paths:
            path = remote.local_path(given)
            _check(path)
            name = os.path.basename(os.path.abspath(path)) or "dump"
            self.all.append(NamedDump(self._free_name(name), os.path.realpath(path)))

    def names(self) -> list[str]:
        """The names in questions."""
        return [dump.name for dump in self.all]

    def find(self, value: object) -> NamedDump:
        """By its name or its number. Raises ValueError if there is none."""
        by_name = {dump.name: dump for dump in self.all} | {str(n): dump for n, dump in enumerate(self.all)}
        by_name |= {dump.name: dump for dump in self.all}  # a name before a number
        found = by_name.get(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
        if found is None:
            raise ValueError(f"no dump {_short(value)}; there are {self.listed()}")
        return found

    def listed(self) -> str:
        """Names and numbers, for a message."""
        shown = [f"'{dump.name}' ({n})" for n, dump in enumerate(self.all[:_LISTED])]
        return ", ".join([*shown, f"{len(self.all) - _LISTED} more"] if self.all[_LISTED:] else shown)

    def refuse_other_files(self, text: str, dump: NamedDump) -> None:
        """Raises ValueError if a text is the path of something that belongs to none of the dumps."""
        path = os.path.join(directory_of(dump), text)
        try:
            is_path = os.path.isabs(text) or ".." in text.split("/") or os.path.lexists(path)
            outside = is_path and not any(_is_below(os.path.realpath(path), one.path) for one in self.all)
        except (OSError, ValueError):  # too long, or with a zero byte
            return
        if outside:
            raise ValueError(f"{_short(text)} is not in a dump of this server; there are {self.listed()}")

    def _free_name(self, name: str) -> str:
        """`run-2` of a second dump with the name `run`."""
        others = (f"{name}-{number}" for number in itertools.count(2))
        return next(one for one in itertools.chain([name], others) if one not in self.names())


def directory_of(dump: NamedDump) -> str:
    """The dump itself, or the directory of a file."""
    return dump.path if os.path.isdir(dump.path) else os.path.dirname(dump.path)


def _check(path: str) -> None:
    try:
        _core.open_dump(os.fspath(path), [], [], [], "", "", "")
    except (OSError, RuntimeError, ValueError) as error:
        raise Error(str(error)) from None


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
