"""A callback of Lightning's Trainer (lightning, or pytorch_lightning).

lightning.Trainer(callbacks=[SondeCallback("/data/run7")], …)
"""

import logging
from typing import TYPE_CHECKING, Any

from .recording import Recording, Report, harmless, host_class, log_report
from .trackers import Trackers

if TYPE_CHECKING:
    Base = object
else:
    Base = host_class(__name__, "lightning.pytorch:Callback", "pytorch_lightning:Callback")


class SondeCallback(Base):
    """Records trainer.fit(); arguments as of sonde.plugins.Recording. A step's number is `trainer.global_step`.

    The finding is in the log, and in the trainer's loggers. `ends_training`: a finding ends the training.
    """

    def __init__(self, *args: Any, ends_training: bool = False, **settings: Any) -> None:
        self.recording = Recording(__name__, *args, **settings)
        self.trackers = Trackers()
        self.ends_training = ends_training

    @harmless
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """The recording starts."""
        self.trackers.begin()
        self.recording.start(trainer.global_step)

    @harmless
    def on_train_batch_start(self, trainer: Any, *_: object) -> None:
        """A step has the trainer's number."""
        self.recording.at(trainer.global_step)

    @harmless
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: object) -> None:
        """As often as the trainer logs: a loss that is not finite may have its reason in the dump."""
        if trainer.log_every_n_steps and trainer.global_step % trainer.log_every_n_steps == 0:
            found = self.recording.look({**trainer.callback_metrics, "loss": _loss(outputs)})
            self._log(found, trainer)
            trainer.should_stop = trainer.should_stop or (found is not None and self.ends_training)

    @harmless
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """The recording ends."""
        self._log(self.recording.finish(), trainer)

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The training ends with an exception."""
        self._log(self.recording.finish(), trainer)

    def _log(self, found: Report | None, trainer: Any) -> None:
        if found is None:
            return
        log_report(logging.getLogger("lightning.pytorch.sonde"), found)
        if trainer.is_global_zero:
            self.trackers.publish(found, trainer.loggers)


def _loss(outputs: Any) -> object:
    return outputs.get("loss") if isinstance(outputs, dict) else outputs
