"""Hooks into MindSpore: gives its dumper a configuration that it accepts, and receives the tensors that it finds.

MindSpore's own dumper walks through the operators of a step and writes graphs and execution orders. The functions by
which it would write tensors are replaced by `_mindspore.so` (adapters/mindspore), which must be in the global scope
before MindSpore is: see load(), called by sonde_autoload before `import mindspore`. From there on the engine records,
as the user's own configuration says.
"""

import contextlib
import ctypes
import functools
import os
import platform
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from . import _core
from .console import command_line, number_from, report
from .errors import Error
from .host import Host
from .patches import replace

_shim: ctypes.CDLL | None = None  # _mindspore.so, once it is loaded
# The directory of MindSpore's configuration; kept until the process ends, as it is read once.
_private: "tempfile.TemporaryDirectory[str] | None" = None

# The characters that MindSpore accepts in `path`. It refuses a dot, and so many names of user directories.
_PATH = re.compile(r"^/([A-Za-z0-9/_-])*$")


class RunInfo(ctypes.Structure):
    """struct sonde_run_info of sonde.h."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("host", ctypes.c_char_p),
        ("command", ctypes.c_char_p),
        ("world_size", ctypes.c_uint32),
    )


def load() -> None:
    """Puts the replacements where MindSpore will find them first. Only has an effect before `import mindspore`."""
    global _shim
    if _shim is not None:
        return
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_mindspore.so")
    _shim = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    _shim.sonde_mindspore_missing.restype = ctypes.c_char_p
    _shim.sonde_mindspore_set_engine.argtypes = (ctypes.c_void_p, ctypes.POINTER(RunInfo), ctypes.c_char_p)
    _shim.sonde_mindspore_set_engine.restype = ctypes.c_char_p
    _shim.sonde_mindspore_missing_before.restype = ctypes.c_char_p
    _shim.sonde_mindspore_read_before.argtypes = (ctypes.c_int,)
    _shim.sonde_mindspore_read_before.restype = None
    _shim.sonde_mindspore_set_pynative.argtypes = (ctypes.c_int,)
    _shim.sonde_mindspore_set_pynative.restype = None
    _shim.sonde_mindspore_report_run.argtypes = ()
    _shim.sonde_mindspore_report_run.restype = None


def _placed() -> ctypes.CDLL:
    """_mindspore.so, after load()."""
    assert _shim is not None
    return _shim


def why_not() -> str | None:
    """The reason why Sonde cannot hook into the imported MindSpore; None if it can."""
    mindspore = sys.modules["mindspore"]
    version = getattr(mindspore, "__version__", "of unknown version")
    if _shim is None:
        return "MindSpore was imported before Sonde could be placed in it; import sonde first"
    missing: bytes | None = _shim.sonde_mindspore_missing()
    if missing is not None:
        return f"MindSpore {version} is not built like those Sonde knows (2.7 to 2.10): it has no {missing.decode()}"
    target = mindspore.get_context("device_target")
    if target != "CPU":
        return f"on {target} MindSpore {version} dumps in other ways than the CPU, and Sonde does not know them"
    return None


class MindSporeHost(Host):
    """One session inside MindSpore."""

    current: ClassVar["MindSporeHost | None"] = None

    def __init__(self, end_if_over: Callable[[], None]) -> None:
        super().__init__(end_if_over)
        reason = why_not()
        if reason:
            raise Error(f"cannot record: {reason}")
        settings = _core.host_settings()
        path = settings["path"]
        directory = b"" if _PATH.match(path) else os.fsencode(path)
        self.undo = [
            _give_configuration(path, settings["first_step"]),
            _watch_scopes(),
            _watch_mode(),
            _silence_set_dump(),
        ]
        run = RunInfo(
            size=ctypes.sizeof(RunInfo),
            rank=0,  # known from MindSpore's paths
            device=number_from("DEVICE_ID", 0),
            host=_host().encode(),
            command=command_line().encode(errors="replace"),
            world_size=max(number_from("RANK_SIZE", 1), 1),
        )
        _read_inputs(before=not settings["inputs_after"])
        refused: bytes | None = _placed().sonde_mindspore_set_engine(_core.api(), ctypes.byref(run), directory)
        if refused is not None:
            self.close()
            raise Error(f"cannot record: {refused.decode()}")

    def close(self) -> None:
        """From now on the tensors that MindSpore reports are not recorded: its private configuration says 'all'."""
        # The last step may still be running on MindSpore's threads.
        with contextlib.suppress(Exception):
            api = (
                sys.modules.get("mindspore.graph.api") or sys.modules["mindspore.common.api"]
            )  # 2.9 and later, or earlier releases
            api._pynative_executor.sync()
        _placed().sonde_mindspore_report_run()
        for undo in self.undo:
            undo()

    def step(self) -> None:
        """MindSpore counts its steps itself, by the runs of its graphs: a warning."""
        report("warning", "sonde.step() does nothing inside MindSpore, which counts its steps itself")

    def dump_switch(self, on: bool) -> None:
        """The engine's switch."""
        _core.dump_switch(on)

    def set_step(self, step: int) -> None:
        """MindSpore's own numbers cannot be changed: raises Error."""
        raise Error(
            "cannot set the iteration: inside MindSpore steps have the numbers that MindSpore gives them; "
            "initial_iteration in the configuration moves them all"
        )


