"""The data flow of a dump."""

import html
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import named
from .column_types import GraphColumns
from .columns import Column, Columns, Words
from .rows import Op, Ops, by_name, op_columns
from .tables import Numbers, Tables, numbers

# An edge by rows of the table of operators: its producer (-1: none), the producer's slot, the parameter's name, the
# reader, the reader's slot.
EdgeRow: TypeAlias = tuple[int, int, str, int, int]


class Edge(NamedTuple):
    """An edge along which a tensor flows. If no operator of the step made it, `from_op` is None, and `parameter` is its
    name."""

    from_op: Op | None
    from_slot: int
    parameter: str
    to_op: Op
    to_slot: int


class Graph(Columns):
    """The data flow of steps."""

    def __init__(self, tables: Tables, steps: Sequence[int]) -> None:
        self._tables = tables
        self._steps = steps
        self._edges: list[EdgeRow] | None = None

    @classmethod
    def all_of(cls, tables: Tables) -> "Graph":
        """The graph of all steps of a dump."""
        return cls(tables, range(len(tables.steps.rank)))

    def __repr__(self) -> str:
        return f"<sonde.Graph of {len(self._steps)} steps of {named(str(self._tables.path))!r}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>" + self.nodes._repr_html_()

    def select(self, step: Numbers = None, rank: Numbers = None, graph: Numbers = None) -> "Graph":
        """The graph of some steps, ranks or graphs: a number or several of each. Raises ValueError for other values."""
        table = self._tables.steps
        chosen = np.array(self._steps, dtype=np.intp)
        columns: list[tuple[str, NDArray[Any], Numbers]] = [
            ("step", table.step, step),
            ("rank", table.rank, rank),
            ("graph", table.graph, graph),
        ]
        for name, column, wanted in columns:
            if wanted is not None:
                chosen = chosen[np.isin(column[chosen], numbers(name, wanted))]
        return Graph(self._tables, chosen.tolist())

    @property
    def nodes(self) -> Ops:
        """Operators, in the order of the run."""
        rows = [ops_of_step(self._tables, step).rows for step in self._steps]
        every = np.concatenate(rows) if rows else np.empty(0, np.intp)
        return Ops(self._tables, every[self._tables.ops.is_parameter[every] == 0])

    @property
    def edges(self) -> list[Edge]:
        """Every Edge, in the order of the readers."""
        tables = self._tables
        return [
            Edge(None if made < 0 else Op(tables, made), from_slot, parameter, Op(tables, to), to_slot)
            for made, from_slot, parameter, to, to_slot in self._edge_rows()
        ]

    def _edge_rows(self) -> list[EdgeRow]:
        if self._edges is None:
            self._edges = [edge for step in self._steps for edge in edges_of_step(self._tables, step)]
        return self._edges

    def inputs_of(self, op: Op) -> list[Edge]:
        """Edges that lead to this operator."""
        return [edge for edge in self.edges if edge.to_op == op]

    def readers_of(self, op: Op) -> list[Edge]:
        """Edges that lead from this operator."""
        return [edge for edge in self.edges if edge.from_op == op]

    def raw_columns(self) -> dict[str, Column]:
        """A row for each edge."""
        names = self._tables.ops.name
        edges = self._edge_rows()
        made, from_slot, parameter, to, to_slot = zip(*edges, strict=True) if edges else ((),) * 5
        of_step = op_columns(self._tables, np.array(to, dtype=np.intp))
        words = [*names.words, ""]
        makers = [names.codes[op] if op >= 0 else len(words) - 1 for op in made]
        columns = GraphColumns(
            rank=of_step.rank,
            graph=of_step.graph,
            step=of_step.step,
            from_=Words(np.array(makers, np.int32), words),
            from_slot=np.array(from_slot, np.uint32),
            parameter=Words.of(parameter),
            to=of_step.op_name,
            to_slot=np.array(to_slot, np.uint32),
        )
        return by_name(columns)


def ops_of_step(tables: Tables, step: int) -> Ops:
    """Operators of a row in the table of steps, including parameters."""
    first = int(tables.steps.first_op[step])
    return Ops(tables, np.arange(first, first + int(tables.steps.ops[step])))


def edges_of_step(tables: Tables, step: int) -> Iterator[EdgeRow]:
    """The edges of a row of the table of steps, in the order of the readers."""
    columns = tables.core.edge_columns(step)
    return zip(
        columns["from"].tolist(),
        columns["from_slot"].tolist(),
        Words(*columns["parameter"]).texts().tolist(),
        columns["to"].tolist(),
        columns["to_slot"].tolist(),
        strict=True,
    )
