"""Operators and tensors of a dump: one of them, or many."""

import abc
import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..answer_types import TRENDS, Statistics
from ..errors import named
from ..html_table import html_table
from .column_types import GraphColumns, OpColumns, TensorColumns
from .columns import Column, Columns, Known, Rows, Shapes, Words
from .records import Problem, Source
from .tables import Numbers, Pattern, Tables, ask

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from typing_extensions import Self  # typing's own since Python 3.11

_Row = TypeVar("_Row")

_SAME_IN_NUMPY = {"bool", "float16", "float32", "float64", "complex64", "complex128", "qint8", "quint8", "qint32"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


_ROWS_SHOWN = 10
_STATISTICS_SHOWN = TRENDS[:5]  # the extremes, the mean, the norm and the NaNs


def _line_of(of: "Op") -> str:
    source = of.source
    return f"{os.path.basename(source.file)}:{source.line}" if source else ""


def _statistics_of(of: "Tensor") -> list[str]:
    """For a table; empty where the dump has none: a cell of a notebook must not wait for values."""
    columns = of.tables.core.statistics_columns([of.row])
    found = [(values[0], known[0]) for values, known in (columns[name] for name in _STATISTICS_SHOWN)]
    return [f"{value:.6g}" if known else "" for value, known in found]


class _Collection(Columns, Generic[_Row]):
    """Rows of a table of a dump."""

    _of_ops: ClassVar[bool]
    _titles: ClassVar[tuple[str, ...]]  # of the table in a notebook

    def __init__(self, tables: Tables, rows: Rows) -> None:
        self.tables = tables
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[_Row]:
        make = self._one
        return (make(row) for row in self.rows.tolist())

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> "Self": ...
    def __getitem__(self, index: int | slice) -> "_Row | Self":
        if isinstance(index, slice):
            return type(self)(self.tables, self.rows[index])
        return self._one(int(self.rows[index]))

    def __repr__(self) -> str:
        return f"<sonde.{type(self).__name__}: {len(self)} of {named(str(self.tables.path))!r}>"

    def _repr_html_(self) -> str:
        shown = [self._cells(one) for one in self[:_ROWS_SHOWN]]
        more = len(self) - len(shown)
        rest = f"<p>and {more} more</p>" if more else ""
        return f"<p>{html.escape(repr(self))}</p>" + (html_table(self._titles, shown) if shown else "") + rest

    @staticmethod
    @abc.abstractmethod
    def _cells(one: Any) -> Sequence[object]: ...

    @abc.abstractmethod
    def _one(self, row: int) -> _Row: ...

    @abc.abstractmethod
    def _is_all(self) -> bool: ...

    def select(
        self,
        *,
        step: Numbers = None,
        rank: Numbers = None,
        graph: Numbers = None,
        op: Pattern = None,
        op_type: str | None = None,
        side: str | None = None,
        slot: Numbers = None,
        source: str | None = None,
    ) -> "Self":
        """The rows of a selection. All given conditions must be true:

        step, rank, graph, slot: a number, or several; op: a regular expression (RE2), searched in full names;
        op_type: a type, case ignored; side: 'input' or 'output'; source: 'train.py:29' or 'train.py', compared with
        every line of an operator's stack. Raises ValueError when one of these is wrong.
        """
        chosen = self.tables.select(
            self._of_ops, step=step, rank=rank, graph=graph, op=op, op_type=op_type, side=side, slot=slot, source=source
        )
        return self._of(chosen if self._is_all() else self.rows[np.isin(self.rows, chosen)])

    def _of(self, rows: Rows) -> "Self":
        return self.__class__(self.tables, rows)

    def matching(self, takes: Callable[[str, str], bool]) -> "Self":
        """The rows whose op satisfies `takes(name, type)`; called once for each name and type."""
        ops = self.tables.ops
        row = self.rows if self._of_ops else self.tables.tensors.op[self.rows]
        names, types = ops.name, ops.type
        pairs = np.stack([names.codes[row], types.codes[row]], axis=1)
        unique, of_pair = np.unique(pairs, axis=0, return_inverse=True)
        taken = np.array([bool(takes(names.words[name], types.words[kind])) for name, kind in unique.tolist()], bool)
        return self._of(self.rows[taken[of_pair.ravel()]] if len(self.rows) else self.rows)


class Ops(_Collection["Op"]):
    """Operators, and tensors that no operator makes: parameters, input data, constants (`is_parameter`)."""

    _of_ops = True
    _titles = ("operator", "type", "phase", "rank", "graph", "step", "line")

    @staticmethod
    def _cells(one: "Op") -> Sequence[object]:
        return (one.op_name, one.op_type, one.phase, one.rank, one.graph, one.step, _line_of(one))

    @classmethod
    def all_of(cls, tables: Tables) -> "Ops":
        """Every operator of a dump."""
        return cls(tables, np.arange(tables.core.op_count()))

    def _is_all(self) -> bool:
        return len(self.rows) == self.tables.core.op_count()

    def _one(self, row: int) -> "Op":
        return Op(self.tables, row)

    def raw_columns(self) -> dict[str, Column]:
        """A row for each operator."""
        return by_name(op_columns(self.tables, self.rows))


def by_name(row: OpColumns | TensorColumns | GraphColumns) -> dict[str, Column]:
    """{name: column}, those of the statistics among them."""
    columns: dict[str, Column] = {}
    for name, column in row._asdict().items():
        columns |= column if isinstance(column, Mapping) else {name.removesuffix("_"): column}
    return columns


def op_columns(tables: Tables, rows: NDArray[Any]) -> OpColumns:
    """The columns of some operators."""
    steps, ops = tables.steps, tables.ops
    step = ops.step[rows]
    return OpColumns(
        rank=steps.rank[step],
        graph=steps.graph[step],
        step=steps.step[step],
        op_name=ops.name.take(rows),
        op_type=ops.type.take(rows),
        phase=ops.phase.take(rows),
        is_parameter=ops.is_parameter[rows].astype(bool),
        failed=ops.failed[rows].astype(bool),
        source_file=ops.file.take(rows),
        source_line=ops.line[rows],
        function=ops.function.take(rows),
        timestamp_us=ops.timestamp_us[rows],
        call_number=ops.call_number[rows],
    )


class Tensors(_Collection["Tensor"]):
    """Inputs and outputs of operators."""

    _of_ops = False
    _titles = ("tensor", "name", "rank", "graph", "step", "type", "shape", *_STATISTICS_SHOWN, "line")

    @staticmethod
    def _cells(one: "Tensor") -> Sequence[object]:
        return (
            *(one.name, one.parameter, one.rank, one.graph, one.step, one.dtype or "?", one.shape),
            *_statistics_of(one),
            _line_of(one.op),
        )

    @classmethod
    def all_of(cls, tables: Tables) -> "Tensors":
        """Every tensor of a dump."""
        return cls(tables, np.arange(tables.core.tensor_count()))

    def _is_all(self) -> bool:
        return len(self.rows) == self.tables.core.tensor_count()

    def _one(self, row: int) -> "Tensor":
        return Tensor(self.tables, row)

    @property
    def recorded(self) -> "Tensors":
        """The slots with values or statistics in the dump; `sonde ls` and the closing line of a run count these."""
        has = np.array([file != "" for file in self.tables.tensors.file.take(self.rows).texts()], bool)
        for _values, known in self.tables.core.statistics_columns(self.rows.tolist()).values():
            has |= known.astype(bool)
        return Tensors(self.tables, self.rows[has])

    def measure(self) -> list[Problem]:
        """Computes the statistics of tensors that have values in the dump and no statistics. Returns the files that
        could not be read, as Problems."""
        return [Problem(*problem) for problem in self.tables.measure(self.rows)]

    def to_arrow(self, measure: bool = True) -> "pyarrow.Table":
        """A pyarrow.Table. Texts are dictionaries; unknown values are null. `measure`: computes missing statistics from
        the tensor files, which reads them all. Raises ImportError without pyarrow."""
        if measure:
            self.measure()
        return super().to_arrow()

    def to_pandas(self, measure: bool = True) -> "pandas.DataFrame":
        """A pandas.DataFrame. Texts are categories; unknown values are missing. `measure`: as to_arrow.
        Raises ImportError without pandas."""
        if measure:
            self.measure()
        return super().to_pandas()

    def raw_columns(self) -> dict[str, Column]:
        """A row for each tensor."""
        return by_name(self.typed_columns())

    def typed_columns(self) -> TensorColumns:
        """The same, as attributes."""
        tables, rows = self.tables, self.rows
        table = tables.tensors
        of_op = op_columns(tables, table.op[rows])
        statistics = tables.core.statistics_columns(rows.tolist())
        return TensorColumns(
            rank=of_op.rank,
            graph=of_op.graph,
            step=of_op.step,
            op_name=of_op.op_name,
            op_type=of_op.op_type,
            phase=of_op.phase,
            is_parameter=of_op.is_parameter,
            side=Words(table.is_input[rows].astype(np.int32), ["output", "input"]),
            slot=table.slot[rows],
            parameter=table.name.take(rows),
            key=table.key.take(rows),
            placement=table.placement.take(rows),
            dtype=table.dtype.take(rows),
            shape=Shapes(table.sizes, table.shape_begins, table.has_shape.astype(bool)).take(rows),
            statistics={name: Known(values, known.astype(bool)) for name, (values, known) in statistics.items()},
            tensor_file=table.file.take(rows),
            skipped=table.skipped.take(rows),
            md5=table.md5.take(rows),
            sha1=table.sha1.take(rows),
            timestamp_us=table.timestamp_us[rows],
            source_file=of_op.source_file,
            source_line=of_op.source_line,
            function=of_op.function,
        )


class Op:
    """One operator in one step, or a parameter, input data or constant."""

    __slots__ = ("row", "tables")

    def __init__(self, tables: Tables, row: int) -> None:
        self.tables = tables
        self.row = row

    def __repr__(self) -> str:
        return f"<sonde.Op {self.op_name} of step {self.step}>"

    def __str__(self) -> str:
        return self.op_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and (self.row, self.tables) == (other.row, other.tables)

    def __hash__(self) -> int:
        return hash(self.row)

    @property
    def _step_row(self) -> int:
        return int(self.tables.ops.step[self.row])

    @property
    def op_name(self) -> str:
        """Full name: `Default/network-AlexNet/conv2-Conv2d/conv2d-op0`."""
        return self.tables.ops.name[self.row]

    @property
    def op_type(self) -> str:
        """Its type: `conv2d`."""
        return self.tables.ops.type[self.row]

    @property
    def phase(self) -> str:
        """'forward', 'backward', 'optimizer', 'recompute', or 'outside' any module."""
        return self.tables.ops.phase[self.row]

    @property
    def rank(self) -> int:
        """Number of the process that ran it."""
        return int(self.tables.steps.rank[self._step_row])

    @property
    def graph(self) -> int:
        """Number of its graph; 0 if there is only one."""
        return int(self.tables.steps.graph[self._step_row])

    @property
    def step(self) -> int:
        """Number of its step, from 0."""
        return int(self.tables.steps.step[self._step_row])

    @property
    def is_parameter(self) -> bool:
        """True for a parameter, input data or a constant, which operators read."""
        return bool(self.tables.ops.is_parameter[self.row])

    @property
    def failed(self) -> bool:
        """True if it threw an exception."""
        return bool(self.tables.ops.failed[self.row])

    @property
    def timestamp_us(self) -> int:
        """When it ran, in microseconds since 1970; 0 if unknown."""
        return int(self.tables.ops.timestamp_us[self.row])

    @property
    def call_number(self) -> int:
        """Of a collective: the number of the call among those of its group, from 1; 0 if unknown."""
        return int(self.tables.ops.call_number[self.row])

    @property
    def source(self) -> Source | None:
        """The innermost Source of the user's program; None if unknown."""
        ops = self.tables.ops
        file, line = ops.file[self.row], int(ops.line[self.row])
        if not file:
            return None
        return Source(file, line, ops.function[self.row], self.tables.core.code(self.row, file, line))

    @property
    def stack(self) -> list[Source]:
        """The callers, as Sources, innermost first."""
        core = self.tables.core
        return [
            Source(file, line, function, core.code(self.row, file, line))
            for file, line, function in core.trace(self.row)
        ]

    @property
    def attributes(self) -> dict[str, str]:
        """{name: text} of its arguments that are not tensors."""
        return self.tables.core.attributes(self.row)

    @property
    def tensors(self) -> Tensors:
        """Its inputs and outputs."""
        first = int(self.tables.ops.first_tensor[self.row])
        return Tensors(self.tables, np.arange(first, first + int(self.tables.ops.tensors[self.row])))

    @property
    def inputs(self) -> Tensors:
        """Its inputs, by slot."""
        return self._side(True)

    @property
    def outputs(self) -> Tensors:
        """Its outputs, by slot."""
        return self._side(False)

    def _side(self, is_input: bool) -> Tensors:
        rows = self.tensors.rows
        return Tensors(self.tables, rows[self.tables.tensors.is_input[rows] == is_input])


class Tensor:
    """One input or output of one operator."""

    __slots__ = ("row", "tables")

    def __init__(self, tables: Tables, row: int) -> None:
        self.tables = tables
        self.row = row

    def __repr__(self) -> str:
        return f"<sonde.Tensor {self.name} of step {self.step}: {self.dtype or '?'} {self.shape}>"

    def _repr_html_(self) -> str:
        line = _line_of(self.op)
        known = zip(_STATISTICS_SHOWN, _statistics_of(self), strict=True)
        rows = [(name, value) for name, value in (("line", line), *known) if value]
        return f"<p>{html.escape(repr(self))}</p>" + (html_table(("", ""), rows) if rows else "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and (self.row, self.tables) == (other.row, other.tables)

    def __hash__(self) -> int:
        return hash(self.row)

    @property
    def name(self) -> str:
        """The name in the form of `sonde show`: `Default/…/conv2d-op0:output.0`."""
        return f"{self.op.op_name}:{self.side}.{self.slot}"

    @property
    def op(self) -> Op:
        """Its Op."""
        return Op(self.tables, int(self.tables.tensors.op[self.row]))

    @property
    def side(self) -> str:
        """'input' or 'output'."""
        return "input" if self.tables.tensors.is_input[self.row] else "output"

    @property
    def slot(self) -> int:
        """Its position among the inputs or outputs, from 0."""
        return int(self.tables.tensors.slot[self.row])

    @property
    def rank(self) -> int:
        """The same as its op's."""
        return self.op.rank

    @property
    def graph(self) -> int:
        """The same as its op's."""
        return self.op.graph

    @property
    def step(self) -> int:
        """The same as its op's."""
        return self.op.step

    @property
    def parameter(self) -> str:
        """The name of the parameter, gradient or optimizer state; '' for other tensors, or if unknown."""
        return self.tables.tensors.name[self.row]

    @property
    def key(self) -> str:
        """The framework's name of the slot, if it has no number: `attn_mask`; else ''."""
        return self.tables.tensors.key[self.row]

    @property
    def placement(self) -> str:
        """How it is part of a DTensor: global shape, mesh, beginning: `Shard(0) of (16, 8) on tp=2, from (8, 0)`;
        '' if it is not a part."""
        return self.tables.tensors.placement[self.row]

    @property
    def dtype(self) -> str:
        """'float32', 'bfloat16', …: the type in the program; '' if unknown. Read from the file if the dump does not
        have it: raises Error if that fails."""
        return self.recorded_dtype or self._look()[0]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its sizes; None if unknown. Read from the file if the dump does not have them: raises Error if that fails."""
        if not self.tables.tensors.has_shape[self.row]:
            return self._look()[1]
        return self.recorded_shape

    @property
    def recorded_dtype(self) -> str:
        """As `dtype`, but '' if only its file has it."""
        return self.tables.tensors.dtype[self.row]

    @property
    def recorded_shape(self) -> tuple[int, ...] | None:
        """As `shape`, but None if only its file has it."""
        table = self.tables.tensors
        if not table.has_shape[self.row]:
            return None
        begin, end = table.shape_begins[self.row : self.row + 2]
        return tuple(table.sizes[begin:end].tolist())

    def _look(self) -> tuple[str, tuple[int, ...] | None]:
        return ask(self.tables.core.look, self.row)

    @property
    def tensor_file(self) -> Path | None:
        """Path of its file; None if the dump has no values of it."""
        file = self.tables.tensors.file[self.row]
        return Path(self.tables.core.directory(self.rank), file) if file else None

    @property
    def skipped(self) -> str:
        """The reason why it was not recorded; '' if it was."""
        return self.tables.tensors.skipped[self.row]

    @property
    def md5(self) -> str:
        """MD5 of its values, as hexadecimal digits; '' if the dump has none."""
        return self.tables.tensors.md5[self.row]

    @property
    def timestamp_us(self) -> int:
        """When it was written, in microseconds since 1970; 0 if unknown."""
        return int(self.tables.tensors.timestamp_us[self.row])

    @property
    def has_statistics(self) -> bool:
        """True if the dump has statistics of it, beside or instead of its values."""
        return bool(self.tables.tensors.has_statistics[self.row])

    @property
    def statistics(self) -> Statistics:
        """Statistics from the dump, or computed once from its values. Raises Error if the dump has neither."""
        known: dict[str, Any] = ask(self.tables.core.statistics, self.row)
        return Statistics(**known)

    def numpy(self) -> NDArray[Any]:
        """The values, as a read-only array of the tensor's shape.

        It is a view of the file, and costs no memory, if NumPy has the type. For bfloat16, the 8-bit floats and other
        types that NumPy lacks it is a copy as float32, for complex32 one as complex64; `bits` is a view of those too.
        Raises Error if the dump has no values of it, or they cannot be read.
        """
        elements, dtype = self.bits()
        if dtype in _SAME_IN_NUMPY:
            return elements
        values: NDArray[Any]
        if dtype == "bfloat16":
            values = (elements.astype(np.uint32) << 16).view(np.float32)
        elif dtype == "complex32":
            halves = np.ascontiguousarray(elements).view(np.float16).reshape(*elements.shape, 2).astype(np.float32)
            values = halves.view(np.complex64)[..., 0]
        else:
            values = ask(self.tables.core.values_as_float32, self.row).reshape(elements.shape)
        values.flags.writeable = False
        return values

    def bits(self) -> tuple[NDArray[Any], str]:
        """(array, type): the values as in the file, and the name of their type. Values of a type that NumPy lacks are
        unsigned integers of its size. Raises Error as numpy() does."""
        return ask(self.tables.core.values, self.row)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        values = self.numpy()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.name} is {values.dtype}: no view of it is {dtype}")
            return values.astype(dtype)
        return values.copy() if copy else values
