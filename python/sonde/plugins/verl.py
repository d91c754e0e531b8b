"""A tool of verl's profiler: `global_profiler.tool=sonde`, with `steps`, `save_path`, and the ranks of each role.

verl imports this module by itself, as a plug-in (entry point `verl.plugins`). Each profiled step is a dump of its own,
`save_path/step_7`, whose steps are the updates within it. The finding is in the worker's log.
"""

import functools
import logging
import os
from collections.abc import Callable
from typing import Any, ClassVar

from ..patches import replace
from .recording import Recording, Report, harmless, host_class, log_report
from .trackers import Trackers


class SondeTool:
    """A tool of a worker: verl starts and stops it with the steps of `global_profiler.steps`."""

    current: ClassVar["SondeTool | None"] = None  # several workers may share a process

    def __init__(self, config: Any, tool_config: Any) -> None:
        self.save_path = getattr(config, "save_path", None) or "outputs/profile"
        self.settings = dict(tool_config or {})
        self.recording: Recording | None = None
        self.trackers = Trackers()
        self.step_of_trainer: object = None

    @harmless
    def start(self, profile_step: object = None, **_: object) -> None:
        """The trainer's step begins."""
        if SondeTool.current is not None:
            return
        self.step_of_trainer = profile_step
        place = os.path.join(self.save_path, f"step_{profile_step}" if profile_step is not None else "steps")
        self.recording = Recording(__name__, place, **self.settings)
        self.trackers.begin()
        self.recording.start()
        SondeTool.current = self

    @harmless
    def stop(self) -> None:
        """The trainer's step, or the last of several, has ended."""
        if SondeTool.current is not self or self.recording is None:
            return
        SondeTool.current = None
        self._log(self.recording.finish())

    def step(self) -> None:
        """Updates are counted by their optimizer."""

    def _log(self, found: Report | None) -> None:
        if found is not None:
            of_step = found._replace(line=f"global step {self.step_of_trainer}: {found.line}")
            log_report(logging.getLogger("verl.sonde"), of_step)
            self.trackers.publish(of_step)


def _with_sonde(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _choose(self)

    return __init__


@harmless
def _choose(profiler: Any) -> None:
    if profiler.config.tool == "sonde":
        profiler._impl = SondeTool(profiler.config, profiler.tool_config)


@harmless
def _register() -> None:
    profiler = host_class(__name__, "verl.utils.profiler.profile:DistProfiler")
    replace(profiler, "__init__", _with_sonde(profiler.__init__))


_register()
