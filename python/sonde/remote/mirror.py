"""The mirror of a dump at a URL: a directory with its names. The engine asks for the bytes of the files that it reads
(sonde/file_source.h).

Journals are fetched first, unless somebody else reads most of them. What they name is fetched when it is read. A dump
without a journal is known by the names of its files: then all names and all tables are fetched first."""

import contextlib
import difflib
import os
import re
import shutil
import stat
import threading
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import Error
from .cache import Place
from .progress import Progress
from .source import Entry, Source
from .urls import RemoteError, address_of

_PLACEHOLDER, _COMPLETE = 0o200, 0o400
_REQUESTS = 32  # at a time
_TRIES = 3  # of a file that changes while it is read
_CERTAIN = 1 << 20  # bytes that come in one answer: a larger file is looked at again after it was read
_OVERLAP = 1 << 16  # of a file that has grown: the same bytes before the new ones
_DEEPEST = 12
_METADATA = ".dump_metadata"
_JOURNAL = re.compile(r"(?:device_\d+/)?sonde/journal")
_RANK = re.compile(r"(?:rank_?|worldsize\d+_global_rank)(\d+)")
_TABLES = (".csv", ".json")
_TRIMMED = 256 << 20  # bytes fetched before the cache is looked at again


class Mirror:
    """All functions may be called from several threads."""

    def __init__(self, url: str) -> None:
        address = address_of(url)
        self.inside = ""  # the part of the dump that the URL names
        parts = address.url.split("/")
        at = next((i for i, part in enumerate(parts) if i > 3 and re.fullmatch(r"rank_\d+", part)), 0)
        if at:  # the directory of a rank, or one inside it
            self.inside = "/".join(parts[at:])
            cut = len(self.inside) + 1
            address = address._replace(url=address.url[:-cut], shown=address.shown[:-cut])
        self._source = Source(address)
        self.name = address.shown
        self._place = Place(address)
        self.root = self._place.root
        self._pool = ThreadPoolExecutor(_REQUESTS)
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._listed: set[str] = set()
        self._fetched = 0
        self._ranks: set[int] = set()
        self._wanted: set[int] = set()  # empty: all
        self._later: dict[str, Entry] | None = None  # journals that come when they are read; None: they come first
        self._progress = Progress(f"fetching {address.shown}")

    @property
    def path(self) -> Path:
        """The directory in the mirror that the URL stands for."""
        return self.root / self.inside

    # --- opening

    def look(self, ranks: Iterable[int] = (), *, later: bool = False) -> None:
        """Compares the mirror with the source: names, and journals; with `later` these come when they are read. Raises
        RemoteError if there is no dump."""
        wanted = set(ranks)
        with self._lock:
            self._listed.clear()
            self._wanted = wanted
            self._later = {} if later else None
        with self._progress:
            start = self.inside.partition("/")[0]
            try:
                entries = self._names(start)
            except FileNotFoundError:
                entries = []
            if not entries:
                self._explain_nothing()
            journals = self._walk(start)
            if wanted and self._ranks and not wanted & self._ranks:
                there = ", ".join(map(str, sorted(self._ranks)))
                raise RemoteError(f"no rank {min(wanted)} in '{self.name}'; there are {there}", 2)
            if not journals:
                self._fetch_all(self._tables())
            if "/" in self.inside:
                self._check_inside()
                self._names(self.inside)
        self._place.trim()

    def want(self, ranks: Iterable[int]) -> None:
        """Whoever has looked before asks for these ranks alone; none: for all."""
        with self._lock:
            self._wanted = set(ranks)

    def _explain_nothing(self) -> None:
        if self._source.is_file():
            raise RemoteError(f"{self._cannot_open}: it is a file; expected the directory of a dump")
        near = self._nearest_ranks() or self._source.nearest()
        listed = ", ".join(f"'{name}'" for name in near)
        raise RemoteError(f"{self._cannot_open}: nothing is there" + (f"; there are {listed}" if listed else ""))

    @property
    def _cannot_open(self) -> str:
        return f"cannot open dump '{self.name}{'/' + self.inside if self.inside else ''}'"

    def _nearest_ranks(self) -> list[str]:
        """The URLs of ranks most like the one that is not there."""
        if not self.inside:
            return []
        with contextlib.suppress(Error, FileNotFoundError):
            ranks = [entry.name for entry in self._source.names("") if _RANK.fullmatch(entry.name)]
            asked = self.inside.partition("/")[0]
            return [f"{self.name}/{rank}" for rank in difflib.get_close_matches(asked, ranks, 3, 0.5)]
        return []

    def _check_inside(self) -> None:
        """Raises RemoteError if the URL is that of a file in a rank."""
        entry = None if self._source.address.is_http else self._source.look(self.inside)
        if entry and not entry.is_directory:
            raise RemoteError(
                f"{self._cannot_open}: it is a file; expected the directory of a dump, of a rank, or inside one"
            )

    def _is_unwanted(self, name: str) -> bool:
        """Whether it is the directory of a rank that was not asked for."""
        rank = _RANK.fullmatch(name)
        if not rank:
            return False
        with self._lock:
            self._ranks.add(int(rank[1]))
        return bool(self._wanted) and int(rank[1]) not in self._wanted

    def _walk(self, start: str) -> int:
        """Looks at all directories that may hold ranks. Returns the number of journals."""
        level, journals = [start], 0
        for _ in range(_DEEPEST):
            found = list(self._pool.map(self._look_at, level))
            journals += sum(count for count, _ in found)
            level = [path for _, below in found for path in below]
            if not level:
                break
        return journals

    def _look_at(self, path: str) -> tuple[int, list[str]]:
        """The journals in a directory, and the directories below that may have some."""
        entries = {entry.name: entry for entry in self._names(path)}
        metadata = _joined(path, _METADATA)
        journals: list[Entry] = []
        is_own = False
        if _METADATA in entries or self._source.address.is_http:
            if _METADATA in entries:
                beside = self._all_names(metadata)
            else:  # servers hide names that begin with a dot
                hidden = self._source.look(f"{metadata}/sonde/journal")
                beside = [hidden] if hidden else []
            journals = [entry for entry in beside if _JOURNAL.fullmatch(entry.path[len(metadata) + 1 :])]
            is_own = any(entry.path == f"{metadata}/sonde/journal" for entry in journals)
        for journal in journals:
            self._take_journal(journal)
        if is_own:  # its steps are listed when something of them is read
            for side in ("graphs", "execution_order"):
                if side in entries:
                    self._all_names(_joined(path, side))
            with self._lock:
                self._listed.discard(path)
            return len(journals), []
        below = [
            entry.path
            for entry in entries.values()
            if entry.is_directory and not entry.name.startswith(".") and not self._is_unwanted(entry.name)
        ]
        return len(journals), below

    def _take_journal(self, journal: Entry) -> None:
        if self._later is None:
            self._fetch_grown(journal)
            return
        (self.root / journal.path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._put_placeholder(journal)
        with self._lock:
            self._later[journal.path] = journal

    def _tables(self) -> list[str]:
        found = []
        for directory, _, names in os.walk(self.root):
            for name in names:
                if name.endswith(_TABLES):
                    found.append(os.path.relpath(os.path.join(directory, name), self.root))
        return found

    def _fetch_all(self, paths: Iterable[str]) -> None:
        list(self._pool.map(self._fetch, paths))

    # --- what the engine asks

    def ask(self, need: str, path: str, offset: int, bytes: int) -> str:
        """The answer to the engine: the reason why it failed, or ''."""
        try:
            relative = os.path.relpath(path, self.root)
            relative = "" if relative == "." else relative
            with self._progress:
                if need == "file":
                    self._fetch(relative)
                elif need == "part":
                    self._fetch_part(relative, offset, bytes)
                elif need == "directory":
                    self._names_if_new(relative)
                else:
                    self._tree(relative)
        except RemoteError as error:
            return str(error)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return (
                f"cannot write to the cache of '{self.name}': {error.strerror or error}; SONDE_CACHE_DIR names another"
            )
        return ""

    def _names_if_new(self, path: str) -> None:
        with self._lock:
            if path in self._listed:
                return
        self._names(path)

    def _tree(self, path: str) -> None:
        level = [path]
        while level:
            found = list(self._pool.map(self._names, level))
            level = [entry.path for entries in found for entry in entries if entry.is_directory]

    # --- names

    def _names(self, path: str) -> list[Entry]:
        """The entries of a directory, which are then in the mirror."""
        entries = self._source.names(path)
        if self._source.address.is_http:  # its lists have no sizes
            entries = list(map(self._with_size, entries))
        self._put(path, entries)
        return entries

    def _with_size(self, entry: Entry) -> Entry:
        return entry if entry.is_directory else self._source.look(entry.path) or entry

    def _all_names(self, path: str) -> list[Entry]:
        entries = self._source.all_names(path)
        if self._source.address.is_http:
            entries = list(map(self._with_size, entries))
        by_directory: dict[str, list[Entry]] = {}
        for entry in entries:
            directory = entry.path.rpartition("/")[0]
            by_directory.setdefault(directory, []).append(entry)
            while len(directory) > len(path):
                above, _, _ = directory.rpartition("/")
                below = Entry(directory, True, 0, 0)
                if below in by_directory.setdefault(above, []):
                    break
                by_directory[above].append(below)
                directory = above
        for directory, found in by_directory.items():
            self._put(directory, found)
        return entries

    def _put(self, path: str, entries: list[Entry]) -> None:
        """Makes the mirror's directory equal to the source's."""
        directory = self.root / path
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = {entry.name for entry in entries}
        for entry in entries:
            if entry.is_directory and self._is_unwanted(entry.name):
                continue
            if entry.is_directory:
                _remove_file(directory / entry.name)
                (directory / entry.name).mkdir(mode=0o700, exist_ok=True)
            else:
                self._put_placeholder(entry)
        for kept in os.scandir(directory):
            is_part = kept.name.startswith(".") and kept.name[1:] in names
            if kept.name not in names and not is_part and kept.name != _METADATA:
                _remove(directory / kept.name)
        with self._lock:
            self._listed.add(path)

    def _put_placeholder(self, entry: Entry) -> None:
        """A file of this size and version, without its bytes; or the mirror has it."""
        path = self.root / entry.path
        status = _status(path)
        if status and stat.S_ISREG(status.st_mode) and status.st_mtime_ns == entry.version:
            return
        if status and entry.path.endswith("sonde/journal") and not _is_placeholder(status):
            return  # _fetch_grown() needs it
        if status and stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(path.with_name("." + path.name), ignore_errors=True)  # parts of an older version
        made = self._place.partial / uuid.uuid4().hex
        file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PLACEHOLDER)
        try:
            os.truncate(file, entry.size or 0)
            os.utime(file, ns=(entry.version, entry.version))
        finally:
            os.close(file)
        os.replace(made, path)

    # --- bytes

    def _fetch(self, path: str) -> None:
        """Afterwards the file is complete, or it does not exist."""
        with self._lock:
            lock = self._locks.setdefault(path, threading.Lock())
            journal = (self._later or {}).get(path)
        with lock:
            if journal:
                self._fetch_grown(journal)
                return
            local = self.root / path
            status = _status(local)
            if status and not _is_placeholder(status):
                return
            if status:
                entry: Entry | None = Entry(path, False, status.st_size, status.st_mtime_ns)
            else:
                with self._lock:
                    if path.rpartition("/")[0] in self._listed:
                        return
                entry = self._source.look(path)
            if entry is None or entry.is_directory:
                return
            self._fetch_whole(entry)

    def _fetch_whole(self, entry: Entry) -> None:
        path = entry.path
        (self.root / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(_TRIES):
            made = self._place.partial / uuid.uuid4().hex
            try:
                size = self._source.fetch(path, os.fspath(made), self._progress.add)
                is_same = entry.size in (size, None) and size < _CERTAIN
                now = entry if is_same else self._source.look(path)
                if now is None:
                    _remove_file(self.root / path)
                    return
                if (now.version == entry.version or is_same) and size == (now.size if now.size is not None else size):
                    self._keep(made, entry)
                    return
                entry = now
            finally:
                _remove_file(made)
        raise RemoteError(
            f"cannot read '{self._source.shown(path)}': it changed while it was read, {_TRIES} times; try again when "
            "it is complete"
        )

    def _fetch_grown(self, entry: Entry) -> None:
        """A file that only gets longer: what is new of it."""
        local = self.root / entry.path
        status = _status(local)
        is_whole = status and not _is_placeholder(status)
        if status and is_whole and status.st_mtime_ns == entry.version and status.st_size == entry.size:
            return
        if status and is_whole and 0 < status.st_size < (entry.size or 0) and self._append(entry, status.st_size):
            return
        self._fetch_whole(entry)

    def _append(self, entry: Entry, have: int) -> bool:
        """False: it is another file than before."""
        local, size = self.root / entry.path, entry.size or 0
        begin = max(0, have - _OVERLAP)
        try:
            new = self._source.part(entry.path, begin, size)
        except (RemoteError, FileNotFoundError):
            return False
        with open(local, "rb") as file:
            old = file.read()
        if old[begin:] != new[: have - begin] or len(old) != have:
            return False
        now = self._source.look(entry.path)
        if now is None or now.version != entry.version:
            return False
        made = self._place.partial / uuid.uuid4().hex
        made.write_bytes(old + new[have - begin :])
        self._progress.add(len(new))
        self._keep(made, entry)
        return True

    def _fetch_part(self, path: str, offset: int, bytes: int) -> None:
        local = self.root / path
        part = local.with_name("." + local.name) / f"{offset}-{bytes}"
        if not local.exists() or path not in self._listed:
            now = self._source.look(path)
            if now is None:
                return
            local.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._put_placeholder(now)
            with self._lock:
                self._listed.add(path)  # looked at in this process
        if part.exists():
            return
        found = self._source.part(path, offset, offset + bytes)
        self._progress.add(len(found))
        part.parent.mkdir(mode=0o700, exist_ok=True)
        made = self._place.partial / uuid.uuid4().hex
        made.write_bytes(found)
        made.chmod(_COMPLETE)
        os.replace(made, part)
        self._count(len(found))

    def _keep(self, made: Path, entry: Entry) -> None:
        os.utime(made, ns=(entry.version, entry.version))
        made.chmod(_COMPLETE)
        os.replace(made, self.root / entry.path)
        self._count(entry.size or 0)

    def _count(self, bytes: int) -> None:
        with self._lock:
            self._fetched += bytes
            is_much, self._fetched = self._fetched >= _TRIMMED, self._fetched % _TRIMMED
        if is_much:
            self._place.trim()


def rank_numbers(directories: Iterable[str]) -> set[int]:
    """The ranks with these directories in a dump, as `host1/rank_3`, or at least these."""
    found = (_RANK.fullmatch(name) for directory in directories for name in directory.split("/"))
    return {int(rank[1]) for rank in found if rank}


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _is_placeholder(status: os.stat_result) -> bool:
    return stat.S_IMODE(status.st_mode) == _PLACEHOLDER


def _remove_file(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    _remove_file(path)
