"""The tables of an open dump, and the rows that a selection chooses."""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import Error
from .columns import Rows, Words

Numbers: TypeAlias = int | Iterable[int] | None  # of a selection: one, several, or all
Pattern: TypeAlias = str | re.Pattern[str] | None
_Table = TypeVar("_Table")
_Answer = TypeVar("_Answer")

_IS_INPUT = {None: None, "input": True, "output": False}


@dataclasses.dataclass(frozen=True)
class StepTable:
    """A row for each step of each graph of each rank; `first_op` and `ops`: its rows of the table of operators."""

    rank: NDArray[np.uint32]
    graph: NDArray[np.uint32]
    step: NDArray[np.uint64]
    first_op: NDArray[np.uint64]
    ops: NDArray[np.uint64]
    ended: NDArray[np.uint8]
    directory: Words  # below that of the rank


@dataclasses.dataclass(frozen=True)
class OpTable:
    """A row for each operator, parameter or input; `first_tensor` and `tensors`: its rows of the table of tensors."""

    step: NDArray[np.uint32]
    first_tensor: NDArray[np.uint64]
    tensors: NDArray[np.uint32]
    name: Words
    type: Words
    phase: Words
    file: Words
    line: NDArray[np.uint32]
    function: Words
    is_parameter: NDArray[np.uint8]
    failed: NDArray[np.uint8]
    timestamp_us: NDArray[np.uint64]
    call_number: NDArray[np.uint64]


@dataclasses.dataclass(frozen=True)
class TensorTable:
    """A row for each input and output; row i has `sizes[shape_begins[i]:shape_begins[i + 1]]`, if `has_shape[i]`."""

    op: NDArray[np.uint32]
    is_input: NDArray[np.uint8]
    slot: NDArray[np.uint32]
    dtype: Words
    has_shape: NDArray[np.uint8]
    shape_begins: NDArray[np.int32]
    sizes: NDArray[np.int64]
    name: Words
    key: Words
    placement: Words
    file: Words
    skipped: Words
    md5: Words
    sha1: Words
    has_statistics: NDArray[np.uint8]
    timestamp_us: NDArray[np.uint64]


class Tables:
    """A dump that the engine has opened; each table is made at its first use."""

    def __init__(self, core: _core.Dump, path: Path) -> None:
        self.core = core
        self.path = path

    @functools.cached_property
    def steps(self) -> StepTable:
        """Steps, by rank, in the order of the run."""
        return _table(StepTable, self.core.step_columns())

    @functools.cached_property
    def ops(self) -> OpTable:
        """Operators, by step."""
        return _table(OpTable, self.core.op_columns())

    @functools.cached_property
    def tensors(self) -> TensorTable:
        """Tensors, by operator."""
        return _table(TensorTable, self.core.tensor_columns())

    def measure(self, tensors: Rows) -> list[tuple[str, str]]:
        """Computes missing statistics from the tensors' files: (file, reason why it could not be read)."""
        problems = self.core.measure(tensors.tolist())
        self.__dict__.pop("tensors", None)  # types and shapes are known now
        return problems

    def select(
        self,
        ops: bool,
        *,
        step: Numbers,
        rank: Numbers,
        graph: Numbers,
        op: Pattern,
        op_type: str | None,
        side: str | None,
        slot: Numbers,
        source: str | None,
    ) -> Rows:
        """Rows of operators (`ops`) or tensors that a selection chooses. Raises ValueError if it is wrong."""
        if side not in _IS_INPUT:
            raise ValueError(f"side: 'input' or 'output', not {side!r}")
        rows = self.core.select(
            ops,
            ranks=numbers("rank", rank),
            steps=numbers("step", step),
            graphs=numbers("graph", graph),
            slots=numbers("slot", slot),
            op=pattern(op),
            type=op_type or "",
            source=source or "",
            inputs=_IS_INPUT[side],
        )
        return rows.astype(np.intp)


def _table(kind: type[_Table], columns: Mapping[str, Any]) -> _Table:
    return kind(**{name: Words(*values) if isinstance(values, tuple) else values for name, values in columns.items()})


def pattern(expression: Pattern) -> str:
    """The text of an expression; '' for none."""
    return expression.pattern if isinstance(expression, re.Pattern) else expression or ""


def numbers(name: str, chosen: Any) -> list[int]:
    """The numbers of a selection: one or several; None: all. An empty one raises ValueError, since it would select
    nothing."""
    if chosen is None:
        return []
    several = [chosen] if np.ndim(chosen) == 0 and not isinstance(chosen, (range, set, frozenset)) else list(chosen)
    if not all(isinstance(number, (int, np.integer)) and number >= 0 for number in several):
        raise ValueError(f"{name}: a number of 0 or more, or several of them, not {chosen!r}")
    if not several:
        raise ValueError(f"{name}: no number was given; leave it out to select all")
    return [int(number) for number in several]


def ask(function: Callable[[int], _Answer], row: int) -> _Answer:
    """The engine's facts about a row; raises Error if it cannot read them."""
    try:
        return function(row)
    except (OSError, RuntimeError) as error:
        raise Error(str(error)) from None
