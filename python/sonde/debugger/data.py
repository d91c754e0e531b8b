"""The places of the tensors of a graph's nodes in a dump."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..dump import Dump, Tensor


class GraphKey(NamedTuple):
    """A graph of a dump: its rank, its number, and the number of the graph that runs it."""

    rank: int
    id: int
    root_id: int


class Data:
    """Tensors of a dump by the name of their node."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        # (rank, name) -> [(graph, iteration, row of the dump's table of ops)]
        self._ops: dict[tuple[int, str], list[tuple[int, int, int]]] = {}
        steps, ops = dump.tables.steps, dump.tables.ops
        rank = steps.rank[ops.step].tolist()
        graph = steps.graph[ops.step].tolist()
        iteration = steps.step[ops.step].tolist()
        names, words = ops.name.codes.tolist(), ops.name.words
        self._first = ops.first_tensor.tolist()
        self._count = ops.tensors.tolist()
        tensors = dump.tables.tensors
        self._slot = tensors.slot.tolist()
        self._is_input = tensors.is_input.astype(bool).tolist()
        self._time = tensors.timestamp_us.tolist()
        has_file = np.array([word != "" for word in tensors.file.words], bool)[tensors.file.codes]
        self._recorded = (has_file | tensors.has_statistics.astype(bool)).tolist()
        for row, code in enumerate(names):
            self._ops.setdefault((rank[row], words[code]), []).append((graph[row], iteration[row], row))
        self._other_names: dict[tuple[GraphKey, str], str] = {}  # of a graph file -> name of the files

    def names_of(self, rank: int) -> list[str]:
        """Names of the operators of a rank."""
        return [name for of_rank, name in self._ops if of_rank == rank]

    def lines_of(self, rank: int, name: str) -> set[tuple[str, int]]:
        """(file, line) of the stack of an operator."""
        _, _, row = self._ops[rank, name][0]
        return {(file, line) for file, line, _ in self.dump.tables.core.trace(row)}

    def tensor(self, row: int) -> Tensor:
        """The tensor of a row of the dump's table."""
        return Tensor(self.dump.tables, row)

    def rename(self, graph: GraphKey, name: str, name_of_files: str) -> None:
        """The files of a node have another name than its graph file."""
        self._other_names[graph, name] = name_of_files

    def renamed(self, graphs: Iterable[GraphKey]) -> set[str]:
        """Names of files that nodes of these graphs have under another name."""
        own = set(graphs)
        return {name for (graph, _), name in self._other_names.items() if graph in own}

    def find(self, graph: GraphKey, name: str, iteration: int, is_input: bool, slot: int) -> int | None:
        """The row of a tensor: of several with one name the newest; None if the dump has none."""
        rows = [row for row in self._rows(graph, name, iteration, is_input) if self._slot[row] == slot]
        return max(rows, key=lambda row: self._time[row], default=None)

    def all(self, graph: GraphKey, name: str, iteration: int, is_input: bool) -> list[Tensor]:
        """Tensors that have a file."""
        tensors = [self.tensor(row) for row in self._rows(graph, name, iteration, is_input)]
        return [tensor for tensor in tensors if tensor.tensor_file is not None]

    def _rows(self, graph: GraphKey, name: str, iteration: int, is_input: bool) -> list[int]:
        name = self._other_names.get((graph, name), name)
        runs = [run for run in self._ops.get((graph.rank, name), ()) if run[1] == iteration]
        own = [run for run in runs if run[0] in (graph.id, graph.root_id)]
        return [
            row
            for _, _, op in own or runs
            for row in range(self._first[op], self._first[op] + self._count[op])
            if self._is_input[row] == is_input and self._recorded[row]
        ]
