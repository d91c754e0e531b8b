"""A tracker of accelerate.

accelerator = Accelerator(log_with=[SondeTracker("/data/run7")])
accelerator.init_trackers("project")                        # the recording starts
accelerator.log({"loss": loss.item()}, step=step)           # at the end of a step, with its number
accelerator.end_training()                                  # it ends; the finding is in the log
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .recording import Recording, Report, harmless, host_class, log_report
from .trackers import Trackers

if TYPE_CHECKING:
    Base = object
else:
    Base = host_class(__name__, "accelerate.tracking:GeneralTracker")


class SondeTracker(Base):
    """Records from init_trackers() to end_training(); arguments as of sonde.plugins.Recording.

    `first_step`: the number of the first step: 1, or more after a checkpoint was loaded. `writers`: SummaryWriters of
    TensorBoard that get the finding, too.
    """

    name = "sonde"
    requires_logging_directory = False
    main_process_only = False  # every rank records

    def __init__(self, *args: Any, first_step: int = 0, writers: Iterable[object] = (), **settings: Any) -> None:
        self.recording = Recording(__name__, *args, **settings)
        self.trackers = Trackers()
        self.first_step = first_step
        self.writers = list(writers)

    @property
    def tracker(self) -> Recording:
        """As accelerator.get_tracker("sonde", unwrap=True) gives it."""
        return self.recording

    @harmless
    def start(self) -> None:
        """The recording starts."""
        self.trackers.begin()
        self.recording.start(self.first_step)

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Versions of accelerate without start() call this first."""
        if not self.recording.runs:
            self.start()

    @harmless
    def log(self, values: dict[str, Any], step: int | None = None, **_: object) -> None:
        """This step has ended. A loss that is not finite may have its reason in the dump."""
        self._log(self.recording.look(values))
        if step is not None:
            self.recording.at(step + 1)

    @harmless
    def finish(self) -> None:
        """The recording ends."""
        self._log(self.recording.finish())

    def _log(self, found: Report | None) -> None:
        if found is not None:
            log_report(logging.getLogger("accelerate.sonde"), found)
            self.trackers.publish(found, self.writers)
