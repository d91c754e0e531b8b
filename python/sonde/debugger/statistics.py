"""Tables of statistics, and their summary."""

import csv
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ..dump import Dump, Statistics, Step, Tensor


def _shape(cell: str) -> tuple[int, ...]:
    return tuple(int(size) for size in cell.strip("()[]").replace(" ", "").split(",") if size)


class _Cell:
    """The cell of a row as an attribute: None if the row has no such cell."""

    def __init__(self, title: str, kind: Callable[[str], Any]) -> None:
        self.title, self.kind = title, kind

    def __get__(self, row: Mapping[str, str] | None, _: type) -> Any:
        if row is None:
            return self
        cell = row.get(self.title)
        if cell is None or cell == "":
            return None
        try:
            return self.kind(cell)
        except ValueError:
            return math.nan if self.kind is float else None


class TensorStatistic(dict[str, str]):
    """A row of a table: {title: text} unchanged, and its cells as attributes: `row["Max Value"]` is a text,
    `row.max_value` a number; None if the row has no such cell."""

    op_type = _Cell("Op Type", str)
    op_name = _Cell("Op Name", str)
    task_id = _Cell("Task ID", int)
    stream_id = _Cell("Stream ID", int)
    time_stamp = _Cell("Timestamp", int)
    io = _Cell("IO", str)
    slot = _Cell("Slot", int)
    data_size = _Cell("Data Size", int)
    data_type = _Cell("Data Type", str)
    shape = _Cell("Shape", _shape)
    max_value = _Cell("Max Value", float)
    min_value = _Cell("Min Value", float)
    avg_value = _Cell("Avg Value", float)
    count = _Cell("Count", int)
    negative_zero_count = _Cell("Negative Zero Count", int)
    positive_zero_count = _Cell("Positive Zero Count", int)
    nan_count = _Cell("NaN Count", int)
    negative_inf_count = _Cell("Negative Inf Count", int)
    positive_inf_count = _Cell("Positive Inf Count", int)
    zero_count = _Cell("Zero Count", int)


@dataclasses.dataclass
class _Summary:
    """The columns of `statistics_summary.csv`."""

    op_type: str
    op_name: str
    tensor_name: str
    inf_number: int = 0
    nan_number: int = 0
    out_of_range_number: int = 0
    total_number: int = 0
    none_overflow_number: int = 0
    total_iterations: int = 0


# {rank: {iteration: {"{op}:{io}:{slot}": rows}}}
Selected: TypeAlias = Mapping[int, Mapping[int, Mapping[str, Sequence[Mapping[str, str]]]]]


def statistics_of(dump: Dump, rank: int, step_row: int, step: Step) -> dict[str, list[TensorStatistic]]:
    """{'{op}:{io}:{slot}': [TensorStatistic, …]} of one step: its statistic.csv, else measured from its tensors."""
    root, directory = dump.directory(rank), dump.tables.steps.directory[step_row]
    places = [root / directory] if directory else root.glob(f"*/{step.graph}/{step.step}")
    tables = [path for place in sorted(places) if (path := place / "statistic.csv").is_file()]
    rows = [row for path in tables for row in _table(path)] if tables else _measured(dump, rank, step)
    found: dict[str, list[TensorStatistic]] = {}
    for row in rows:
        found.setdefault(f"{row.get('Op Name')}:{row.get('IO')}:{row.get('Slot')}", []).append(row)
    return found


def _table(path: Path) -> list[TensorStatistic]:
    with open(path, newline="", encoding="utf-8", errors="backslashreplace") as file:
        return [
            TensorStatistic({title: cell for title, cell in row.items() if title and cell is not None})
            for row in csv.DictReader(file)
        ]


def _measured(dump: Dump, rank: int, step: Step) -> list[TensorStatistic]:
    tensors = dump.tensors.select(rank=rank, step=step.step, graph=step.graph)
    tensors.measure()
    rows = []
    for tensor in tensors:
        if tensor.tensor_file is None and not tensor.has_statistics:
            continue
        try:
            known = tensor.statistics
        except Exception:
            continue  # a file that cannot be read, or complex numbers
        rows.append(_row(tensor, known))
    return rows


def _row(tensor: Tensor, known: Statistics) -> TensorStatistic:
    op = tensor.op
    cells = {
        "Op Type": op.op_type,
        "Op Name": op.op_name,
        "Timestamp": tensor.timestamp_us,
        "IO": tensor.side,
        "Slot": tensor.slot,
        "Data Type": tensor.dtype,
        "Shape": str(tensor.shape or ()).replace(" ", "").replace(",)", ")"),
        "Max Value": known.max,
        "Min Value": known.min,
        "Avg Value": known.avg,
        "Count": known.count,
        "Negative Zero Count": known.negative_count,
        "Positive Zero Count": known.positive_count,
        "NaN Count": known.nan_count,
        "Negative Inf Count": known.negative_inf_count,
        "Positive Inf Count": known.positive_inf_count,
        "Zero Count": known.zero_count,
    }
    return TensorStatistic(
        {
            title: f"{cell:g}" if isinstance(cell, float) else str(cell)
            for title, cell in cells.items()
            if cell is not None
        }
    )


def _verdicts(row: TensorStatistic, overflow_value: float) -> tuple[bool, bool, bool, bool]:
    """The kinds of one row: an infinity, a NaN, beyond the value, or none."""
    ends = [end for end in (row.max_value, row.min_value) if end is not None]
    inf = bool(row.positive_inf_count or row.negative_inf_count) or any(math.isinf(end) for end in ends)
    nan = bool(row.nan_count) or (row.nan_count is None and any(math.isnan(end) for end in ends))
    beyond = any(abs(end) > overflow_value for end in ends)
    return inf, nan, beyond, not (inf or nan or beyond)


def summarize(statistics: Selected, overflow_value: float) -> list[dict[str, Any]]:
    """Rows of the summary, in the order in which tensors first appear."""
    rows: dict[str, _Summary] = {}
    for iterations in statistics.values():
        for tensors in iterations.values():
            for name, records in tensors.items():
                for record in records:
                    row = record if isinstance(record, TensorStatistic) else TensorStatistic(record)
                    total = rows.setdefault(name, _Summary(row.op_type, row.op_name, name))
                    inf, nan, beyond, none = _verdicts(row, overflow_value)
                    total.inf_number += inf
                    total.nan_number += nan
                    total.out_of_range_number += beyond
                    total.none_overflow_number += none
                    total.total_number += 1
                if records:
                    rows[name].total_iterations += 1
    return [dataclasses.asdict(row) for row in rows.values()]


def write_summary(rows: Iterable[Mapping[str, Any]], directory: Path) -> None:
    """Writes `statistics_summary.csv`. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "statistics_summary.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in dataclasses.fields(_Summary)], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
