"""Writes the content of a dump in the formats of other programs: `sonde export`, and save() for Python.

tensors = sonde.open("/data/run7").tensors.select(side="output", step=3)
sonde.export.save(tensors, "run7.parquet")            # one row a tensor: names, types, statistics
sonde.export.save(tensors, "run7.safetensors")        # values; bfloat16 and 8-bit floats as they are
"""

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _core, safetensors, tensorboard
from . import dump as dumps
from .answer import Answer, Answered, answered, opened
from .answer_base import document_of
from .answer_types import Export, ExportedFile, LeftOut
from .dump import Dump, Graph, Ops, Tensor, Tensors
from .dump.column_types import TensorColumns
from .errors import Error
from .extras import extra
from .remote import is_url

StrPath: TypeAlias = str | os.PathLike[str]

FORMATS = ("parquet", "arrow", "safetensors", "npz", "tensorboard")
TABLES = ("tensors", "ops", "graph")
_ENDINGS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".safetensors": "safetensors", ".npz": "npz"}


def format_of(path: StrPath, format: str | None = None) -> str:
    """The format for the ending of a path; a directory is TensorBoard's. Raises ValueError if there is none."""
    if format is not None:
        if format not in FORMATS:
            raise ValueError(f"no format '{format}'; there are {', '.join(FORMATS)}")
        return format
    text = os.fspath(path)
    found = _ENDINGS.get(Path(text).suffix.lower())
    if found is not None:
        return found
    if text.endswith("/") or Path(text).is_dir() or not Path(text).suffix:
        return "tensorboard"
    raise ValueError(
        f"'{text}' ends in none of {', '.join(_ENDINGS)}, and is not a directory (for TensorBoard); or name the "
        f"format: {', '.join(FORMATS)}"
    )


def save(
    tensors: Tensors,
    path: StrPath,
    format: str | None = None,
    *,
    table: str = "tensors",
    statistics: Sequence[str] = dumps.TRENDS,
    measure: bool = True,
) -> ExportedFile:
    """Writes tensors (dump.Tensors) to a file, which is complete or does not exist.

    The ending selects the format: `.parquet`, `.arrow` (`.feather`): one row per tensor, or, with `table`, per op or
    per edge of the graph; `.safetensors`, `.npz`: their values; a directory: TensorBoard's events, `statistics` over
    the steps. `measure`: computes missing statistics from the tensors.

    Raises ValueError when the format, table or a statistic does not exist, ImportError when a package is missing,
    OSError when the file cannot be written.
    """
    if is_url(path):
        raise ValueError("cannot write to a URL: name a path of this machine, and copy it afterwards")
    format = format_of(path, format)
    if table not in TABLES:
        raise ValueError(f"no table '{table}'; there are {', '.join(TABLES)}")
    if table != "tensors" and format not in ("parquet", "arrow"):
        raise ValueError(f"the table '{table}' can be written as parquet or arrow, not as {format}")
    if format == "tensorboard":
        return _save_trends(tensors, path, statistics, measure)
    with _whole(Path(path)) as file:
        writers: dict[str, Callable[..., Content]] = {
            "parquet": _save_table,
            "arrow": _save_table,
            "safetensors": _save_safetensors,
            "npz": _save_npz,
        }
        written = writers[format](tensors, file, format=format, table=table, measure=measure)
    return ExportedFile(
        path=os.fspath(path),
        format=format,
        bytes=os.path.getsize(path),
        skipped=tuple(written.skipped),
        rows=written.rows,
        tensors=written.tensors,
        without_values=written.without_values,
    )


class Content(NamedTuple):
    """The content of a file: rows of a table, or values of tensors."""

    skipped: list[LeftOut]
    rows: int | None = None
    tensors: int | None = None
    without_values: int | None = None


