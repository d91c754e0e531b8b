"""Ranks on other hosts and on disks of this one, by rsync: it copies parts of files that broke off to their end, and
compares each file that it sends by checksum."""

from __future__ import annotations

import difflib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..errors import Error
from ..remote.urls import timeout
from .fetched import Fetched

_PARTIAL = ".sonde-partial"  # rsync's directory for files that broke off, beside the file; it is not copied
_LINE = re.compile(r"([-dlcbps])\S{9}\S*\s+([\d,.]+)\s+\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (.*)")
_ESCAPED = re.compile(r"\\#([0-7]{3})")
_REFUSED = re.compile(
    r"(?i)connection (refused|timed out|closed|reset)|could not resolve|no route|permission denied \(|host key|"
    r"operation timed out|network is unreachable|no such host"
)
_SILENT_WHILE_READING = 20  # times as long as otherwise: a large file is read to its end first
_VANISHED, _PARTLY = 24, 23


class RsyncFailed(Error):
    """rsync ended with another status than 0; `text` is what it said."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class HostSource:
    """`place`: HOST:PATH, USER@HOST:PATH, or a directory of this machine."""

    def __init__(self, place: str) -> None:
        host, colon, path = place.partition(":")
        if "/" in host or not colon:
            host, path = "", os.path.abspath(place)
        is_odd = host.startswith("-") or "\n" in place or (bool(colon) and not host and place.startswith(":"))
        if is_odd or not path:  # without a path it would be the home directory
            raise ValueError(f"'{place}' is not a source: expected HOST:PATH, a URL or a directory")
        self._host, self._path = host, path.rstrip("/") or ("/" if path.startswith("/") else ".")
        self._files: dict[str, int | None] = {}

    @property
    def shown(self) -> str:
        """HOST:PATH."""
        return f"{self._host}:{self._path}" if self._host else self._path

    @property
    def _below(self) -> str:
        """A rank's own directory keeps its name."""
        name = self._path.rpartition("/")[2]
        return f"{name}/" if re.fullmatch(r"rank_\d+", name) else ""

    def files(self) -> Mapping[str, int | None]:
        """Its files with their sizes."""
        if not self._host and not os.path.isdir(self._path):
            raise Error(self._no_directory(_names_in(os.path.dirname(self._path))))
        try:
            lines = self._rsync(["-r", "--list-only", "--no-h", f"--exclude={_PARTIAL}"], [self._remote(self._path)])
        except RsyncFailed as error:
            is_missing = re.search(r"(?i)no such file|change_dir|not a directory", error.text)
            if not is_missing or _REFUSED.search(error.text):  # ssh may lack a file of its own
                raise
            raise Error(self._no_directory(self._names_beside())) from None
        for line in lines:
            found = _LINE.match(line)
            if found and found[1] == "-":
                self._files[self._below + _unescaped(found[3])] = int(re.sub(r"\D", "", found[2]))
        return self._files

    def fetch(self, to: Path, checksum: bool, progress: Callable[[int], None]) -> Fetched:
        """Copies what `to` lacks, and compares."""
        done = Fetched()
        into = [self._remote(self._path), f"{to / self._below}/"]
        copying = [*self._copying, *(["--checksum"] if checksum else [])]
        # An rsync that is killed leaves files there, and not beside the dump's.
        with tempfile.TemporaryDirectory(prefix=".sonde-gathering-", dir=to.resolve()) as aside:
            transfer = [*copying, f"--partial-dir={_PARTIAL}", f"--temp-dir={aside}", "--out-format=%i %l"]
            for line in self._rsync(transfer, into, progress):
                if line.startswith(">f"):
                    done.files += 1
                    done.bytes += int(line.split()[-1])
        for line in self._rsync([*copying, "--dry-run", "--out-format=%i %n"], into):
            change, _, name = line.partition(" ")
            if change[:2] in (">f", "hf", "cf"):
                why = "it is not here" if "+++" in change else "it has changed meanwhile: gather again"
                done.wrong[self._below + _unescaped(name)] = why
        if not done.wrong:
            self._clear_parts(to)
        done.compared = len(self._files) - len(done.wrong) if checksum else done.files
        return done

    def _clear_parts(self, to: Path) -> None:
        """Of whole files: an rsync that was killed may leave a directory for parts that no later one removes."""
        for directory in {os.path.dirname(name) for name in self._files}:
            shutil.rmtree(to / directory / _PARTIAL, ignore_errors=True)

    @property
    def _copying(self) -> list[str]:
        # Times, since an index and a later call go by them; several names of one file; no links, no devices.
        return ["-rtH", "--chmod=go-w", f"--exclude={_PARTIAL}"]

    def _remote(self, path: str) -> str:
        return f"{self._host}:{path}/" if self._host else f"{path}/"

    # --- messages

    def _no_directory(self, beside: Sequence[str]) -> str:
        near = difflib.get_close_matches(self._path.rpartition("/")[2], beside, 3, 0.5)
        there = f"; did you mean {', '.join(repr(one) for one in near)}?" if near else ""
        return f"cannot gather '{self.shown}': there is no such directory{there}"

    def _names_beside(self) -> list[str]:
        above = os.path.dirname(self._path) or "."
        try:
            lines = self._rsync(["--list-only"], [self._remote(above)])
        except Error:
            return []
        return [_unescaped(found[3]) for line in lines if (found := _LINE.match(line)) and found[1] == "d"]

    def _rsync(
        self, options: Sequence[str], paths: Sequence[str], progress: Callable[[int], None] | None = None
    ) -> list[str]:
        """The lines that rsync prints. Names come as bytes of any kind."""
        # -s: the other side's shell does not read the path. 8: names as they are.
        patience = timeout() * (_SILENT_WHILE_READING if "--checksum" in options else 1)
        command = ["rsync", "-s8", f"--timeout={math.ceil(patience)}", *options, *self._shell(), "--", *paths]
        try:
            running = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="surrogateescape",
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            raise Error(
                f"cannot gather '{self.shown}': rsync is not installed; on Debian and Ubuntu: apt install rsync"
            ) from None
        with running:
            assert running.stdout is not None and running.stderr is not None
            lines = []
            for line in running.stdout:
                lines.append(line.rstrip("\n"))
                if progress is not None and line.startswith(">f"):
                    progress(int(line.split()[-1]))
            text = running.stderr.read()
        # The comparison shows what vanished, or could not be read.
        if running.returncode not in (0, _VANISHED) and not (running.returncode == _PARTLY and progress):
            raise self._failure(running.returncode, text)
        return lines

    def _shell(self) -> list[str]:
        if not self._host or os.environ.get("RSYNC_RSH"):
            return []
        asks = [] if sys.stdin.isatty() else ["-o", "BatchMode=yes"]  # no question that nobody answers
        return ["--rsh", " ".join(["ssh", "-o", "ConnectTimeout=20", *asks])]

    def _failure(self, status: int, text: str) -> RsyncFailed:
        said = [line.strip() for line in text.splitlines() if line.strip()]
        refused = next((line for line in said if _REFUSED.search(line)), "")
        if refused:
            why = f"host '{self._host}' cannot be reached: {refused}"
        elif status == 127 or any("command not found" in line or "rsync: not found" in line for line in said):
            why = f"host '{self._host}' has no rsync"
        else:
            why = f"rsync ended with status {status}{': ' if said else ''}{said[0] if said else ''}"
        return RsyncFailed(f"cannot gather '{self.shown}': {why}", text)


def _unescaped(name: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), name)


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
