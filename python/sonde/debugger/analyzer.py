"""DumpAnalyzer: queries about a dump's graphs and tensors."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .. import dump as dumps
from . import workbook
from .checks import (
    DebuggerParamTypeError,
    DebuggerParamValueError,
    Numbers,
    check_type,
    chosen,
    chosen_slots,
    is_number,
)
from .conditions import HitDetail, Watchpoint, WatchpointHit
from .graphs import graphs_of
from .nodes import DebuggerTensor, Node
from .statistics import Selected, TensorStatistic, statistics_of, summarize, write_summary

_MEM_LIMIT = (2048, 2147483647)  # MB


class DumpAnalyzer:
    """A dump, opened for queries. `mem_limit`: megabytes that check_watchpoints may hold of one tensor and the one
    before it; None: any."""

    def __init__(self, dump_dir: str | os.PathLike[str], mem_limit: int | None = None) -> None:
        """Raises sonde.Error if it is not a dump, DebuggerParamTypeError or DebuggerParamValueError."""
        if mem_limit is not None:
            if not isinstance(mem_limit, int) or isinstance(mem_limit, bool):
                raise DebuggerParamTypeError(f"mem_limit must be int or None, not {type(mem_limit).__name__}")
            if not _MEM_LIMIT[0] <= mem_limit <= _MEM_LIMIT[1]:
                raise DebuggerParamValueError(
                    f"mem_limit must be in [{_MEM_LIMIT[0]}, {_MEM_LIMIT[1]}] or None, not {mem_limit}"
                )
        self._path = Path(os.path.realpath(os.fspath(dump_dir)))
        self._mem_limit = mem_limit
        self._dump = dumps.open(self._path)
        self._graphs, self._data = graphs_of(self._dump)

    def export_graphs(self, output_dir: str | os.PathLike[str] | None = None) -> str:
        """Writes the graphs into `dump_{time}.xlsx` in a directory (that of the process), and returns its path. Raises
        ImportError without openpyxl, OSError."""
        return workbook.export(self._dump, self._graphs, output_dir)

    def select_nodes(
        self,
        query_string: str,
        use_regex: bool = False,
        select_by: str = "node_name",
        ranks: Numbers = None,
        case_sensitive: bool = True,
    ) -> list[Node]:
        """Nodes with this text or expression in their full name, or, with select_by "code_stack", in a line of their
        stack. Raises DebuggerParamTypeError or DebuggerParamValueError, re.error for a wrong expression."""
        check_type("query_string", query_string, str)
        check_type("use_regex", use_regex, bool)
        check_type("case_sensitive", case_sensitive, bool)
        if select_by not in ("node_name", "code_stack"):
            raise DebuggerParamValueError(f"select_by must be 'node_name' or 'code_stack', not {select_by!r}")
        ranks = chosen("ranks", ranks, self.get_ranks())
        matches = matcher(query_string, use_regex, case_sensitive)
        return [
            node
            for graph in self._graphs
            if graph.rank in ranks
            for node in graph.nodes
            if (matches(node.name) if select_by == "node_name" else any(matches(str(line)) for line in node.stack))
        ]

    def select_tensors(  # noqa: PLR0917 - the original's parameters
        self,
        query_string: str,
        use_regex: bool = False,
        select_by: str = "node_name",
        iterations: Numbers = None,
        ranks: Numbers = None,
        slots: Sequence[int] | None = None,
        case_sensitive: bool = True,
    ) -> list[DebuggerTensor]:
        """Outputs of the nodes that select_nodes returns. Raises as select_nodes does."""
        iterations = None if iterations is None else chosen("iterations", iterations, self.get_iterations())
        chosen_slots(slots)
        nodes = self.select_nodes(query_string, use_regex, select_by, ranks, case_sensitive)
        return [tensor for node in nodes for tensor in node.get_output_tensors(iterations, slots)]

    def select_tensor_statistics(
        self, iterations: Numbers = None, ranks: Numbers = None
    ) -> dict[int, dict[int, dict[str, list[TensorStatistic]]]]:
        """{rank: {iteration: {"op:io:slot": [TensorStatistic, …]}}}. Raises DebuggerParamTypeError or
        DebuggerParamValueError."""
        ranks = chosen("ranks", ranks, self.get_ranks())
        iterations = chosen("iterations", iterations, self.get_iterations())
        found: dict[int, dict[int, dict[str, list[TensorStatistic]]]] = {rank: {} for rank in ranks}
        for row, step in enumerate(self._dump.steps):
            if step.rank not in ranks or step.step not in iterations:
                continue
            of_step = found[step.rank].setdefault(step.step, {})
            for name, records in statistics_of(self._dump, step.rank, row, step).items():
                of_step.setdefault(name, []).extend(records)
        return found

    def summary_statistics(
        self, statistics: Selected, overflow_value: float = 65500, out_path: str | os.PathLike[str] = "./"
    ) -> None:
        """Writes `statistics_summary.csv`: in how many iterations each tensor had an infinity, a NaN, or an end beyond
        overflow_value. Raises DebuggerParamTypeError, OSError."""
        check_type("statistics", statistics, dict)
        if not is_number(overflow_value):
            raise DebuggerParamTypeError(f"overflow_value must be a number, not {type(overflow_value).__name__}")
        write_summary(summarize(statistics, overflow_value), Path(os.fspath(out_path)))

    def get_iterations(self, ranks: Numbers = None) -> list[int]:
        """Iterations that have data, in order. Raises DebuggerParamTypeError or DebuggerParamValueError."""
        ranks = chosen("ranks", ranks, self.get_ranks())
        return sorted({step.step for step in self._dump.steps if step.rank in ranks})

    def get_ranks(self) -> list[int]:
        """Numbers of the ranks, in order."""
        return sorted(self._dump.ranks)

    def get_input_nodes(self, node: Node) -> list[Node]:
        """Nodes that this one reads, by slot. Raises DebuggerParamTypeError."""
        check_type("node", node, Node)
        return [made[0] for made in node.inputs if made is not None]

    def get_output_nodes(self, node: Node) -> list[Node]:
        """Nodes that read this one. Raises DebuggerParamTypeError."""
        check_type("node", node, Node)
        return [reader for _, reader in node.readers]

    def list_affected_nodes(self, tensor: DebuggerTensor) -> list[Node]:
        """Nodes that read this tensor. Raises DebuggerParamTypeError."""
        check_type("tensor", tensor, DebuggerTensor)
        return [reader for slot, reader in tensor.node.readers if slot in (None, tensor.slot)]

    def check_watchpoints(
        self, watchpoints: Watchpoint | Iterable[Watchpoint], error_on_no_value: bool = False
    ) -> list[WatchpointHit]:
        """WatchpointHits, by the time at which their tensors were written. All watchpoints in one call read each tensor
        once. `error_on_no_value`: a tensor without values in the dump is a hit too, with error code 32. Raises
        DebuggerParamTypeError."""
        if isinstance(watchpoints, Watchpoint):
            watchpoints = [watchpoints]
        if not hasattr(watchpoints, "__iter__"):
            raise DebuggerParamTypeError(f"watchpoints must be a list of Watchpoint, not {type(watchpoints).__name__}")
        watchpoints = list(watchpoints)
        for watchpoint in watchpoints:
            check_type("each of watchpoints", watchpoint, Watchpoint)
        check_type("error_on_no_value", error_on_no_value, bool)
        asked: list[tuple[str, list[tuple[str, float]], list[int]]] = []
        by_row: list[dict[int, DebuggerTensor]] = []
        missing: list[WatchpointHit] = []
        for watchpoint in watchpoints:
            rows: dict[int, DebuggerTensor] = {}
            for tensor in watchpoint.tensors:
                row = tensor.row()
                if row is None:
                    missing.append(WatchpointHit(tensor, watchpoint.condition, None, 32))
                else:
                    rows.setdefault(row, tensor)
            condition = watchpoint.condition
            asked.append((condition.name, list(condition.param_dict.items()), list(rows)))
            by_row.append(rows)
        hits, _ = self._dump.tables.core.watch(asked, (self._mem_limit or 0) << 20, error_on_no_value)
        found = [
            WatchpointHit(
                by_row[number][row], watchpoints[number].condition, HitDetail.of(parameters) if is_hit else None, code
            )
            for number, row, is_hit, code, parameters in hits
        ]
        return found + missing if error_on_no_value else found


def matcher(query: str, use_regex: bool, case_sensitive: bool) -> Callable[[str], bool]:
    """True if a text contains this text or expression. Raises re.error for a wrong expression."""
    if use_regex:
        pattern = re.compile(query, 0 if case_sensitive else re.IGNORECASE)
        return lambda text: pattern.search(text) is not None
    if case_sensitive:
        return lambda text: query in text
    lower = query.lower()
    return lambda text: lower in text.lower()
