"""The common part of the plug-ins: a recording that a trainer's events start, number and end."""

import atexit
import functools
import importlib
import logging
import math
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from .. import session
from ..alerts import OnAlert, checked
from ..analyses import first_bad
from ..answers import FirstBad
from ..console import launched_rank, report, say_once
from ..errors import Error
from ..session import Settings, StrPath

_PATIENCE = 2.0  # seconds


class Report(NamedTuple):
    """The finding of a recording: `line` is for a log, `page` and `document` are those of `sonde first-bad`."""

    line: str
    is_bad: bool
    step: int  # of the finding; without one, the last
    dump: str
    page: str
    document: Mapping[str, Any]


_Function = TypeVar("_Function", bound=Callable[..., Any])


def harmless(function: _Function) -> _Function:
    """A function that a trainer calls: an error of ours is one line on stderr, and the training goes on."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            plugin = args[0].plugin if args and isinstance(args[0], Recording) else function.__module__
            warn(plugin, f"{type(error).__name__}: {' '.join(str(error).split())}")
            return None

    return guarded  # type: ignore[return-value]


_without_host: set[str] = set()  # plug-ins


def warn(plugin: str, why: str) -> None:
    """One line, once. Where the host is another than the plug-in needs, all else comes from that, and is not said."""
    if plugin in _without_host:
        return
    say_once(f"sonde: {plugin.removeprefix('sonde.')}: {why}; the training goes on")


class _Inert:
    """The base of a plug-in whose host has no such class: every event of the host does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_args, **_kwargs: None


def host_class(plugin: str, *places: str) -> Any:
    """The class of the host at the first of `places`, as "module:name", that exists; of several modules the one that
    the program has imported. Without any: a line, and a class whose events do nothing."""
    imported = [place for place in places if place.partition(":")[0].partition(".")[0] in sys.modules]
    for place in [*imported, *places]:
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    warn(plugin, f"this version of the host has no {' or '.join(places).replace(':', '.')}")
    _without_host.add(plugin)
    return _Inert


