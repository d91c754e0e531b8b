"""The analyses of dumps as functions: the answers of `sonde first-bad`, `compare`, `stomp`, `watch` and `convert` as
objects.

    report = sonde.first_bad("/data/run7")
    if report.first:
        print(report.first.op_name, report.first.code.source_file, report.first.code.source_line)
    print(report)                              # the page that the command prints

    comparison = sonde.compare("/data/npu", sonde.open("/data/cpu"))
    comparison.to_pandas()                     # a row for each output

A dump is a path or the result of `sonde.open`. In a notebook an answer shows itself as a table. No framework is needed;
`to_pandas` needs pandas."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from . import _core
from .answers import (
    Comparison,
    Conversion,
    FirstBad,
    StompReport,
    WatchReport,
    conversion_of,
    first_bad_of,
    stomp_report_of,
    watch_report_of,
)
from .errors import Error


class _Tables(Protocol):
    core: _core.Dump


class OpenDump(Protocol):
    """The result of `sonde.open`."""

    @property
    def tables(self) -> _Tables:
        """Its tables, and the engine behind them."""
        ...


AnyDump = str | os.PathLike[str] | OpenDump


Steps = int | str | Iterable[int] | None


def first_bad(
    dump: AnyDump, *, step: Steps = None, graph: int | None = None, rank: int | None = None, threads: int = 0
) -> FirstBad:
    """Finds the first operator whose output holds a NaN or an infinity that matters, and says why (docs/first-bad.md).

    `step`: a number, several, or a text such as "0-5|8"; None: all. `threads` that read files; 0: one for each CPU.
    Raises sonde.Error when there is no dump, ValueError when it has no such step, graph or rank."""
    with _errors():
        document, text = _answer(_core.first_bad(_native(dump), _steps_text(step), graph, rank, threads))
    return first_bad_of(document, text)


def stomp(dump: AnyDump, *, step: Steps = None, graph: int | None = None, rank: int | None = None) -> StompReport:
    """Finds tensors whose memory changed although no operator wrote it. Arguments and errors as of `first_bad`."""
    with _errors():
        document, text = _answer(_core.stomp(_native(dump), _steps_text(step), graph, rank))
    return stomp_report_of(document, text)


def compare(
    target: AnyDump,
    golden: AnyDump | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    mapping: str | os.PathLike[str] = "",
    step: Steps = None,
    graph: int | None = None,
    rank: int | None = None,
    golden_step: Steps = None,
    golden_graph: int | None = None,
    threads: int = 0,
) -> Comparison:
    """Compares two dumps and says which operator introduces an error that its rounding does not explain
    (docs/compare.md).

    `rtol`, `atol`: tolerances in place of the derived ones. `mapping`: a JSON or CSV file that names the golden
    operator of each of the target's. `step` as of `first_bad`. `golden_step`, `golden_graph`: steps or graph of the
    golden dump, if others are meant; steps are then compared in their order, and without `golden` the dump is compared
    with itself. Raises sonde.Error when there is no dump, or the two have no step in common; ValueError when the
    mapping cannot be read, or a dump has no such step, graph or rank."""
    if golden is None:
        if golden_step is None and golden_graph is None:
            raise ValueError("compare() needs `golden`, or `golden_step` or `golden_graph` of the same dump")
        golden = target
    with _errors():
        native = _core.compare(
            _native(target),
            _native(golden),
            rtol,
            atol,
            os.fspath(mapping),
            _steps_text(step),
            graph,
            rank,
            _steps_text(golden_step),
            golden_graph,
            threads,
        )
    return Comparison(native)


def watch(
    dump: AnyDump,
    conditions: str | Sequence[str] = (),
    *,
    recommended: bool = False,
    step: Steps = None,
    graph: int | None = None,
    rank: int | None = None,
    op: str = "",
    type: str = "",
    source: str = "",
    side: str | None = None,
) -> WatchReport:
    """Checks conditions on the tensors of a dump (docs/watch.md): `"tensor_overflow"`,
    `"tensor_too_large:abs_mean_gt=10"`.

    `recommended`: also those that MindSpore's debugger recommends. The other arguments choose tensors, as those of
    `Tensors.select`; `side` None: outputs. Raises ValueError on a condition that does not exist, or when nothing is
    chosen."""
    if side not in (None, "input", "output"):
        raise ValueError(f"side: 'input' or 'output', not {side!r}")
    texts = [conditions] if isinstance(conditions, str) else list(conditions)
    inputs = None if side is None else side == "input"
    with _errors():
        found = _core.watch(_native(dump), texts, recommended, _steps_text(step), graph, rank, op, type, source, inputs)
    return watch_report_of(found)


def convert(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    type: str = "npy",
    format: str = "",
    shape: Sequence[int] = (),
    input: int | None = None,
    output: int | None = None,
) -> Conversion:
    """Writes the tensors of binary files (CANN's containers, raw .bin) below `out`.

    `type`: "npy", "bin", "msnpy" or "pt". `paths`: files, or directories, whose binary tensor files are all taken.
    `format`: "NCHW", "ND", …; empty: as they are stored; `shape`: that of the result, in place of the file's
    own. `input`, `output`: only that slot. Raises sonde.Error if a path has nothing to convert, ValueError on a type or
    format that does not exist. Files that cannot be converted are in `lost`."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files = [os.fspath(path) for path in paths]
    with _errors():
        found = _core.convert(files, os.fspath(out), type, format, list(shape), input, output)
    return conversion_of(found)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Read failures are an Error; a wrong argument stays a ValueError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Error(str(error)) from None


# --- arguments --------------------------------------------------------------------------------------------------------


def _native(dump: AnyDump) -> _core.Dump:
    if not isinstance(dump, (str, os.PathLike)):
        return dump.tables.core
    with _errors():
        return _core.open_dump(os.fspath(dump), [], [], [], "", "", "")


def _steps_text(step: Steps) -> str:
    if step is None or isinstance(step, str):
        return step or ""
    return "|".join(str(int(number)) for number in ([step] if isinstance(step, int) else step))


def _answer(answer: tuple[str, str]) -> tuple[dict[str, Any], str]:
    document, text = answer
    return json.loads(document), text
