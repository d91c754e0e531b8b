"""Columns of tables: in the engine's form, and for NumPy, pandas and Arrow."""

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..extras import extra

if TYPE_CHECKING:
    import pandas
    import pyarrow

Rows: TypeAlias = NDArray[np.intp]  # numbers of rows of a table


class Words:
    """A column of texts with many equal ones: row i is `words[codes[i]]`."""

    def __init__(self, codes: NDArray[np.int32], words: list[str]) -> None:
        self.codes, self.words = codes, words

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Words":
        """The column of these texts."""
        if not texts:
            return cls(np.array([], np.int32), [])
        words, codes = np.unique(np.array(texts, dtype=object), return_inverse=True)
        return cls(codes.astype(np.int32), words.tolist())

    def __getitem__(self, row: int) -> str:
        text: str = self.words[self.codes[row]]
        return text

    def take(self, rows: Rows) -> "Words":
        """The column of some rows."""
        return Words(self.codes[rows], self.words)

    def texts(self) -> NDArray[np.object_]:
        """The texts themselves."""
        words = np.empty(len(self.words), dtype=object)
        words[:] = self.words
        return words[self.codes]


class Known(NamedTuple):
    """A column with unknown values."""

    values: NDArray[Any]
    known: NDArray[np.bool_]


class Shapes(NamedTuple):
    """A column of lists: row i has `sizes[begins[i]:begins[i + 1]]`, if it is known."""

    sizes: NDArray[np.int64]
    begins: NDArray[np.int32]
    known: NDArray[np.bool_]

    def take(self, rows: Rows) -> "Shapes":
        """The column of some rows."""
        lengths = (self.begins[1:] - self.begins[:-1])[rows]
        begins = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(lengths, out=begins[1:])
        places = np.repeat(self.begins[:-1][rows] - begins[:-1], lengths) + np.arange(begins[-1])
        return Shapes(self.sizes[places], begins, self.known[rows])

    def tuples(self) -> list[tuple[int, ...] | None]:
        """The lists; None for an unknown one."""
        sizes, begins = self.sizes.tolist(), self.begins.tolist()
        return [
            tuple(sizes[begins[row] : begins[row + 1]]) if known else None
            for row, known in enumerate(self.known.tolist())
        ]


Column: TypeAlias = NDArray[Any] | Words | Known | Shapes


class Columns(abc.ABC):
    """A table, and its forms in NumPy, Arrow and pandas."""

    @abc.abstractmethod
    def raw_columns(self) -> dict[str, Column]:
        """{name: column}, without a copy of each text."""

    def columns_of(self, name: str) -> list[Any]:
        """One column of columns(), as a list."""
        values: list[Any] = _plain(self.raw_columns()[name]).tolist()
        return values

    def columns(self) -> dict[str, NDArray[Any]]:
        """{name: array}: one array for all of them, in the order of to_pandas. Texts and shapes are objects;
        numbers that the dump does not have are NaN, or masked if they are integers."""
        return {name: _plain(column) for name, column in self.raw_columns().items()}

    def to_arrow(self) -> "pyarrow.Table":
        """A pyarrow.Table. Texts are dictionaries; unknown values are null. Raises ImportError without
        pyarrow."""
        return _arrow_table(self.raw_columns())

    def to_pandas(self) -> "pandas.DataFrame":
        """A pandas.DataFrame. Texts are categories; unknown values are missing. Raises ImportError without
        pandas."""
        pandas = extra("pandas", "pandas", "to_pandas()")
        return pandas.DataFrame({name: _pandas_column(pandas, column) for name, column in self.raw_columns().items()})


def _plain(column: Column) -> NDArray[Any]:
    if isinstance(column, Words):
        return column.texts()
    if isinstance(column, Known):
        return column.values if column.values.dtype.kind == "f" else np.ma.array(column.values, mask=~column.known)
    if isinstance(column, Shapes):
        shapes = np.empty(len(column.known), dtype=object)
        shapes[:] = column.tuples()
        return shapes
    return column


def _pandas_column(pandas: Any, column: Column) -> Any:
    if isinstance(column, Words):
        return pandas.Categorical.from_codes(column.codes, categories=pandas.Index(column.words, dtype=object))
    if isinstance(column, Known):
        if column.values.dtype.kind == "f":
            return column.values
        return pandas.arrays.IntegerArray(column.values.astype(np.int64), ~column.known)
    return _plain(column)


def _arrow_table(columns: Mapping[str, Column]) -> "pyarrow.Table":
    pyarrow = extra("pyarrow", "arrow", "to_arrow()")

    def convert(column: Column) -> Any:
        if isinstance(column, Words):
            words = pyarrow.array([_utf8(word) for word in column.words], pyarrow.string())
            return pyarrow.DictionaryArray.from_arrays(pyarrow.array(column.codes), words)
        if isinstance(column, Known):
            values = column.values if column.values.dtype.kind == "f" else column.values.astype(np.int64)
            return pyarrow.array(values, mask=~column.known)
        if isinstance(column, Shapes):
            begins = pyarrow.array(column.begins, mask=np.append(~column.known, False))
            return pyarrow.ListArray.from_arrays(begins, pyarrow.array(column.sizes))
        return pyarrow.array(column)

    return pyarrow.table({name: convert(column) for name, column in columns.items()})


def _utf8(word: str) -> str:
    return word.encode("utf-8", "backslashreplace").decode()
