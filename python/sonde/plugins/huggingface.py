"""A callback of transformers' Trainer, and of the trainers made from it (trl, sentence-transformers).

Trainer(model, arguments, callbacks=[SondeCallback("/data/run7")], …)
"""

import glob
import logging
import os
from typing import TYPE_CHECKING, Any

from .recording import Recording, Report, harmless, host_class, log_report
from .trackers import Trackers

if TYPE_CHECKING:
    Base = object
else:
    Base = host_class(__name__, "transformers:TrainerCallback")


class SondeCallback(Base):
    """Records a training; arguments as of sonde.plugins.Recording. A step's number is `state.global_step` at its start.

    The finding is in the log and in `state.log_history`. `ends_training`: a finding ends the training.
    """

    def __init__(self, *args: Any, ends_training: bool = False, **settings: Any) -> None:
        self.recording = Recording(__name__, *args, **settings)
        self.trackers = Trackers()
        self.ends_training = ends_training

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
        """The recording starts."""
        self.trackers.begin()
        self.recording.start(state.global_step)

    @harmless
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: object) -> None:
        """A step has the Trainer's number."""
        self.recording.at(state.global_step)

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: object) -> None:
        """A loss that is not finite may have its reason in the dump."""
        found = self.recording.look(logs or {})
        self._log(found, args, state)
        if found is not None and self.ends_training:
            control.should_training_stop = True

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
        """The recording ends."""
        self._log(self.recording.finish(), args, state)

    def _log(self, found: Report | None, args: Any, state: Any) -> None:
        if found is None:
            return
        log_report(logging.getLogger("transformers.sonde"), found)
        state.log_history.append({"sonde_first_bad": found.line, "step": state.global_step})
        if state.is_world_process_zero:
            self.trackers.publish(found, _writers(args))


def _writers(args: Any) -> list[object]:
    """Another writer into the directory of the Trainer's: that one belongs to a callback which has closed it."""
    if "tensorboard" not in args.report_to:
        return []
    runs = glob.glob(os.path.join(glob.escape(args.output_dir), "runs", "*"))
    directory = os.environ.get("TENSORBOARD_LOGGING_DIR") or max(runs, key=os.path.getmtime, default=None)
    if directory is None:
        return []
    from torch.utils.tensorboard import SummaryWriter

    return [SummaryWriter(log_dir=os.path.expanduser(directory))]
