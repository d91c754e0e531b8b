"""Sonde records what every operator of a training run read and wrote.

    MINDSPORE_DUMP_CONFIG=/abs/data_dump.json python train.py      # no line of code
    sonde run --config data_dump.json -- python train.py           # the same, with a report at the end

and in a notebook:

    import sonde
    sonde.start("data_dump.json")
    ...                                                             # train
    sonde.stop()

`import sonde` imports no framework. MindSpore must be imported after it.
"""

import sonde_autoload

from . import session
from ._core import version as __version__
from .flags import dump_scope, set_dump
from .session import Error, capture, dump_set_iteration, dump_start, dump_stop, start, step, stop

__all__ = [
    "Error",
    "__version__",
    "capture",
    "dump_scope",
    "dump_set_iteration",
    "dump_start",
    "dump_stop",
    "session",
    "set_dump",
    "start",
    "step",
    "stop",
]

sonde_autoload.watch_mindspore()