class _whole:
    """A file beside `path`, which is renamed to `path` at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> IO[bytes]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=f".{self._path.name}.", delete=False)
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(self._file.fileno(), 0o666 & ~mask)  # the mode that open() would use
        return self._file

    def __exit__(
        self, failed: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._file.close()
        if failed:
            os.unlink(self._file.name)
            return
        os.replace(self._file.name, self._path)


# --- tables -----------------------------------------------------------------------------------------------------------


def _save_table(tensors: Tensors, file: IO[bytes], *, format: str, table: str, measure: bool) -> Content:
    pyarrow = extra("pyarrow", "arrow", f"writing {format}")
    problems = tensors.measure() if measure and table == "tensors" else []
    if table == "tensors":
        rows = tensors.to_arrow(measure=False)
    else:
        rows = (Ops if table == "ops" else Graph).all_of(tensors.tables).to_arrow()
    if format == "parquet":
        parquet = extra("pyarrow.parquet", "arrow", "writing parquet")
        parquet.write_table(rows, file)
    else:
        with pyarrow.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
    return Content([LeftOut(problem.path, problem.message) for problem in problems], rows=rows.num_rows)


# --- values -----------------------------------------------------------------------------------------------------------


def _names(tensors: Tensors) -> Iterator[tuple[Tensor, str]]:
    """A name for each; parts that are equal for all are left out."""
    several = {what: len(set(tensors.columns_of(what))) > 1 for what in ("rank", "graph", "step")}
    used: dict[str, int] = {}
    for tensor in tensors:
        where = [f"{what}_{getattr(tensor, what)}" for what in ("rank", "graph", "step") if several[what]]
        name = "/".join([*where, _inside(tensor.name)])
        used[name] = used.get(name, 0) + 1  # in a loop, an op runs more than once in a step
        yield tensor, name if used[name] == 1 else f"{name}#{used[name]}"


def _inside(name: str) -> str:
    """Names come from the dump, which may have any origin; in an archive they are paths."""
    return "/".join("__" if part in ("", ".", "..") else part for part in name.split("/"))


def _save_npz(tensors: Tensors, file: IO[bytes], **_: object) -> Content:
    skipped: list[LeftOut] = []
    written = missing = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for tensor, name in _names(tensors):
            if tensor.tensor_file is None:
                missing += 1
                continue
            try:
                values = tensor.numpy()
            except Error as error:
                skipped.append(LeftOut(name, str(error)))
                continue
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, values, allow_pickle=False)
            written += 1
    return Content(skipped, tensors=written, without_values=missing)


def _save_safetensors(tensors: Tensors, file: IO[bytes], **_: object) -> Content:
    entries: list[safetensors.Entry] = []
    skipped: list[LeftOut] = []
    missing = 0
    for tensor, name in _names(tensors):
        if tensor.tensor_file is None:
            missing += 1
            continue
        try:
            dtype, shape, _bits = safetensors.bits_of(
                tensor
            )  # opened again for writing, so that only one file is open at a time
        except Error as error:
            skipped.append(LeftOut(name, str(error)))
            continue
        entries.append((name, dtype, shape, tensor))
    safetensors.write(file, entries)
    return Content(skipped, tensors=len(entries), without_values=missing)


# --- trends -----------------------------------------------------------------------------------------------------------


def _save_trends(tensors: Tensors, directory: StrPath, statistics: Sequence[str], measure: bool) -> ExportedFile:
    unknown = [name for name in statistics if name not in dumps.Statistics._fields]
    if unknown:
        raise ValueError(f"no statistic '{unknown[0]}'; there are {', '.join(dumps.Statistics._fields)}")
    problems = tensors.measure() if measure else []
    columns = tensors.typed_columns()
    ranks, steps, times = (np.asarray(column) for column in (columns.rank, columns.step, columns.timestamp_us))
    paths, count = [], 0
    for rank in np.unique(ranks).tolist():
        rows = np.flatnonzero(ranks == rank)
        rows = rows[np.argsort(steps[rows], kind="stable")]
        path = Path(directory) / f"rank_{rank}" / tensorboard.file_name(times[rows].tolist())
        with _whole(path) as file:
            count += tensorboard.write(file, _points(columns, rows, statistics))
        paths.append(path)
    return ExportedFile(
        path=os.fspath(directory),  # as it was given: `trends/`
        format="tensorboard",
        points=count,
        bytes=sum(path.stat().st_size for path in paths),
        files=tuple(map(str, paths)),
        skipped=tuple(LeftOut(problem.path, problem.message) for problem in problems),
    )


def _points(
    columns: TensorColumns, rows: NDArray[np.intp], statistics: Sequence[str]
) -> Iterator[tuple[int, float, str, float]]:
    """(step, time, tag, value), by step."""
    ops, sides = columns.op_name, columns.side
    has_graphs = len(set(columns.graph.tolist())) > 1
    known = {name: columns.statistics[name] for name in statistics}
    for row in rows.tolist():
        place = f"graph_{columns.graph[row]}/" if has_graphs else ""
        name = f"{place}{ops[row]}:{sides[row]}.{columns.slot[row]}"
        step, when = int(columns.step[row]), int(columns.timestamp_us[row]) / 1e6
        for statistic, column in known.items():
            if column.known[row]:
                yield step, when, f"{statistic}/{name}", float(column.values[row])


# --- the command ------------------------------------------------------------------------------------------------------


def _listed(dump: Dump, name: str, text: str) -> list[int]:
    """The numbers of the dump that the option's list selects."""
    tables = dump.tensors.tables
    column = tables.tensors.slot if name == "slot" else getattr(tables.steps, name)
    return _core.listed(f"--{name}", text, np.unique(column).tolist())


