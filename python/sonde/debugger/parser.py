"""DumpParser: the files of a dump."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from .. import dump as dumps
from . import workbook
from .analyzer import matcher
from .checks import Numbers, check_type
from .graphs import graphs_of
from .host_files import convert_all
from .nodes import Graph, Node

Sides: TypeAlias = dict[str, list[str]]  # {"input": [paths], "output": [paths]}


class DumpParser:
    """A dump, opened for its files."""

    def __init__(self, dump_dir: str | os.PathLike[str]) -> None:
        """Raises sonde.Error if it is not a dump."""
        self._path = Path(os.path.realpath(os.fspath(dump_dir)))
        self._dump = dumps.open(self._path)
        self._graphs, self._data = graphs_of(self._dump)

    def export_xlsx(self, output_dir: str | os.PathLike[str] | None = None) -> str:
        """Writes the graphs into `dump_{time}.xlsx` in a directory (that of the process), and returns its path. Raises
        ImportError without openpyxl, OSError."""
        return workbook.export(self._dump, self._graphs, output_dir)

    def get_tensor_files(
        self, qs: str, use_regex: bool = False, rank_ids: Numbers = None, iterations: Numbers = None
    ) -> "dict[str, TensorFiles]":
        """{full name of an operator: TensorFiles} of those with this text, case ignored, or expression in a line of
        their stack. Raises DebuggerParamTypeError if `qs` is not text."""
        check_type("qs", qs, str)
        matches = matcher(qs, use_regex, case_sensitive=use_regex)
        ranks = _numbers(rank_ids, self._dump.ranks)
        wanted = _numbers(iterations, sorted({step.step for step in self._dump.steps}))
        found: dict[str, TensorFiles] = {}
        for graph in self._graphs:
            if graph.rank not in ranks:
                continue
            for node in graph.nodes:
                if any(matches(str(line)) for line in node.stack):
                    files = found.setdefault(node.name, TensorFiles())
                    self._collect(graph, node, [step for step in graph.iterations if step in wanted], files)
        return found

    def _collect(self, graph: Graph, node: Node, iterations: Iterable[int], files: "TensorFiles") -> None:
        for iteration in iterations:
            of_iteration = files.of(graph.rank, iteration)
            for is_input, paths in ((True, of_iteration["input"]), (False, of_iteration["output"])):
                for tensor in self._data.all(graph.key, node.name, iteration, is_input):
                    if str(tensor.tensor_file) not in paths:
                        paths.append(str(tensor.tensor_file))

    def convert_all_data_to_host(self) -> list[str]:
        """Writes tensors of files in a device's format as `.npy` beside them, as NCHW. Returns the files that could not
        be converted; those of a directory are listed in its `convert_failed_file_list.txt`, all of them in
        `convert_failed_files_summary.txt`."""
        return convert_all(self._dump, self._path)


def _numbers(value: Numbers, known: Iterable[int]) -> list[int]:
    if value is None:
        return list(known)
    return [value] if isinstance(value, int) else list(value)


class TensorFiles:
    """Files of one operator."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, Sides]] = {}

    def of(self, rank: int, iteration: int) -> Sides:
        """Those of a rank and iteration, to which files are added."""
        return self._files.setdefault(f"rank_{rank}", {}).setdefault(iteration, {"input": [], "output": []})

    def to_dict(self) -> dict[str, dict[int, Sides]]:
        """{"rank_N": {iteration: {"input": [paths], "output": [paths]}}}"""
        return {
            rank: {
                iteration: {side: list(paths) for side, paths in sides.items()} for iteration, sides in steps.items()
            }
            for rank, steps in self._files.items()
        }

    def __repr__(self) -> str:
        return f"TensorFiles({self.to_dict()})"
