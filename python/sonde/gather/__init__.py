"""`sonde gather`: the ranks of a run from hosts, disks and object storage in one directory, checked.

A rank belongs to one source; a rank that is there from another source is refused. What is there already is not fetched
again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..answer import Answer, Answered, answered
from ..answer_base import document_of
from ..answer_types import Gathered, GatheredSource
from ..engines import verified_ranks
from ..errors import Error
from ..remote.progress import Progress
from ..remote.urls import is_url
from .fetched import Fetched, RankSource
from .hosts import HostSource
from .place import Place, check_common_files, ranks_of
from .runs import signs_of_two_runs
from .urls import UrlSource

_SOURCES = 8  # at a time
_SHOWN = 10


def main(request_text: str) -> int:
    """The program of `sonde gather`; the request is its options, as JSON. Returns the exit status."""
    return answered(request_text, _gather, document_of(Gathered()))


def _gather(request: Mapping[str, Any], answer: Answer) -> Answered:
    *places, to = request["paths"]
    if not places:
        raise ValueError("name the sources, and at the end the directory to write")
    if is_url(to) or (":" in to.split("/")[0] and not os.path.isdir(to)):
        raise ValueError(f"'{to}' is not a directory of this machine, which sonde gather writes into")
    sources = [_source_of(place) for place in places]
    if any(Path(to).resolve() == Path(source.shown).resolve() for source in sources):
        raise ValueError(f"'{to}' is a source too")
    listed = _listed(sources, answer)
    place = Place(to)
    check_common_files({source.shown: files for source, files in listed})
    for source, files in listed:
        place.take(source.shown, files)
    _check_space(place.directory, [files for _, files in listed])
    if listed:
        place.save()
    fetched = _fetched(listed, place.directory, bool(request.get("checksum")), answer)
    found = _checked(place, [_row(source, files, done) for source, files, done in fetched], answer)
    is_whole = not (found.missing_ranks or found.missing_files or found.notes)
    return (0 if is_whole else 1) if listed else 3, document_of(found), _lines(found)


def _source_of(place: str) -> RankSource:
    if place.startswith("file://"):
        place = place.removeprefix("file://")
    return UrlSource(place) if is_url(place) else HostSource(place)


Listed = tuple[RankSource, Mapping[str, int | None]]


def _listed(sources: Sequence[RankSource], answer: Answer) -> list[Listed]:
    """The sources that can be read. Those that cannot are problems of the answer."""

    def look(source: RankSource) -> Mapping[str, int | None] | Error:
        try:
            return source.files()
        except Error as error:
            return error

    with ThreadPoolExecutor(_SOURCES) as pool:
        found = list(pool.map(look, sources))
    listed: list[Listed] = []
    for source, files in zip(sources, found, strict=True):
        if isinstance(files, Error):
            answer.problem("", files)
        elif not ranks_of(files):  # it may be a whole disk
            answer.problem("", f"cannot gather '{source.shown}': no directory of a rank, as rank_0, is there")
        else:
            listed.append((source, files))
    return listed


def _check_space(to: Path, listed: Sequence[Mapping[str, int | None]]) -> None:
    """Raises Error if the disk lacks room for what is not there yet."""
    needed = sum((size or 0) for files in listed for path, size in files.items() if not (to / path).exists())
    above = next(one for one in (to, *to.resolve().parents) if one.exists())
    free = shutil.disk_usage(above).free
    if needed > free:
        raise Error(
            f"cannot gather into '{to}': {needed / 1e6:.1f} MB are missing there, and the disk has {free / 1e6:.1f}"
        )


def _fetched(
    listed: Sequence[Listed], to: Path, checksum: bool, answer: Answer
) -> list[tuple[RankSource, Mapping[str, int | None], Fetched]]:
    progress = Progress(f"gathering into {to}")

    def fetch(one: Listed) -> Fetched | Error:
        try:
            return one[0].fetch(to, checksum, progress.add)
        except Error as error:
            return error
        except OSError as error:
            return Error(f"cannot write into '{to}': {error.strerror or error}")

    with progress, ThreadPoolExecutor(_SOURCES) as pool:
        done = list(pool.map(fetch, listed))
    found = []
    for (source, files), one in zip(listed, done, strict=True):
        if isinstance(one, Error):
            answer.problem("", one)
            continue
        for path, why in one.wrong.items():
            answer.problem(f"{source.shown}: {path}", why)
        found.append((source, files, one))
    return found


def _row(source: RankSource, files: Mapping[str, int | None], done: Fetched) -> GatheredSource:
    size = sum(size or 0 for size in files.values())
    ranks = tuple(ranks_of(files))
    return GatheredSource(source.shown, ranks, len(files), size, done.files, done.bytes, done.compared)


def _checked(place: Place, rows: Sequence[GatheredSource], answer: Answer) -> Gathered:
    """Adds missing ranks and files, and signs of two runs."""
    directories = sorted(place.sources, key=lambda path: (len(path), path))
    ranks = [(path.rpartition("/")[2], path) for path in directories]
    numbers = {int(name.partition("_")[2]) for name, _ in ranks}
    missing_files: list[str] = []
    if rows:
        try:
            issues = verified_ranks(os.fspath(place.directory), [], "local")["issues"]
        except Error as error:
            answer.problem("", error)
        else:
            missing_files = [issue["path"] for issue in issues if issue["kind"] == "missing"]
    return Gathered(
        directory=os.fspath(place.directory),
        sources=tuple(rows),
        missing_ranks=tuple(sorted(set(range(max(numbers, default=-1))) - numbers)),
        missing_files=tuple(missing_files),
        notes=tuple(signs_of_two_runs((name, place.directory / path) for name, path in ranks)),
    )


# --- the page --------------------------------------------------------------------------------------------------------


def _lines(found: Gathered) -> list[str]:
    lines = [_line(row) for row in found.sources]
    ranks = sum(len(row.ranks) for row in found.sources)
    if found.sources:
        lines.append(f"{ranks} rank{'' if ranks == 1 else 's'} gathered into {found.directory}")
    if found.missing_ranks:
        lines.append(f"missing ranks: {_numbers(found.missing_ranks)}")
    if found.missing_files:
        lines += [f"missing: {path}" for path in found.missing_files[:_SHOWN]]
        more = len(found.missing_files) - _SHOWN
        lines += [f"missing: {more} more (`sonde verify` lists all)"] if more > 0 else []
    return lines + list(found.notes)


def _line(row: GatheredSource) -> str:
    ranks = f"ranks {_numbers(row.ranks)}" if row.ranks else "no ranks"
    fetched = f"{row.fetched} fetched, {row.fetched_bytes / 1e6:.1f} MB, {row.compared} compared by checksum"
    return f"{row.source}: {ranks}; {row.files} files, {row.bytes / 1e6:.1f} MB ({fetched})"


def _numbers(numbers: Sequence[int]) -> str:
    """0-3, 5."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)
