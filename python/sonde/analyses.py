"""The analyses of dumps as functions: the answers of `sonde first-bad`, `compare`, `stomp`, `headroom`, `watch`,
`verify` and `convert` as objects.

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
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import _core, engines, remote
from .answer_base import Steps
from .answer_types import CompareQuestion, ConvertQuestion, FirstBadQuestion, HeadroomQuestion, Part, WatchQuestion
from .answers import (
    Comparison,
    Conversion,
    FirstBad,
    HeadroomReport,
    StompReport,
    Verification,
    WatchReport,
    answer_of,
    comparison_of,
)
from .errors import Error, named

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Tables(Protocol):
    core: _core.Dump


class OpenDump(Protocol):
    """The result of `sonde.open`."""

    @property
    def tables(self) -> _Tables:
        """Its tables, and the engine behind them."""
        ...


AnyDump = str | os.PathLike[str] | OpenDump


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _asks(kind: type) -> Callable[[_Function], _Function]:
    """The function has the options of the question `kind`: in its signature and, with their meaning, in its
    docstring."""

    def described(function: _Function) -> _Function:
        own = [one for one in inspect.signature(function).parameters.values() if one.kind is not one.VAR_KEYWORD]
        names = [name for name in kind.__annotations__ if name not in {one.name for one in own}]
        options = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        function.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
        meaning = (inspect.getdoc(kind) or "").partition("\n\n")[2]
        function.__doc__ = f"{inspect.getdoc(function)}\n\n{meaning}"
        return function

    return described


@_asks(FirstBadQuestion)
def first_bad(dump: AnyDump, *, engine: engines.Engine | None = None, **question: Unpack[FirstBadQuestion]) -> FirstBad:
    """Finds the first operator whose output holds a NaN or an infinity that matters, and says why (docs/first-bad.md).

    Steps are a number, several, or a text such as "0-5|8"; None: all. `engine` searches the ranks side by side:
    "local", "ray", "dask" or an executor of concurrent.futures (docs/scale.md). Raises sonde.Error when there is no
    dump, ValueError when it has no such step, graph or rank."""
    options = _options(FirstBadQuestion, question)
    with _errors():
        if engine is None:
            _index_ranks(engine, dump)
            document, text = _core.first_bad(_native(dump), options)
        else:
            document, text = engines.searched_ranks(_place_for(dump), options, engine)
    return answer_of(FirstBad, named(document), text=named(text))


@_asks(Part)
def stomp(dump: AnyDump, **question: Unpack[Part]) -> StompReport:
    """Finds tensors whose memory changed although no operator wrote it. Errors as of `first_bad`."""
    with _errors():
        document, text = _core.stomp(_native(dump), _options(Part, question))
    return answer_of(StompReport, named(document), text=named(text))


@_asks(HeadroomQuestion)
def headroom(dump: AnyDump, **question: Unpack[HeadroomQuestion]) -> HeadroomReport:
    """How near tensors are to the largest number of their type, and what other types would lose. Errors as of
    `first_bad`; ValueError also for a type that does not exist."""
    with _errors():
        document, text = _core.headroom(_native(dump), _options(HeadroomQuestion, question))
    return answer_of(HeadroomReport, named(document), text=named(text))


@_asks(CompareQuestion)
def compare(
    target: AnyDump,
    golden: AnyDump | None = None,
    *,
    engine: engines.Engine | None = None,
    **question: Unpack[CompareQuestion],
) -> Comparison:
    """Compares two dumps and says which operator introduces an error that its rounding does not explain
    (docs/compare.md).

    Without `golden` the dump is compared with itself: other steps or another graph of it. Raises sonde.Error when there
    is no dump, or the two have no step in common; ValueError when the mapping cannot be read, or a dump has no such
    step, graph or rank. `engine` as of `first_bad`."""
    _index_ranks(engine, target, *([] if golden is None else [golden]))
    if golden is None:
        if question.get("golden_step") is None and question.get("golden_graph") is None:
            raise ValueError("compare() needs `golden`, or `golden_step` or `golden_graph` of the same dump")
        golden = target
    with _errors():
        native = _core.compare(_native(target), _native(golden), _options(CompareQuestion, question))
    return comparison_of(native)


@_asks(WatchQuestion)
def watch(  # type: ignore[misc]  # `conditions` is an option of the question, too
    dump: AnyDump,
    conditions: str | Sequence[str] = (),
    *,
    engine: engines.Engine | None = None,
    **question: Unpack[WatchQuestion],
) -> WatchReport:
    """Checks conditions on the tensors of a dump (docs/watch.md): `"tensor_overflow"`,
    `"tensor_too_large:abs_mean_gt=10"`.

    Raises ValueError on a condition that does not exist, or when nothing is chosen. `engine` as of `first_bad`."""
    _index_ranks(engine, dump)
    texts = [conditions] if isinstance(conditions, str) else list(conditions)
    with _errors():
        found = _core.watch(_native(dump), _options(WatchQuestion, {**question, "conditions": texts}))
    return answer_of(WatchReport, named(found))


def verify(
    dump: str | os.PathLike[str],
    *,
    hashes: bool = False,
    rank: int | None = None,
    ranks: bool = False,
    engine: engines.Engine | None = None,
) -> Verification:
    """Lists the complete and the missing parts of a dump, with reasons.

    `hashes`: also reads every tensor, and compares it with the recorded statistics and hashes; `ranks`: also compares
    the collectives that the ranks called. `engine` verifies the ranks side by side, as of `first_bad`. Raises
    sonde.Error when there is no dump, or a URL for an engine: its workers do not see it."""
    if not isinstance(dump, (str, os.PathLike)):
        raise ValueError("verify() needs the path of a dump: an open one has been read already")
    if remote.is_url(dump) and engine not in (None, "local"):
        raise Error("engine= needs a dump that its workers see under its path: `sonde gather` copies one")
    options = [*(["--hashes"] if hashes else []), *(["--ranks"] if ranks else [])]
    options += [] if rank is None else ["--rank", str(rank)]
    return answer_of(Verification, json.dumps(engines.verified_ranks(os.fspath(dump), options, engine)))


@_asks(ConvertQuestion)
def convert(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    **question: Unpack[ConvertQuestion],
) -> Conversion:
    """Writes the tensors of binary files (CANN's containers, raw .bin) below `out`.

    `paths`: files, or directories, whose binary tensor files are all taken. Raises sonde.Error if a path has nothing to
    convert, ValueError on a type or format that does not exist. What cannot be converted is in `files` with its reason,
    and in `problems`."""
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    files = [remote.local_path(path) for path in paths]
    with _errors():
        found = _core.convert(files, os.fspath(out), _options(ConvertQuestion, question))
    return answer_of(Conversion, found)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Read failures are an Error; a wrong argument stays a ValueError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise Error(str(error)) from None


# --- arguments --------------------------------------------------------------------------------------------------------


def _index_ranks(engine: engines.Engine | None, *dumps: AnyDump) -> None:
    if engine is None:
        return
    for dump in dumps:
        engines.index_ranks(_path_for(dump), engine)


def _path_for(dump: AnyDump) -> str:
    return remote.local_path(_place_for(dump))


def _place_for(dump: AnyDump) -> str:
    """A path, or a URL, which is for the workers to open."""
    if not isinstance(dump, (str, os.PathLike)):
        raise ValueError("engine= needs the path of a dump: an open one has been read already")
    return os.fspath(dump)


def _native(dump: AnyDump) -> _core.Dump:
    if not isinstance(dump, (str, os.PathLike)):
        return dump.tables.core
    local = remote.local_path(dump)
    with _errors():
        return _core.open_dump(local, [], [], [], "", "", "")


def _options(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that are not None, as the engine takes them."""
    for name in given:
        if name not in kind.__annotations__:
            raise TypeError(f"unexpected argument {name!r}; allowed: {', '.join(kind.__annotations__)}")
    options = {name: value for name, value in given.items() if value is not None}
    return options | {name: _steps_text(options[name]) for name in ("step", "golden_step") if name in options}


def _steps_text(step: Steps) -> str:
    if step is None or isinstance(step, str):
        return step or ""
    return "|".join(str(int(number)) for number in ([step] if isinstance(step, int) else step))