class Recording:
    """One recording, which a trainer's events control. No method raises, except SystemExit for `stop_after`.

    If a session runs already (`sonde run`, an environment variable), that session gets the step numbers, and it is
    examined, but not ended. Without `out` and `config` nothing else is recorded.
    """

    def __init__(
        self,
        plugin: str,
        out: StrPath | None = None,
        *,
        config: StrPath | Settings | None = None,
        steps: str = "all",
        saved_data: str = "statistic",
        kernels: str | Iterable[str] = (),
        statistics: Iterable[str] | None = None,
        declares_steps: bool = False,
        on_alert: OnAlert | None = None,
        alert: str | Iterable[str] = "bad",
    ) -> None:
        """`out`: the directory to write to, with `steps` ("0-5|8", the trainer's numbers), saved_data, kernels and
        statistics as of capture(); or `config` as for start(). `declares_steps`: end_step() ends them. `on_alert` and
        `alert` as of start(): also for a session that runs already."""
        if out is not None and config is not None:
            raise Error(f"{plugin} takes either a configuration or a directory to write to")
        self.plugin = plugin
        self.report: Report | None = None
        self.dump = ""
        self.runs = False
        self._out = None if out is None else os.path.abspath(os.fspath(out))
        self._config = config
        self._chosen: dict[str, Any] = dict(  # noqa: C408 - as session.settings() takes them
            iteration=steps, saved_data=saved_data, kernels=kernels, statistics=statistics
        )
        self._declares_steps = declares_steps
        self._on_alert, self._alert = on_alert, checked(alert, on_alert)
        self._called = self._ours = False
        self._step = 0
        self._strange = 0  # logs with a value that is not finite
        atexit.register(_end_with_program, weakref.ref(self), os.getpid())

    def __getstate__(self) -> dict[str, Any]:
        self._called = True  # the trainer gives a copy to the process that trains
        return self.__dict__

    @harmless
    def start(self, step: int = 0) -> None:
        """The training begins with the step of this number."""
        self._called = True
        if self.runs:
            return
        self._ours = not session.running() or session.gives_way()
        config = self._configuration(step)
        if self._ours and config is None:
            return
        if self._ours and config is not None:
            session.start(config)
        if self._on_alert is not None:
            session.add_alerts(self._alert, self._on_alert)
        if step and (self._config is not None or not self._ours):
            session.dump_set_iteration(step)
        self.runs, self.report, self._step, self._strange = True, None, step, 0
        self.dump = session.directory() or ""

    @harmless
    def at(self, step: int) -> None:
        """The trainer begins this step. The engine counts by itself, so only a jump is passed on to it."""
        if self.runs and step not in (self._step, self._step + 1):
            session.dump_set_iteration(step)
        self._step = step

    @harmless
    def end_step(self) -> None:
        """The step ends here, and the next one begins."""
        if self.runs:
            self._step += 1
            session.step()

    @harmless
    def look(self, values: Mapping[str, object]) -> Report | None:
        """The trainer logs these values. If one of them is not finite and the reason is in the dump, the recording
        ends; gives that report. A dump without a reason is examined again at the second, fourth, eighth … such log."""
        if not self.runs or all(map(_is_finite, values.values())):
            return None
        self._strange += 1
        if self._strange & (self._strange - 1):
            return None
        found = self._examined()
        if found.is_bad:
            self._stop()
            self.report = found
            return found
        return None

    @harmless
    def finish(self) -> Report | None:
        """The training ends. Gives the report, unless look() has given it."""
        if not self.runs:
            return None
        self._stop()
        self.report = self._examined()
        return self.report

    def _stop(self) -> None:
        self.runs = False
        if self._ours:
            session.stop()

    def _configuration(self, step: int) -> StrPath | Settings | None:
        if self._config is not None or self._out is None:
            return self._config
        settings = session.settings(_unused(self._out), **self._chosen)
        settings["common_dump_settings"]["initial_iteration"] = step
        if self._declares_steps:
            settings["sonde_settings"] = {"step": "manual"}
        return settings

    def _examined(self) -> Report:
        """Of several ranks each one examines its own part: the others may still be writing."""
        rank, world_size = _rank()
        answer = self._first_bad(rank if world_size > 1 else None)
        first = answer.first
        line = f"first bad: {first}" if first else answer.text.partition("\n")[0]
        of_rank = f"rank {rank}: " if world_size > 1 else ""
        text = f"sonde: {of_rank}{line} (dump {self.dump})"
        step = first.step if first else self._step
        return Report(text, first is not None, step, self.dump, answer.text, answer.document)

    def _first_bad(self, rank: int | None) -> FirstBad:
        """A session that goes on writes beside the program: its first files may be a moment late."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return first_bad(self.dump, rank=rank)
            except Error:
                if self._ours or time.monotonic() > end:
                    raise
                time.sleep(0.01)


def log_report(logger: logging.Logger, found: Report) -> None:
    """The report's line in the log of a trainer; on stderr if that log does not show lines of this level."""
    level = logging.WARNING if found.is_bad else logging.INFO
    if logger.isEnabledFor(level):
        logger.log(level, found.line)
    else:
        report("notice", found.line)


def _end_with_program(reference: "weakref.ref[Recording]", pid: int) -> None:
    """A training that an exception ends has no last event."""
    recording = reference()
    if recording is None or pid != os.getpid():
        return
    if not recording._called:
        warn(recording.plugin, "no event of the trainer came, so nothing was recorded by it")
    found = recording.finish()
    if found is not None:
        report("notice", found.line)


def _is_finite(value: object) -> bool:
    """True also of a value that is not a number."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return True


def _unused(out: str) -> str:
    """`out`, or the first of out-2, out-3 … in which this rank has no dump: a finding there would be of another run."""
    place, number = out, 1
    while os.path.exists(os.path.join(place, f"rank_{_rank()[0]}")):
        number += 1
        place = f"{out}-{number}"
    return place


def _rank() -> tuple[int, int]:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    launched = launched_rank()
    return launched.rank, launched.world_size
