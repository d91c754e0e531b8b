"""The facts in a dump, as plain values."""

from typing import NamedTuple


class Problem(NamedTuple):
    """A file that could not be read, or only in part."""

    path: str
    message: str


class Step(NamedTuple):
    """One step of one graph of one rank."""

    rank: int
    graph: int
    step: int
    ended: bool


class Source(NamedTuple):
    """A place in the user's program. `line` counts from 1; `code` is its text, '' if unknown."""

    file: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"
