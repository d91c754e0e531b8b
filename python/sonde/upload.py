"""`sonde upload`: a dump in object storage, copied by a process beside the training, also while it is recorded.

A file goes when it is finished: the recorder has taken the right to write it, or no recording holds its rank. A journal
goes after the files that it names."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .answer import Answer, Answered, answered
from .answer_base import document_of
from .answer_types import Uploaded
from .errors import Error
from .gather.place import OWN, is_journal, rank_directory
from .remote.source import Entry, Source, md5_of_file
from .remote.urls import RemoteError, address_of, is_url

_AT_ONCE = 8
_PAUSE = 2.0  # seconds between two looks at a dump that is being recorded
_MOST_FAILED = 10
_BLOCK = 1 << 20
_FIRST_ENTRY = 64  # bytes of a journal that differ between runs: they hold a checksum of its settings
_NOTHING = Uploaded(files=0, bytes=0, uploaded=0, uploaded_bytes=0, compared=0)
_NOT_COPIED = ("owner",)  # files of a recording process


class Bandwidth:
    """Lets bytes pass at a rate; of any thread. 0: as they come."""

    def __init__(self, megabytes: float) -> None:
        self._rate = megabytes * 1e6
        self._lock = threading.Lock()
        self._free = 0.0  # when the next bytes may pass

    def spend(self, count: int) -> None:
        """Waits until so many bytes may pass."""
        if self._rate <= 0:
            return
        with self._lock:
            now = time.monotonic()
            begin = max(self._free, now)
            self._free = begin + count / self._rate
        time.sleep(begin - now)


@dataclasses.dataclass
class LocalFile:
    """A file of the dump. `is_open`: it is still written."""

    path: str
    size: int
    changed_ns: int
    is_open: bool

    @property
    def is_journal(self) -> bool:
        """Whether it names other files."""
        return is_journal(self.path)


def is_recording(rank: Path) -> bool:
    """Whether a run holds the rank's directory."""
    try:
        with (rank / OWN / "owner").open("rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def files_of(dump: Path) -> Iterator[LocalFile]:
    """All files of a dump, but not what a recording keeps for itself."""
    recording: dict[str, bool] = {}
    for directory, below, names in os.walk(dump):
        below[:] = [name for name in below if not (name == "partial" and directory.endswith(OWN))]
        for name in names:
            place = os.path.join(directory, name)
            path = os.path.relpath(place, dump)
            status = os.lstat(place)
            if not stat.S_ISREG(status.st_mode) or (name in _NOT_COPIED and directory.endswith(OWN)):
                continue
            rank = rank_directory(path)
            if rank not in recording:
                recording[rank] = is_recording(dump / rank)
            is_open = recording[rank] and bool(status.st_mode & stat.S_IWUSR)
            yield LocalFile(path, status.st_size, status.st_mtime_ns, is_open)


class Upload:
    """The copy of one dump."""

    def __init__(self, dump: str, url: str, megabytes: float) -> None:
        self._dump = Path(dump)
        self._there = Source(address_of(url))
        self._bandwidth = Bandwidth(megabytes)
        self._entries: dict[str, Entry] = {}
        self._done: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self.failed: dict[str, str] = {}
        self.answer = dataclasses.replace(_NOTHING, url=self._there.address.shown)

    def begin(self) -> None:
        """Looks at the other side. Raises Error."""
        if not any(self._dump.rglob("journal")):
            raise Error(f"cannot upload '{self._dump}': no rank of a recording is there")
        try:
            self._entries = {entry.path: entry for entry in self._there.all_names("")}
            for file in files_of(self._dump):
                if file.is_journal and file.path in self._entries:
                    self._check_run(file)
        except RemoteError as error:
            raise Error(str(error).replace("open dump", "write to", 1)) from None

    def _check_run(self, file: LocalFile) -> None:
        size = min(_FIRST_ENTRY, self._entries[file.path].size or 0)
        with (self._dump / file.path).open("rb") as journal:
            ours = journal.read(size)
        if self._there.part(file.path, 0, size) != ours:
            raise ValueError(f"'{self._there.shown(file.path)}' is of another run; upload to another place")

    def go_round(self) -> bool:
        """Copies what is finished. False: some files are still written."""
        files = [file for file in files_of(self._dump) if self._done.get(file.path) != (file.size, file.changed_ns)]
        finished = [file for file in files if not file.is_open]
        for group in ([file for file in finished if not file.is_journal], [one for one in finished if one.is_journal]):
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self._copy, group))
        still = tuple(os.fspath(self._dump / file.path) for file in files if file.is_open)
        self.answer = dataclasses.replace(self.answer, recording=still)
        return not still

    def _copy(self, file: LocalFile) -> None:
        if len(self.failed) >= _MOST_FAILED:
            self.failed.setdefault(file.path, "it was not copied: too many others failed")
            return
        try:
            is_new, is_compared = self._copied(file)
        except (RemoteError, OSError) as error:
            if not self._done:
                self._check_place(error)
            self.failed[file.path] = str(error)
            return
        self.failed.pop(file.path, None)
        with self._lock:
            was_there = file.path in self._done
            self._done[file.path] = (file.size, file.changed_ns)
            self.answer = dataclasses.replace(
                self.answer,
                files=self.answer.files + (not was_there),
                bytes=self.answer.bytes + (0 if was_there else file.size),
                uploaded=self.answer.uploaded + is_new,
                uploaded_bytes=self.answer.uploaded_bytes + file.size * is_new,
                compared=self.answer.compared + (is_compared and not was_there),
            )

    def _check_place(self, error: Exception) -> None:
        """Raises Error if the place to write takes no file at all."""
        place = self._there.shown("")
        if isinstance(error, FileNotFoundError) and error.filename is None:  # it is not a file of the dump
            near = ", ".join(f"'{one}'" for one in self._there.nearest())
            raise Error(f"cannot write to '{place}': there is no such bucket{'; there are ' if near else ''}{near}")
        if isinstance(error, RemoteError) and error.is_refused:
            raise Error(f"cannot upload to '{place}': {error}")

    def _copied(self, file: LocalFile) -> tuple[bool, bool]:
        """Whether it was copied now, and whether its contents were compared."""
        known = self._entries.get(file.path)
        if known is not None and known.size == file.size:
            is_same = not known.md5 or known.md5 == md5_of_file(self._dump / file.path)
            if is_same:
                return False, bool(known.md5)
        digest = hashlib.md5(usedforsecurity=False)
        self._there.put(file.path, lambda: self._blocks(file, digest))
        entry = self._there.look(file.path)
        if entry is None or entry.size != file.size:
            raise RemoteError(f"{entry.size if entry else 0} bytes arrived, of {file.size}")
        self._entries[file.path] = entry
        return True, entry.md5 == digest.hexdigest()

    def _blocks(self, file: LocalFile, digest: Any) -> Iterable[bytes]:
        with (self._dump / file.path).open("rb") as opened:
            left = file.size
            while left > 0 and (block := opened.read(min(_BLOCK, left))):
                self._bandwidth.spend(len(block))
                digest.update(block)
                left -= len(block)
                yield block


