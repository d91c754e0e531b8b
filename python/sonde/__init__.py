"""Sonde records the inputs and outputs of every operator of a training run.

    MINDSPORE_DUMP_CONFIG=/abs/data_dump.json python train.py      # no line of code
    sonde run --config data_dump.json -- python train.py           # the same, with a report at the end

and in a notebook:

    import sonde
    sonde.start("data_dump.json")
    ...                                                             # train
    sonde.stop()

and to look at a dump, without any framework installed:

    dump = sonde.open("/data/run7")
    dump.tensors.select(op="conv2", side="output").to_pandas()

and to analyse it, as the command does:

    sonde.first_bad("/data/run7")
    sonde.compare("/data/npu", "/data/cpu")

`import sonde` imports no framework. MindSpore must be imported after it.
"""

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import sonde_early

from . import session
from ._core import version as __version__
from .errors import Error
from .flags import dump_scope, set_dump
from .session import capture, dump_set_iteration, dump_start, dump_stop, start, step, stop, write_ring

if TYPE_CHECKING:
    from . import acl as acl
    from . import debugger as debugger
    from . import dump as dump
    from . import export as export
    from . import torchair as torchair
    from .analyses import compare, convert, first_bad, headroom, stomp, verify, watch

__all__ = [
    "Error",
    "__version__",
    "capture",
    "cmake_prefix_path",
    "compare",
    "convert",
    "dump_scope",
    "dump_set_iteration",
    "dump_start",
    "dump_stop",
    "first_bad",
    "headroom",
    "open",
    "session",
    "set_dump",
    "start",
    "step",
    "stomp",
    "stop",
    "verify",
    "watch",
    "write_ring",
]

# Of find_package(sonde): -DCMAKE_PREFIX_PATH=$(python -c 'import sonde; print(sonde.cmake_prefix_path)').
cmake_prefix_path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "cmake")

_ANALYSES = ("compare", "convert", "first_bad", "headroom", "stomp", "verify", "watch")  # functions of sonde.analyses
_LATER = ("acl", "debugger", "dump", "export", "torchair")  # modules that are imported when they are first used


def open(
    path: str | os.PathLike[str],
    *,
    step: int | Iterable[int] | None = None,
    rank: int | Iterable[int] | None = None,
    graph: int | Iterable[int] | None = None,
    op: str | re.Pattern[str] | None = None,
    type: str | None = None,
    source: str | None = None,
) -> "dump.Dump":
    """Opens a dump of any writer: dump.Dump, with `ranks`, `steps`, `ops`, `tensors`, `graph`, `problems`.

    step, rank, graph, op, type, source: a part of it; see dump.open. Raises Error when it is not a dump, ValueError
    when the selection is wrong, ImportError without NumPy.
    """
    try:
        from . import dump  # NumPy, which `import sonde` does without
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise ImportError("sonde.open() needs numpy: pip install 'tensorsonde[open]'", name="numpy") from None
    return dump.open(path, step=step, rank=rank, graph=graph, op=op, type=type, source=source)


if not TYPE_CHECKING:  # it would accept any name of a module

    def __getattr__(name: str) -> object:
        if name in _ANALYSES:
            from . import analyses

            return getattr(analyses, name)
        if name in _LATER:
            import importlib

            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *(name for name in globals() if name.startswith("__"))})


def _load_mindspore() -> None:
    from . import mindspore

    mindspore.load()


def _write_ge_graphs(settings: session.Settings) -> None:
    from . import ge_graphs

    ge_graphs.write(settings)


session.write_graphs = _write_ge_graphs
sonde_early.watch_mindspore(_load_mindspore, session.start_from_environment)
