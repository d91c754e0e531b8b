"""Ray Train, and Ray's actors and tasks.

TorchTrainer(recorded(train_loop, "/data/run7"), …)      # the finding is in the worker's log
ray.init(runtime_env=runtime_env("/data/run7"))          # actors and tasks that run a model are recorded
"""

import functools
import json
import logging
import os
from collections.abc import Callable
from typing import Any

from .. import session
from .recording import Recording, harmless, log_report
from .trackers import Trackers

_VARIABLE = "SONDE_RAY"  # of a worker: the arguments of its recording


def recorded(train_loop: Callable[..., Any], *args: Any, **settings: Any) -> Callable[..., Any]:
    """`train_loop_per_worker`, recorded from its begin to its end; arguments as of sonde.plugins.Recording."""

    @functools.wraps(train_loop)
    def recorded_loop(*given: Any, **options: Any) -> Any:
        recording, trackers = Recording(__name__, *args, **settings), Trackers()
        recording.start()
        trackers.begin()
        try:
            return train_loop(*given, **options)
        finally:
            found = recording.finish()
            if found is not None:
                log_report(logging.getLogger("ray.train.sonde"), found)
                trackers.publish(found)

    return recorded_loop


def runtime_env(out: str | os.PathLike[str], **settings: Any) -> dict[str, Any]:
    """The `runtime_env` of ray.init(); arguments as of sonde.plugins.Recording. Of workers that run no model nothing is
    recorded. A worker logs its finding when it ends; ray.kill() and ray.shutdown() give it no time for that."""
    arguments = json.dumps({"out": os.path.abspath(os.fspath(out)), **settings})
    return {"env_vars": {_VARIABLE: arguments}, "worker_process_setup_hook": "sonde.plugins.ray.begin"}


@harmless
def begin() -> None:
    """A worker begins: it is recorded from its first model on."""
    arguments = os.environ.get(_VARIABLE)
    if arguments:
        import torch  # noqa: F401  # a model is looked for among its modules

        recording = Recording(__name__, **json.loads(arguments))
        _kept.append(recording)
        session.call_with_model(recording.start)


_kept: list[Recording] = []