def _chosen(dump: Dump, request: Mapping[str, Any]) -> Tensors:
    selection = {name: request[name] for name in ("op", "type", "side", "source") if request.get(name)}
    for name in ("step", "rank", "graph", "slot"):
        if request.get(name):
            selection[name] = _listed(dump, name, request[name])
            if not selection[name]:
                return dump.tensors[:0]
    tensors = dump.tensors.select(**selection)
    patterns = request.get("select")
    if not patterns:
        return tensors
    return tensors.matching(lambda *op: any(_core.pattern_selects(pattern, *op) for pattern in patterns))


def _selected(dump: Dump, request: Mapping[str, Any]) -> Tensors:
    tensors = _chosen(dump, request)
    if not len(tensors):
        steps = sorted({step.step for step in dump.steps})
        raise ValueError(
            f"no tensor is selected; the dump has {len(dump.tensors)} tensors, ranks {dump.ranks}, "
            f"steps {steps[:8]}{' …' if len(steps) > 8 else ''}"
        )
    return tensors


def _text(file: ExportedFile) -> str:
    amounts = {"rows": file.rows, "tensors": file.tensors, "points": file.points}
    amount = next(f"{number} {what}" for what, number in amounts.items() if number is not None)
    amount += f" ({file.without_values} more have no values in the dump)" if file.without_values else ""
    return f"{file.path}: {file.format}, {amount}, {file.bytes} bytes"


def main(request_text: str) -> int:
    """The program of `sonde export`; the request is its options, as JSON. Returns the exit status."""
    return answered(request_text, _export, document_of(Export(written=())))


def _export(request: Mapping[str, Any], answer: Answer) -> Answered:
    for path in request["to"]:
        format_of(path, request.get("format"))
    dump = opened(request, answer)
    for note in [] if request.get("rank") else dump.notes:
        answer.warning(note)
    tensors = _selected(dump, request)
    settings = {name: request[name] for name in ("format", "table", "statistics", "measure") if name in request}
    files = [save(tensors, path, **settings) for path in request["to"]]
    for file in files:
        for left_out in file.skipped:
            answer.problem("", f"left out {left_out.name}: {left_out.why}")
    return 0, document_of(Export(written=tuple(files))), [_text(file) for file in files]
