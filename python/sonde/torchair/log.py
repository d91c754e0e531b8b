"""TorchAir's logger: `logger.setLevel(logging.DEBUG)` shows the graphs that are compiled."""

import datetime
import logging
import os
import sys
from typing import Any

EVENT_LEVEL = 35


class _Logger(logging.Logger):
    """A logger with TorchAir's own level."""

    def event(self, message: str, *args: Any) -> None:
        """Logs at EVENT_LEVEL."""
        self.log(EVENT_LEVEL, message, *args)

    def warning_once(self, message: str, *args: Any) -> None:
        """Logs a warning, if it was not logged before."""
        known: set[str] = self.__dict__.setdefault("known", set())
        if message not in known:
            known.add(message)
            self.warning(message, *args)


class _Formatter(logging.Formatter):
    """Times with milliseconds and microseconds: `2026-01-01 12:00:00.123.456`."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """The record's time."""
        time = datetime.datetime.fromtimestamp(record.created)
        return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}.{time.microsecond % 1000:03d}"


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]  # no generic class in CPython 3.10
    """Writes to sys.stdout as it is at that moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        """The stream of the program's output."""
        return sys.stdout

    @stream.setter
    def stream(self, value: Any) -> None:
        pass


def _make() -> _Logger:
    logging.addLevelName(EVENT_LEVEL, "EVENT")
    made = _Logger("torchair", logging.DEBUG if os.environ.get("TORCH_COMPILE_DEBUG") == "1" else logging.ERROR)
    handler = _Handler()
    handler.setFormatter(formatter())
    made.addHandler(handler)
    return made


def formatter() -> logging.Formatter:
    """The form of TorchAir's lines."""
    program = f"{os.getpid()},{os.path.basename(sys.executable)}"
    place = "[%(filename)s:%(lineno)d]%(thread)d"
    return _Formatter(f"[%(levelname)s] TORCHAIR({program}):%(asctime)s {place} %(message)s")


logger = _make()
