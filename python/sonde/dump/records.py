"""The facts in a dump, as plain values."""

from typing import NamedTuple

REALS = ("max", "min", "avg", "l2norm")
COUNTS = (
    "count",
    "nan_count",
    "positive_inf_count",
    "negative_inf_count",
    "positive_count",
    "negative_count",
    "zero_count",
)


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


class Statistics(NamedTuple):
    """The statistics of one tensor; None if the dump does not have them. `positive_count` counts elements greater
    than zero."""

    max: float | None
    min: float | None
    avg: float | None
    l2norm: float | None
    count: int | None  # type: ignore[assignment]  # replaces tuple.count
    nan_count: int | None
    positive_inf_count: int | None
    negative_inf_count: int | None
    positive_count: int | None
    negative_count: int | None
    zero_count: int | None
