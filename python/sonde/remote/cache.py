"""The directories of mirrors, one for each URL, below the user's cache: how much they hold, and which are in use."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import uuid
from pathlib import Path

from ..own_files import own_directory
from .urls import Address, RemoteError

_DEFAULT_BYTES = 20 * 10**9
_LOCK, _PARTIAL, _FILES = "lock", "partial", "files"


def most_bytes() -> int:
    """The bytes that all mirrors together may keep."""
    text = os.environ.get("SONDE_CACHE_BYTES", "")
    return int(text) if text.isdigit() else _DEFAULT_BYTES


def directory() -> Path:
    """The directory of all mirrors, which only this user can change."""
    named, cache = os.environ.get("SONDE_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if named else (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "sonde"
    try:
        return own_directory(base / "remote", make=True)
    except OSError as error:
        raise RemoteError(
            f"cannot keep files of a URL in '{base}': {error.strerror or error}; SONDE_CACHE_DIR names another place"
        ) from None


class Place:
    """The directory of one mirror. While it exists, and this process does, nobody removes it."""

    def __init__(self, address: Address) -> None:
        endpoint = [os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")]
        if address.scheme == "memory":
            endpoint.append(str(os.getpid()))
        key = hashlib.sha256("\n".join([address.shown, *endpoint]).encode()).hexdigest()[:20]
        self._all = directory()
        self.path = self._all / key
        self._lock = self._locked()
        parts = [part for part in address.shown.split("://", 1)[1].split("/") if part not in ("", ".", "..")]
        self.root = self.path.joinpath(_FILES, *parts)
        self.partial = self.path / _PARTIAL
        for made in (self.root, self.partial):
            made.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_times()

    def _locked(self) -> int:
        while True:
            self.path.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):  # it was removed meanwhile
                if os.path.samestat(os.fstat(lock), os.stat(self.path / _LOCK)):
                    os.utime(lock)
                    return lock
            os.close(lock)

    def _check_times(self) -> None:
        """The mirror's files say by mode and time what they are."""
        probe = self.partial / uuid.uuid4().hex
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o200))
        os.utime(probe, ns=(10**18 + 1, 10**18 + 1))
        status = probe.stat()
        probe.unlink()
        if stat.S_IMODE(status.st_mode) != 0o200 or status.st_mtime_ns != 10**18 + 1:
            raise RemoteError(
                f"cannot keep files of a URL in '{self._all}': its disk does not keep modes and times of files; name "
                "another directory: SONDE_CACHE_DIR"
            )

    def trim(self) -> None:
        """Removes the mirrors that were not used for longest, and that nobody uses, until the rest is small enough."""
        held = {place: _bytes_of(place) for place in self._all.iterdir() if place.is_dir()}
        total, most = sum(held.values()), most_bytes()
        for place in sorted(held, key=_last_use):
            if total <= most:
                return
            if place != self.path and _remove(place):
                total -= held[place]


def _last_use(place: Path) -> float:
    with contextlib.suppress(OSError):
        return (place / _LOCK).stat().st_mtime
    return 0.0


def _bytes_of(place: Path) -> int:
    total = 0
    for directory, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total


def _remove(place: Path) -> bool:
    """False: it is in use."""
    try:
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        shutil.rmtree(place, ignore_errors=True)  # what a killed removal left
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        gone = place.with_name(f"gone-{uuid.uuid4().hex}")
        place.rename(gone)
    except OSError:
        return False
    finally:
        os.close(lock)
    shutil.rmtree(gone, ignore_errors=True)
    return True