# --- the verb --------------------------------------------------------------------------------------------------------


def main(request_text: str) -> int:
    """The program of `sonde upload`; the request is its options, as JSON. Returns the exit status."""
    return answered(request_text, _upload, {name: 0 for name, value in vars(_NOTHING).items() if value == 0})


def _upload(request: Mapping[str, Any], answer: Answer) -> Answered:
    dump, url, limit = request["dump"], request["url"], float(request.get("limit") or 0)
    if not is_url(url):
        raise ValueError(f"'{url}' is not a URL: expected SCHEME://BUCKET/PATH")
    if limit < 0:
        raise ValueError("--limit is less than 0")
    if not os.path.isdir(dump):
        raise Error(f"cannot upload '{dump}': there is no such directory")
    os.nice(10)  # the training comes first; at 19 a busy machine starves it, and its requests run out of time
    upload = Upload(dump, url, limit)
    upload.begin()
    while not upload.go_round() and request.get("follow") and len(upload.failed) < _MOST_FAILED:
        time.sleep(_PAUSE)
    for path, why in upload.failed.items():
        answer.problem(path, why)
    found = upload.answer
    return 1 if found.recording else 0, document_of(found), _lines(found)


def _lines(found: Uploaded) -> list[str]:
    lines = [
        f"{found.url}: {found.files} files, {found.bytes / 1e6:.1f} MB ({found.uploaded} copied, "
        f"{found.uploaded_bytes / 1e6:.1f} MB, {found.compared} compared by checksum)"
    ]
    if found.recording:
        lines.append(f"{len(found.recording)} files are still being recorded: --follow waits for their end")
    return lines
