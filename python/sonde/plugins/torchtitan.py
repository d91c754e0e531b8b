"""An override of torchtitan's profiler, which gives it the steps.

    torchrun … -m torchtitan.train … --override.imports 'sonde.plugins.torchtitan.record={"out": "/data/run7"}'

torchtitan imports this module; Sonde does not.
"""

import dataclasses
import logging
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .recording import Recording, harmless, host_class, log_report, warn
from .trackers import Trackers

if TYPE_CHECKING:
    Base = Any
else:
    Base = host_class(__name__, "torchtitan.tools.profiler:Profiler")


class SondeProfiler(Base):  # type: ignore[misc, unused-ignore]
    """torchtitan's profiler, and a recording. A step's number is `trainer.step`, as in its log: the first is 1."""

    if hasattr(Base, "Config"):

        @dataclasses.dataclass(kw_only=True, slots=True)
        class Config(Base.Config):  # type: ignore[misc, name-defined]
            """`sonde`: the arguments of sonde.plugins.Recording."""

            sonde: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __enter__(self) -> Any:
        self.trackers = Trackers()
        self.recording: Recording | None = None
        self._start()
        return super().__enter__()

    @harmless
    def _start(self) -> None:
        settings = {**self._config.sonde}
        if "out" not in settings and "config" not in settings:
            settings["out"] = os.path.join(self._base_folder, "sonde")
        self.recording = Recording(__name__, **settings, declares_steps=True)
        self.trackers.begin()
        self.recording.start(self._global_step + 1)

    def step(self) -> None:
        """A step of the trainer has ended."""
        super().step()
        if self.recording is not None:
            self.recording.end_step()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Any:
        self._finish()
        return super().__exit__(kind, error, trace)

    @harmless
    def _finish(self) -> None:
        found = self.recording.finish() if self.recording is not None else None
        if found is not None:
            log_report(logging.getLogger("sonde"), found)  # below the root, which torchtitan logs to
            self.trackers.publish(found)


def record(config: Any, **sonde: Any) -> Any:
    """The override: this profiler in the place of torchtitan's, with the arguments of sonde.plugins.Recording."""
    fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return SondeProfiler.Config(**fields, sonde=sonde)


def _register() -> None:
    """Registers the override. If its profiler has moved, the override replaces nothing."""
    try:
        from torchtitan.config import Configurable  # type: ignore[import-not-found, unused-ignore]
        from torchtitan.config.override import override  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        warn(__name__, f"this version of torchtitan has no overrides: {error}")
        return
    has_profiler = hasattr(Base, "Config")
    override(target=Base.Config if has_profiler else Configurable.Config, exact=not has_profiler)(record)


_register()
