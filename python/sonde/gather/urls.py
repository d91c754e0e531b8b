"""Ranks in object storage and at other URLs of fsspec, read by ranges. A file that broke off goes on from there."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import Error
from ..remote.source import Entry, Source, md5_of_file
from ..remote.urls import RemoteError, address_of
from .fetched import Fetched
from .place import JOURNAL, is_journal, rank_directory

_REQUESTS = 16  # at a time
_PART = 16 << 20
_TRIES = 3  # of a file that changes meanwhile
_MOST_FAILED = 10  # files of a source, before the rest is given up
_COMPLETE = 0o400


class UrlSource:
    """A dump at a URL, or a rank of it."""

    def __init__(self, url: str) -> None:
        self._source = Source(address_of(url))
        name = self._source.address.url.rpartition("/")[2]
        self._below = f"{name}/" if re.fullmatch(r"rank_\d+", name) else ""
        self._entries: dict[str, Entry] = {}
        self._lock = threading.Lock()

    @property
    def shown(self) -> str:
        """The URL without credentials."""
        return self._source.address.shown

    def files(self) -> Mapping[str, int | None]:
        """Its files with their sizes."""
        try:
            found = self._with_hidden(self._source.all_names(""))
        except RemoteError as error:
            raise Error(str(error).replace("open dump", "gather", 1)) from None
        if not found:
            near = ", ".join(f"'{name}'" for name in self._source.nearest())
            raise Error(f"cannot gather '{self.shown}': nothing is there{f'; there are {near}' if near else ''}")
        self._entries = {self._below + entry.path: entry for entry in found}
        return {path: entry.size for path, entry in self._entries.items()}

    def _with_hidden(self, entries: list[Entry]) -> list[Entry]:
        """Of a web server, whose lists have no sizes, and may hide names that begin with a dot."""
        if not self._source.address.is_http:
            return entries
        paths = {entry.path for entry in entries}
        ranks = {rank_directory(self._below + path) for path in paths} - {""}
        paths |= {f"{rank}/{JOURNAL}".removeprefix(self._below) for rank in ranks}
        with ThreadPoolExecutor(_REQUESTS) as pool:
            return [entry for entry in pool.map(self._source.look, sorted(paths)) if entry is not None]

    def fetch(self, to: Path, checksum: bool, progress: Callable[[int], None]) -> Fetched:
        """Copies what `to` lacks, and compares."""
        done = Fetched()

        def one(path: str) -> None:
            if len(done.wrong) >= _MOST_FAILED:
                self._failed(done, path, "it was not fetched: too many others failed")
                return
            try:
                self._fetch(self._entries[path], to / path, checksum, progress, done)
            except (RemoteError, FileNotFoundError) as error:
                self._failed(done, path, str(error) if isinstance(error, RemoteError) else "it was removed meanwhile")

        # Journals first: what they name is looked for, and a source may still be growing.
        ordered = sorted(self._entries, key=lambda path: (not is_journal(path), path))
        with ThreadPoolExecutor(_REQUESTS) as pool:
            list(pool.map(one, ordered))
        return done

    def _failed(self, done: Fetched, path: str, why: str) -> None:
        with self._lock:
            done.wrong[path] = why

    def _fetch(self, entry: Entry, local: Path, checksum: bool, progress: Callable[[int], None], done: Fetched) -> None:
        if _has(local, entry) and not (checksum and entry.md5 and md5_of_file(local) != entry.md5):
            if checksum and entry.md5:
                with self._lock:
                    done.compared += 1
            return
        local.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _ in range(_TRIES):
            partial = local.with_name(f".{local.name}.{entry.version:x}.partial")
            is_compared = self._transfer(entry, partial, progress)
            now = self._source.look(entry.path) if (entry.size or 0) > _PART else entry
            if now is None:
                raise FileNotFoundError(entry.path)
            if now.version == entry.version:
                _keep(partial, local, entry)
                with self._lock:
                    done.files += 1
                    done.bytes += local.stat().st_size
                    done.compared += is_compared
                return
            partial.unlink()
            entry = now
        raise RemoteError(f"it changed while it was read, {_TRIES} times; gather again when it is complete")

    def _transfer(self, entry: Entry, partial: Path, progress: Callable[[int], None]) -> bool:
        """Writes the file aside. Returns whether its bytes have the server's MD5."""
        found = self._written(entry, partial, progress)
        if not entry.md5 or found == entry.md5:
            return bool(entry.md5)
        partial.unlink()
        if self._written(entry, partial, progress) == found:
            return False  # the same bytes again: the tag is not their MD5, as of files that the server encrypts
        partial.unlink()
        raise RemoteError("its bytes arrive otherwise each time; check the network")

    def _written(self, entry: Entry, partial: Path, progress: Callable[[int], None]) -> str:
        if entry.size is None:  # a web server that does not say it
            progress(self._source.fetch(entry.path, os.fspath(partial), lambda _: None))
            return md5_of_file(partial)
        with partial.open("ab") as file:
            if file.seek(0, os.SEEK_END) > entry.size:
                file.truncate(0)
            while (at := file.seek(0, os.SEEK_END)) < entry.size:
                part = self._source.part(entry.path, at, min(at + _PART, entry.size))
                file.write(part)
                file.flush()
                progress(len(part))
        return md5_of_file(partial) if entry.md5 else ""


def _has(local: Path, entry: Entry) -> bool:
    try:
        status = os.lstat(local)
    except OSError:
        return False
    is_size = entry.size in (status.st_size, None)
    return stat.S_ISREG(status.st_mode) and is_size and status.st_mtime_ns == entry.version


def _keep(partial: Path, local: Path, entry: Entry) -> None:
    os.utime(partial, ns=(entry.version, entry.version))
    partial.chmod(_COMPLETE)
    partial.replace(local)
    for older in local.parent.glob(f".{_globbed(local.name)}.*.partial"):  # of a version before
        with contextlib.suppress(OSError):
            older.unlink()


def _globbed(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)
