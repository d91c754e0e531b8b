"""A dump to look at: ranks, steps, operators, tensors, whoever wrote it; no framework is needed.

    dump = sonde.open("/data/run7")
    for tensor in dump.tensors.select(op="conv2", side="output", step=3):
        print(tensor.name, tensor.statistics.max, tensor.numpy().mean())

What a dump knows is kept in columns, one array for all tensors; an object is made when one is asked for. A file is
mapped when its values are asked for, and the array is a view of the mapping that cannot be written to. Needs NumPy.
"""

import importlib
import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import _core
from .errors import Error

_SAME_IN_NUMPY = {"bool", "float16", "float32", "float64", "complex64", "complex128", "qint8", "quint8", "qint32"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
_IS_INPUT = {None: None, "input": True, "output": False}
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


def open(path, *, step=None, rank=None, graph=None, op=None, type=None, source=None):
    """Opens a dump, one rank's directory, or any directory inside one. Raises Error when it is no dump; a file inside
    one that cannot be read is one of its `problems`.

    With a selection, as `select` takes it, only those operators are there. That is for dumps of hundreds of thousands
    of files, of which `sonde index` has saved an index: what is asked for is then found at once.
    """
    asked = {
        "ranks": _numbers("rank", rank),
        "iterations": _numbers("step", step),
        "graphs": _numbers("graph", graph),
        "op": _pattern(op),
        "type": type or "",
        "source": source or "",
    }
    try:
        core = _core.open_dump(os.fspath(path), **asked)
    except (OSError, RuntimeError) as error:
        raise Error(str(error)) from None
    return Dump(core, Path(path))


def extra(package, name, purpose):
    """Imports a package that only this purpose needs; `name` is the extra of Sonde that installs it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.split(".")[0]:
            raise
        raise ImportError(f"{purpose} needs {error.name}: pip install 'sonde[{name}]'", name=error.name) from None


class Problem(NamedTuple):
    """A file that could not be read, or not wholly."""

    path: str
    message: str


class Step(NamedTuple):
    """One step of one graph of one rank."""

    rank: int
    graph: int
    iteration: int
    ended: bool


class Source(NamedTuple):
    """A place in the user's program."""

    file: str
    line: int
    function: str
    code: str

    def __str__(self):
        return f"{self.file}:{self.line}"


class Statistics(NamedTuple):
    """Of one tensor; None where the dump does not say. `positive_count` counts what is greater than zero."""

    max: float | None
    min: float | None
    avg: float | None
    l2norm: float | None
    count: int | None
    nan_count: int | None
    positive_inf_count: int | None
    negative_inf_count: int | None
    positive_count: int | None
    negative_count: int | None
    zero_count: int | None


class Edge(NamedTuple):
    """The way of a tensor. `from_op` is None, and `parameter` its name, when no operator of the step made it."""

    from_op: "Op | None"
    from_slot: int
    parameter: str
    to_op: "Op"
    to_slot: int


class _Words:
    """A column of texts of which many are the same."""

    def __init__(self, codes, words):
        self.codes, self.words = codes, words

    def __getitem__(self, row):
        return self.words[self.codes[row]]

    def take(self, rows):
        return _Words(self.codes[rows], self.words)

    def texts(self):
        words = np.empty(len(self.words), dtype=object)
        words[:] = self.words
        return words[self.codes]


class Dump:
    """What `sonde.open` gives."""

    def __init__(self, core, path):
        self._core = core
        self._tables = {}
        self.path = path

    def __repr__(self):
        ranks = len(self.ranks)
        return (
            f"<sonde.Dump {str(self.path)!r}: {ranks} rank{'' if ranks == 1 else 's'}, {len(self.steps)} steps, "
            f"{self._core.op_count()} ops, {self._core.tensor_count()} tensors>"
        )

    @property
    def ranks(self):
        """Numbers of the ranks."""
        return self._core.ranks()

    @property
    def steps(self):
        """Every Step, by rank, in the order of the run."""
        table = self._table("step")
        return [
            Step(*row[:3], bool(row[3]))
            for row in _rows(table["rank"], table["graph"], table["iteration"], table["ended"])
        ]

    @property
    def ops(self):
        """Operators, and parameters and input data, in the order of the run."""
        return Ops(self, np.arange(self._core.op_count()))

    @property
    def tensors(self):
        """Inputs and outputs of all operators, in the order of the run."""
        return Tensors(self, np.arange(self._core.tensor_count()))

    @property
    def graph(self):
        """Who reads what of whom, in all steps; `graph.select(step=3)`: in one."""
        return Graph(self, range(len(self._table("step")["rank"])))

    @property
    def problems(self):
        """What could not be read."""
        return [Problem(*problem) for problem in self._core.problems()]

    def _table(self, name):
        if name not in self._tables:
            raw = getattr(self._core, f"{name}_columns")()
            self._tables[name] = {
                column: _Words(*values) if isinstance(values, tuple) else values for column, values in raw.items()
            }
        return self._tables[name]

    def _select(self, ops, *, step=None, rank=None, graph=None, op=None, type=None, side=None, slot=None, source=None):
        if side not in _IS_INPUT:
            raise ValueError(f"side: 'input' or 'output', not {side!r}")
        return self._core.select(
            ops,
            ranks=_numbers("rank", rank),
            iterations=_numbers("step", step),
            graphs=_numbers("graph", graph),
            slots=_numbers("slot", slot),
            op=_pattern(op),
            type=type or "",
            source=source or "",
            inputs=_IS_INPUT[side],
        ).astype(np.intp)


def _pattern(expression):
    return expression.pattern if isinstance(expression, re.Pattern) else expression or ""


def _numbers(name, chosen):
    """What a selection asks for: a number or several; none: all. No number at all selects nothing."""
    if chosen is None:
        return []
    several = [chosen] if np.ndim(chosen) == 0 and not isinstance(chosen, (range, set, frozenset)) else list(chosen)
    if not all(isinstance(number, (int, np.integer)) and number >= 0 for number in several):
        raise ValueError(f"{name}: a number of 0 or more, or several of them, not {chosen!r}")
    if not several:
        raise ValueError(f"{name}: no number was given; leave it out to select all")
    return [int(number) for number in several]


def _rows(*columns):
    return zip(*(column.tolist() for column in columns), strict=True)


class _Collection:
    """Rows of a table of a dump."""

    _of_ops = False

    def __init__(self, dump, rows):
        self._dump = dump
        self._rows = rows

    def __len__(self):
        return len(self._rows)

    def __iter__(self):
        make, dump = self._one, self._dump
        return (make(dump, row) for row in self._rows.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(self._dump, self._rows[index])
        return self._one(self._dump, int(self._rows[index]))

    def __repr__(self):
        return f"<sonde.{type(self).__name__}: {len(self)} of {str(self._dump.path)!r}>"

    def select(self, **selection):
        """Those of them that a selection means. All of what is given must hold:

        step, rank, graph, slot: a number, or several; op: a regular expression (RE2), searched in full names; type: an
        op type, case ignored; side: 'input' or 'output'; source: 'train.py:29' or 'train.py', held against every line
        of an operator's stack.
        """
        chosen = self._dump._select(self._of_ops, **selection)
        return type(self)(self._dump, chosen if self._is_all() else self._rows[np.isin(self._rows, chosen)])

    def matching(self, takes):
        """Those of whose op `takes(name, type)` is true; asked once for each name and type."""
        ops = self._dump._table("op")
        row = self._rows if self._of_ops else self._dump._table("tensor")["op"][self._rows]
        names, types = ops["name"], ops["type"]
        pairs = np.stack([names.codes[row], types.codes[row]], axis=1)
        unique, of_pair = np.unique(pairs, axis=0, return_inverse=True)
        taken = np.array([bool(takes(names.words[name], types.words[kind])) for name, kind in unique.tolist()], bool)
        return type(self)(self._dump, self._rows[taken[of_pair.ravel()]] if len(self._rows) else self._rows)

    def columns_of(self, name):
        """One column of columns(), as a list."""
        return _plain(self._columns()[name]).tolist()

    def columns(self):
        """{name: array}: one array for all of them, in the order of to_pandas."""
        return {name: _plain(column) for name, column in self._columns().items()}

    def to_arrow(self):
        """A pyarrow.Table. Texts are dictionaries, what the dump does not say is null."""
        return _arrow_table(self._columns())

    def to_pandas(self):
        """A pandas.DataFrame. Texts are categories, what the dump does not say is missing."""
        pandas = extra("pandas", "pandas", "to_pandas()")
        return pandas.DataFrame({name: _pandas_column(pandas, column) for name, column in self._columns().items()})


class _Known(NamedTuple):
    """A column of which not every value is known."""

    values: np.ndarray
    known: np.ndarray


class _Shapes(NamedTuple):
    """A column of lists: row i has `sizes[begins[i]:begins[i + 1]]`, if it is known."""

    sizes: np.ndarray
    begins: np.ndarray
    known: np.ndarray

    def take(self, rows):
        lengths = (self.begins[1:] - self.begins[:-1])[rows]
        begins = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(lengths, out=begins[1:])
        places = np.repeat(self.begins[:-1][rows] - begins[:-1], lengths) + np.arange(begins[-1])
        return _Shapes(self.sizes[places], begins, self.known[rows])

    def tuples(self):
        sizes, begins = self.sizes.tolist(), self.begins.tolist()
        return [
            tuple(sizes[begins[row] : begins[row + 1]]) if known else None
            for row, known in enumerate(self.known.tolist())
        ]


def _plain(column):
    if isinstance(column, _Words):
        return column.texts()
    if isinstance(column, _Known):
        return column.values if column.values.dtype.kind == "f" else np.ma.array(column.values, mask=~column.known)
    if isinstance(column, _Shapes):
        shapes = np.empty(len(column.known), dtype=object)
        shapes[:] = column.tuples()
        return shapes
    return column


def _pandas_column(pandas, column):
    if isinstance(column, _Words):
        return pandas.Categorical.from_codes(column.codes, categories=pandas.Index(column.words, dtype=object))
    if isinstance(column, _Known):
        if column.values.dtype.kind == "f":
            return column.values
        return pandas.arrays.IntegerArray(column.values.astype(np.int64), ~column.known)
    return _plain(column)


def _arrow_table(columns):
    pyarrow = extra("pyarrow", "arrow", "to_arrow()")

    def convert(column):
        if isinstance(column, _Words):
            words = pyarrow.array([_utf8(word) for word in column.words], pyarrow.string())
            return pyarrow.DictionaryArray.from_arrays(pyarrow.array(column.codes), words)
        if isinstance(column, _Known):
            values = column.values if column.values.dtype.kind == "f" else column.values.astype(np.int64)
            return pyarrow.array(values, mask=~column.known)
        if isinstance(column, _Shapes):
            begins = pyarrow.array(column.begins, mask=np.append(~column.known, False))
            return pyarrow.ListArray.from_arrays(begins, pyarrow.array(column.sizes))
        return pyarrow.array(column)

    return pyarrow.table({name: convert(column) for name, column in columns.items()})


def _utf8(word):
    return word.encode("utf-8", "backslashreplace").decode()


class Ops(_Collection):
    """Operators, and what is read but made by none: parameters, input data, constants (`is_parameter`)."""

    _of_ops = True

    def _is_all(self):
        return len(self._rows) == self._dump._core.op_count()

    @staticmethod
    def _one(dump, row):
        return Op(dump, row)

    def _columns(self):
        return _op_columns(self._dump, self._rows)


def _op_columns(dump, rows):
    steps, ops = dump._table("step"), dump._table("op")
    step = ops["step"][rows]
    return {
        "rank": steps["rank"][step],
        "graph": steps["graph"][step],
        "step": steps["iteration"][step],
        "op": ops["name"].take(rows),
        "type": ops["type"].take(rows),
        "phase": ops["phase"].take(rows),
        "is_parameter": ops["is_parameter"][rows].astype(bool),
        "failed": ops["failed"][rows].astype(bool),
        "file": ops["file"].take(rows),
        "line": ops["line"][rows],
        "function": ops["function"].take(rows),
        "timestamp_us": ops["timestamp_us"][rows],
    }


class Tensors(_Collection):
    """Inputs and outputs of operators."""

    def _is_all(self):
        return len(self._rows) == self._dump._core.tensor_count()

    @staticmethod
    def _one(dump, row):
        return Tensor(dump, row)

    @property
    def recorded(self):
        """Those of which the dump has values or statistics: what `sonde ls` and the closing line of a run count."""
        has = np.array([file != "" for file in self._dump._table("tensor")["file"].take(self._rows).texts()], bool)
        for _values, known in self._dump._core.statistics_columns(self._rows.tolist()).values():
            has |= known.astype(bool)
        return Tensors(self._dump, self._rows[has])

    def measure(self):
        """Takes the statistics of those that have values in the dump and no statistics. Returns the files that could
        not be read, as Problems."""
        problems = self._dump._core.measure(self._rows.tolist())
        self._dump._tables.pop("tensor", None)  # types and shapes are known now
        return [Problem(*problem) for problem in problems]

    def to_arrow(self, measure=True):
        """A pyarrow.Table. Texts are dictionaries, what the dump does not say is null. `measure`: statistics that the
        dump lacks are taken from its tensor files, which are all read."""
        if measure:
            self.measure()
        return super().to_arrow()

    def to_pandas(self, measure=True):
        """A pandas.DataFrame. Texts are categories, what the dump does not say is missing. `measure`: as to_arrow."""
        if measure:
            self.measure()
        return super().to_pandas()

    def _columns(self):
        dump, rows = self._dump, self._rows
        table = dump._table("tensor")
        of_op = _op_columns(dump, table["op"][rows])
        sides = _Words(table["is_input"][rows].astype(np.int32), ["output", "input"])
        shapes = _Shapes(table["sizes"], table["shape_begins"], table["has_shape"].astype(bool)).take(rows)
        columns = {name: of_op.pop(name) for name in ("rank", "graph", "step", "op", "type", "phase", "is_parameter")}
        columns |= {
            "side": sides,
            "slot": table["slot"][rows],
            "parameter": table["name"].take(rows),
            "key": table["key"].take(rows),
            "dtype": table["dtype"].take(rows),
            "shape": shapes,
        }
        for name, (values, known) in dump._core.statistics_columns(rows.tolist()).items():
            columns[name] = _Known(values, known.astype(bool))
        columns |= {
            "file": table["file"].take(rows),
            "skipped": table["skipped"].take(rows),
            "md5": table["md5"].take(rows),
            "sha1": table["sha1"].take(rows),
            "timestamp_us": table["timestamp_us"][rows],
            "source_file": of_op["file"],
            "source_line": of_op["line"],
            "function": of_op["function"],
        }
        return columns


class Op:
    """One operator in one step, or a parameter, input data or constant."""

    __slots__ = ("_dump", "_row")

    def __init__(self, dump, row):
        self._dump = dump
        self._row = row

    def __repr__(self):
        return f"<sonde.Op {self.name} of step {self.step}>"

    def __str__(self):
        return self.name

    def __eq__(self, other):
        return isinstance(other, Op) and (self._row, self._dump) == (other._row, other._dump)

    def __hash__(self):
        return hash(self._row)

    def _of(self, column):
        return self._dump._table("op")[column][self._row]

    def _of_step(self, column):
        return int(self._dump._table("step")[column][self._of("step")])

    @property
    def name(self):
        """Full name: `Default/network-AlexNet/conv2-Conv2d/conv2d-op0`."""
        return self._of("name")

    @property
    def type(self):
        return self._of("type")

    @property
    def phase(self):
        """'forward', 'backward', 'optimizer', 'recompute', or 'outside' any module."""
        return self._of("phase")

    @property
    def rank(self):
        return self._of_step("rank")

    @property
    def graph(self):
        return self._of_step("graph")

    @property
    def step(self):
        return self._of_step("iteration")

    @property
    def is_parameter(self):
        return bool(self._of("is_parameter"))

    @property
    def failed(self):
        """It threw."""
        return bool(self._of("failed"))

    @property
    def timestamp_us(self):
        return int(self._of("timestamp_us"))

    @property
    def source(self):
        """The innermost Source of the user's program; None when unknown."""
        file, line = self._of("file"), int(self._of("line"))
        if not file:
            return None
        return Source(file, line, self._of("function"), self._dump._core.code(self._row, file, line))

    @property
    def stack(self):
        """Who called, as Sources, innermost first."""
        core = self._dump._core
        return [
            Source(file, line, function, core.code(self._row, file, line))
            for file, line, function in core.trace(self._row)
        ]

    @property
    def attributes(self):
        """{name: text} of its arguments that are no tensors."""
        return self._dump._core.attributes(self._row)

    @property
    def tensors(self):
        first = int(self._of("first_tensor"))
        return Tensors(self._dump, np.arange(first, first + int(self._of("tensors"))))

    @property
    def inputs(self):
        return self._side(True)

    @property
    def outputs(self):
        return self._side(False)

    def _side(self, is_input):
        rows = self.tensors._rows
        return Tensors(self._dump, rows[self._dump._table("tensor")["is_input"][rows] == is_input])


class Tensor:
    """One input or output of one operator."""

    __slots__ = ("_dump", "_row")

    def __init__(self, dump, row):
        self._dump = dump
        self._row = row

    def __repr__(self):
        return f"<sonde.Tensor {self.name} of step {self.step}: {self.dtype or '?'} {self.shape}>"

    def __eq__(self, other):
        return isinstance(other, Tensor) and (self._row, self._dump) == (other._row, other._dump)

    def __hash__(self):
        return hash(self._row)

    def _of(self, column):
        return self._dump._table("tensor")[column][self._row]

    @property
    def name(self):
        """As `sonde show` takes it: `Default/…/conv2d-op0:output.0`."""
        return f"{self.op.name}:{self.side}.{self.slot}"

    @property
    def op(self):
        """Its Op."""
        return Op(self._dump, int(self._of("op")))

    @property
    def side(self):
        return "input" if self._of("is_input") else "output"

    @property
    def slot(self):
        return int(self._of("slot"))

    @property
    def rank(self):
        return self.op.rank

    @property
    def graph(self):
        return self.op.graph

    @property
    def step(self):
        return self.op.step

    @property
    def parameter(self):
        """The parameter, gradient or optimizer state it is, by name; '' when it is none, or the dump does not say."""
        return self._of("name")

    @property
    def key(self):
        """What the host calls the slot, where that is no number: `attn_mask`; else ''."""
        return self._of("key")

    @property
    def dtype(self):
        """'float32', 'bfloat16', …: of the tensor in the program; '' when nothing tells."""
        return self._of("dtype") or self._look()[0]

    @property
    def shape(self):
        """A tuple; None when nothing tells."""
        if not self._of("has_shape"):
            return self._look()[1]
        table = self._dump._table("tensor")
        begin, end = table["shape_begins"][self._row : self._row + 2]
        return tuple(table["sizes"][begin:end].tolist())

    def _look(self):
        return _ask(self._dump._core.look, self._row)

    @property
    def file(self):
        """Path of its file; None when the dump has no values of it."""
        file = self._of("file")
        return Path(self._dump._core.directory(self.rank), file) if file else None

    @property
    def skipped(self):
        """Why it was not recorded; '' when it was."""
        return self._of("skipped")

    @property
    def md5(self):
        return self._of("md5")

    @property
    def timestamp_us(self):
        return int(self._of("timestamp_us"))

    @property
    def statistics(self):
        """Statistics as the dump has them, else taken from its values, once. Raises Error where it has neither."""
        return Statistics(**_ask(self._dump._core.statistics, self._row))

    def numpy(self):
        """The values, as an array that cannot be written to.

        It is a view of the file, and costs no memory, where NumPy has the type. Of bfloat16, the 8-bit floats and other
        types that NumPy lacks it is a copy as float32, of complex32 one as complex64; `bits` is a view of those too.
        """
        elements, dtype = _ask(self._dump._core.values, self._row)
        if dtype in _SAME_IN_NUMPY:
            return elements
        if dtype == "bfloat16":
            values = (elements.astype(np.uint32) << 16).view(np.float32)
        elif dtype == "complex32":
            halves = np.ascontiguousarray(elements).view(np.float16).reshape(*elements.shape, 2).astype(np.float32)
            values = halves.view(np.complex64)[..., 0]
        else:
            values = _ask(self._dump._core.values_as_float32, self._row).reshape(elements.shape)
        values.flags.writeable = False
        return values

    def bits(self):
        """(array, type): the values as they lie in the file, and the name of the type they are of. Those of a type that
        NumPy lacks are unsigned integers of its size."""
        return _ask(self._dump._core.values, self._row)

    def __array__(self, dtype=None, copy=None):
        values = self.numpy()
        if dtype is not None and values.dtype != dtype:
            if copy is False:
                raise ValueError(f"{self.name} is {values.dtype}: no view of it is {dtype}")
            return values.astype(dtype)
        return values.copy() if copy else values


def _ask(function, row):
    try:
        return function(row)
    except (OSError, RuntimeError) as error:
        raise Error(str(error)) from None


class Graph:
    """The data flow of steps."""

    def __init__(self, dump, steps):
        self._dump = dump
        self._steps = steps
        self._edges = None

    def __repr__(self):
        return f"<sonde.Graph of {len(self._steps)} steps of {str(self._dump.path)!r}>"

    def select(self, step=None, rank=None, graph=None):
        """Of some steps, ranks or graphs: a number or several of each."""
        table = self._dump._table("step")
        chosen = np.array(self._steps, dtype=np.intp)
        for name, column, wanted in (("step", "iteration", step), ("rank", "rank", rank), ("graph", "graph", graph)):
            if wanted is not None:
                chosen = chosen[np.isin(table[column][chosen], _numbers(name, wanted))]
        return Graph(self._dump, chosen.tolist())

    @property
    def nodes(self):
        """Operators, in the order of the run."""
        ops, table = self._dump._table("op"), self._dump._table("step")
        rows = [
            np.arange(first, first + count)
            for first, count in _rows(table["first_op"][self._steps], table["ops"][self._steps])
        ]
        rows = np.concatenate(rows) if rows else np.empty(0, np.intp)
        return Ops(self._dump, rows[ops["is_parameter"][rows] == 0])

    @property
    def edges(self):
        """Every Edge, in the order of the readers."""
        dump = self._dump
        return [
            Edge(None if made < 0 else Op(dump, made), from_slot, parameter, Op(dump, to), to_slot)
            for made, from_slot, parameter, to, to_slot in self._all_edges()
        ]

    def _ops_of(self, step):
        """Ops of one step, parameters too."""
        table = self._dump._table("step")
        first = int(table["first_op"][step])
        return Ops(self._dump, np.arange(first, first + int(table["ops"][step])))

    def _edges_of(self, step):
        return Graph(self._dump, [step])._all_edges()

    def _all_edges(self):
        if self._edges is None:
            self._edges = []
            for step in self._steps:
                columns = self._dump._core.edge_columns(step)
                parameters = _Words(*columns["parameter"]).texts()
                self._edges += _rows(
                    columns["from"], columns["from_slot"], parameters, columns["to"], columns["to_slot"]
                )
        return self._edges

    def inputs_of(self, op):
        """Edges that lead to this operator."""
        return [edge for edge in self.edges if edge.to_op == op]

    def readers_of(self, op):
        """Edges that lead from this operator."""
        return [edge for edge in self.edges if edge.from_op == op]

    def _columns(self):
        names = self._dump._table("op")["name"]
        edges = self._all_edges()
        made, from_slot, parameter, to, to_slot = zip(*edges, strict=True) if edges else ((),) * 5
        of_step = _op_columns(self._dump, np.array(to, dtype=np.intp))
        words = [*names.words, ""]
        return {
            **{name: of_step[name] for name in ("rank", "graph", "step")},
            "from": _Words(np.array([names.codes[op] if op >= 0 else len(words) - 1 for op in made], np.int32), words),
            "from_slot": np.array(from_slot, np.uint32),
            "parameter": _dictionary(parameter),
            "to": of_step["op"],
            "to_slot": np.array(to_slot, np.uint32),
        }

    to_arrow = _Collection.to_arrow
    to_pandas = _Collection.to_pandas
    columns = _Collection.columns


def _dictionary(texts):
    words, codes = np.unique(np.array(texts, dtype=object), return_inverse=True) if texts else ([], [])
    return _Words(np.array(codes, np.int32), list(words))