def flag(target: object, enabled: bool) -> bool:
    """sonde.set_dump() of a Cell or a Primitive; False: it is neither."""
    mindspore = sys.modules.get("mindspore")
    if mindspore is None or not isinstance(target, (mindspore.nn.Cell, mindspore.ops.Primitive)):
        return False
    try:
        from mindspore.tools import set_dump
    except ImportError:  # 2.7
        from mindspore import set_dump

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_ONLY_ASCEND)
        set_dump(target, enabled)
    return True


def _give_configuration(path: str, first_step: int) -> Callable[[], None]:
    """Gives MindSpore a private configuration, under which it visits every operator and writes to the user's path.
    SONDE_CONFIG keeps the user's for children. Returns a function that undoes it."""
    global _private
    if _private is None:
        _private = tempfile.TemporaryDirectory(prefix="sonde-mindspore-", ignore_cleanup_errors=True)
    if not _PATH.match(path):
        link = os.path.join(_private.name, "dump")
        with contextlib.suppress(FileNotFoundError):
            os.remove(link)
        os.symlink(path, link)
        path = link
    file = os.path.join(_private.name, "data_dump.json")
    with open(file, "w", encoding="utf-8") as out:
        out.write(_core.configuration(path, saved_data="tensor", initial_iteration=first_step))
    before = {name: os.environ.get(name) for name in ("MINDSPORE_DUMP_CONFIG", "SONDE_CONFIG")}
    if before["SONDE_CONFIG"] is None and before["MINDSPORE_DUMP_CONFIG"] is not None:
        os.environ["SONDE_CONFIG"] = before["MINDSPORE_DUMP_CONFIG"]
    os.environ["MINDSPORE_DUMP_CONFIG"] = file

    def undo() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    return undo


def _read_inputs(before: bool) -> None:
    """Inputs are read before their operator, or, as in MindSpore's own dumper, after it."""
    shim = _placed()
    missing: bytes | None = shim.sonde_mindspore_missing_before() if before else None
    if missing is not None:
        report("warning", f"inputs are read after their operators: this MindSpore has no {missing.decode()}")
    shim.sonde_mindspore_read_before(before and missing is None)


def _watch_scopes() -> Callable[[], None]:
    """When a network is compiled, every cell gets its scope: then reports the flagged cells."""
    from mindspore.nn import Cell

    original = Cell.generate_scope

    @functools.wraps(original)
    def generate_scope(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if MindSporeHost.current is not None:
            with contextlib.suppress(Exception):
                _report_flags(self)
        return result

    return replace(Cell, "generate_scope", generate_scope)


def _watch_mode() -> Callable[[], None]:
    """Operators that run one by one, in PyNative mode, are not recorded: the dump says so."""
    mindspore = sys.modules["mindspore"]
    setters = getattr(mindspore.context._Context, "setters", {})
    original = setters.get("mode")

    def note(mode: object) -> None:
        _placed().sonde_mindspore_set_pynative(mode == mindspore.PYNATIVE_MODE)

    note(mindspore.get_context("mode"))
    if original is None:  # the mode of now is that of the run
        return lambda: None

    @functools.wraps(original)
    def set_mode(context: Any, mode: Any) -> Any:
        result = original(context, mode)
        note(mode)
        return result

    def undo() -> None:
        if setters.get("mode") is set_mode:
            setters["mode"] = original

    setters["mode"] = set_mode
    return undo


def _report_flags(network: Any) -> None:
    for _, cell in network.cells_and_names():
        scope = cell.get_scope() or "Default"
        flagged = cell.get_flags().get("dump")
        if flagged is not None:
            _core.flag_scope(scope, "", bool(flagged))
        for primitive in (getattr(cell, "_primitives", None) or {}).values():
            if primitive is not None and "dump" in primitive.attrs:
                _core.flag_scope(scope, primitive.name, primitive.attrs["dump"] == "true")


_ONLY_ASCEND = "Current device_target is CPU, which is not supported by set_dump"


def _silence_set_dump() -> Callable[[], None]:
    """MindSpore warns that set_dump() has no effect on the CPU. With Sonde it has one."""
    filters: Any = warnings.filters
    warnings.filterwarnings("ignore", message=_ONLY_ASCEND)
    ours = warnings.filters[0]

    def undo() -> None:
        if ours in filters:
            filters.remove(ours)

    return undo


def _host() -> str:
    version = sys.modules["mindspore"].__version__
    return f"mindspore {version}, {platform.python_implementation()} {platform.python_version()}"
