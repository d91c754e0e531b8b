"""A loop of one's own, with the interface of torch.profiler.

with record("/data/run7", schedule=schedule(wait=1, warmup=1, active=3, repeat=2)) as recording:
    for batch in batches:
        train(batch)
        recording.step()
print(recording.report.line)
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from .. import session
from .recording import Recording, Report, harmless, log_report
from .trackers import Trackers

Schedule = Callable[[int], bool]


def schedule(*, wait: int = 0, warmup: int = 0, active: int, repeat: int = 0, skip_first: int = 0) -> Schedule:
    """Whether a step is recorded, by its number: after the first `skip_first`, cycles of `wait` and `warmup` steps that
    are not, and `active` steps that are; `repeat` cycles, 0: without end. As torch.profiler.schedule()."""
    if active < 1 or min(wait, warmup, repeat, skip_first) < 0:
        raise ValueError("schedule() takes one active step or more, and no negative numbers")
    length = wait + warmup + active

    def is_recorded(step: int) -> bool:
        cycle, place = divmod(step - skip_first, length)
        return step >= skip_first and (not repeat or cycle < repeat) and place >= wait + warmup

    return is_recorded


class Record:
    """The object of `with record(…)`: step(), and `report`, the finding, once it is known."""

    def __init__(self, recording: Recording, is_recorded: Schedule | None, first_step: int, on_report: Any) -> None:
        self.recording = recording
        self.trackers = Trackers()
        self.writers: list[object] = []
        self._is_recorded = is_recorded
        self._number = first_step
        self._first = first_step
        self._on_report = on_report

    @property
    def report(self) -> Report | None:
        """The finding: after the block, or after a step with a loss that is not finite."""
        return self.recording.report

    def __enter__(self) -> "Record":
        self.trackers.begin()
        self.recording.start(self._first)
        self._switch()
        return self

    def step(self, values: Mapping[str, object] | None = None) -> None:
        """The step ends here. If one of `values` (the loss) is not finite, the reason is looked for at once."""
        self.recording.end_step()
        self._number += 1
        self._log(self.recording.look(values or {}))
        self._switch()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log(self.recording.finish())

    @harmless
    def _switch(self) -> None:
        if self.recording.runs and self._is_recorded is not None:
            on = self._is_recorded(self._number - self._first)
            (session.dump_start if on else session.dump_stop)()

    @harmless
    def _log(self, found: Report | None) -> None:
        if found is not None:
            log_report(logging.getLogger("sonde"), found)
            self.trackers.publish(found, self.writers)
            if self._on_report is not None:
                self._on_report(found)


def record(
    *args: Any,
    schedule: Schedule | None = None,
    first_step: int = 0,
    on_report: Callable[[Report], object] | None = None,
    writers: Iterable[object] = (),
    **settings: Any,
) -> Record:
    """Records the steps of the block that `schedule` chooses; other arguments as of sonde.plugins.Recording.

    `first_step`: the number of the first. `on_report` is called with the finding. `writers`: SummaryWriters of
    TensorBoard that get it, too.
    """
    made = Record(Recording(__name__, *args, declares_steps=True, **settings), schedule, first_step, on_report)
    made.writers += writers
    return made
