"""A line on the terminal while files are fetched."""

import sys
import threading
import time
from types import TracebackType


class Progress:
    """Shows itself on stderr after a second of work, if that is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._users = self._bytes = 0
        self._began = self._shown = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._began, self._bytes = time.monotonic(), 0
            self._users += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._shown:
                self._shown = 0.0
                print("\r\033[K", end="", file=sys.stderr, flush=True)

    def add(self, count: int) -> None:
        """More bytes have arrived."""
        with self._lock:
            self._bytes += count
            now = time.monotonic()
            if now - self._began < 1 or now - self._shown < 0.1 or not sys.stderr.isatty():
                return
            self._shown = now
            print(f"\r{self._what}: {self._bytes / 1e6:.1f} MB\033[K", end="", file=sys.stderr, flush=True)
