"""Starts and stops the session of this process, and decides which frameworks it watches."""

import atexit
import contextlib
import hashlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import sonde_early

from . import _core, alerts, environment
from . import host as host_facts
from .alerts import OnAlert
from .console import report
from .distribution import complaint_about_another
from .errors import Error
from .host import Host

StrPath: TypeAlias = str | os.PathLike[str]
Settings: TypeAlias = dict[str, Any]  # with the content of a file


class Configured(Protocol):
    """An object that contains a configuration, such as sonde.torchair.CompilerConfig."""

    def configuration(self) -> Settings:
        """The configuration, as a dictionary."""
        ...


class _LastStepIsOver(SystemExit):
    """Ends the program as sys.exit() does, for `stop_after`. `except Exception` does not catch it."""


class _EngineAlone(Host):
    """No framework is watched: only the program declares steps."""

    def close(self) -> None:
        pass

    def step(self) -> None:
        _core.manual_step()

    def dump_switch(self, on: bool) -> None:
        _core.dump_switch(on)

    def set_step(self, step: int) -> None:
        _core.set_step(step)


class _Search(Protocol):
    """first_model.Search."""

    def end(self) -> None:
        """Ends it."""


_owner: int | None = None  # pid of the process that started the session; a forked child is not the owner
# The session of sonde.environment, if any: the program's own replaces it.
_by_a_switch: Settings | None = None
_with_model = False  # the session has begun with the first model of a child
_ended = False  # the program was ended because of `stop_after`
_records_exceptions = False  # the session's plan asks for the operator that throws
_life = threading.RLock()  # held while a session starts or stops; a signal handler may stop it meanwhile
_attached: list[Host] = []  # the frameworks that are watched
_settings: Settings | None = None  # the session's configuration, if it can be read as JSON
_again: Callable[[], None] | None = None  # begins a session with the same configuration: for forked children
_alerts: list[alerts.Alerts] = []  # what looks for findings while the session runs
_search: _Search | None = None  # for the first model of this process, which may never run one
_of_parent: list[Host] = []  # the frameworks that the parent of this forked child watched
# Set by the package: writes the graphs of a session with this configuration, which has ended, in GE's forms.
write_graphs: Callable[[Settings], None] | None = None


def start(
    config: StrPath | Settings | Configured, *, on_alert: OnAlert | None = None, alert: str | Iterable[str] = "bad"
) -> None:
    """Start recording under `config`: the path of a configuration file, a dictionary with the same content, or an
    object whose configuration() gives one (sonde.torchair.CompilerConfig).

    `on_alert` is called with the first finding of each `alert`, "bad" or a condition of sonde watch, as `sonde run
    --alert` takes them: in a thread while the training runs, or when it ends. An exception in it is a line on stderr.

    Works before or after the framework is imported. Raises Error with everything that is wrong in the file; nothing is
    written then. Warnings go to stderr.
    """
    conditions = alerts.checked(alert, on_alert)
    if hasattr(config, "configuration"):
        config = config.configuration()
    global _settings, _again
    with _life:
        _be_no_child()
        if gives_way():
            _make_room()
        if _mine():
            raise Error("cannot start a session: one is running; call sonde.stop() first")
        with _as_file(config) as path:
            _start_engine(path)
            _settings = _read(path)
            again = config if isinstance(config, dict) else path
            _again = lambda: start(again)  # noqa: E731
        _attach()
        if on_alert is not None:
            add_alerts(conditions, on_alert)


def add_alerts(conditions: list[str], on_alert: OnAlert) -> None:
    """`on_alert` is called for findings of the session that runs, as by start()."""
    begun = alerts.begin(directory(), conditions, on_alert)
    if begun is not None:
        _alerts.append(begun)


def stop() -> str:
    """End the session: all files are complete when this returns. Gives the closing line, which also goes to stderr."""
    if not _mine():
        return ""  # checked before the lock, which fork() may have left locked
    with _life:
        if not _mine():
            return ""  # another thread was faster
        _write_ring_of_failure()
        try:
            for host in _attached:
                host.detach()
        finally:
            summary = _core.stop()
            summary += _why_no_target(summary) + _why_it_ended()
            _write_graphs()
            looking = list(_alerts)
            _forget()
    if summary:
        report("summary", summary)
    for one in looking:  # not under the lock: the function may call stop(), too
        one.end()
    return summary


def _write_graphs() -> None:
    """Graphs in other forms than the engine's."""
    if _by_a_switch:
        environment.link_graphs(_by_a_switch)
    if write_graphs is not None and _settings is not None:
        write_graphs(_settings)


def _make_room() -> None:
    """The session gives_way(): the program itself has a configuration."""
    begun = "a variable has begun" if _by_a_switch else "has begun with the first model"
    for host in _attached:
        host.detach()
    summary = _core.stop()
    _write_graphs()
    _forget()
    report("warning", f"the recording that {begun} ends: the program starts one itself")
    if "nothing was recorded" not in summary:
        report("summary", summary)


def end_if_over() -> None:
    """At the boundary of a step: ends the program if the plan has `stop_after` and its last step is over."""
    global _ended
    if _mine() and _core.is_over():
        _ended = True
        raise _LastStepIsOver(0)


def running() -> bool:
    """True if a session runs in this process."""
    return _mine()


def directory() -> str | None:
    """The directory that the session of this process writes to; None without a session."""
    return _path_of(_settings) if _mine() and _settings is not None else None


def gives_way() -> bool:
    """True if the session that runs has begun by a variable without a configuration, or with the first model of a
    child: the program's own then takes its place."""
    return _mine() and (_by_a_switch is not None or _with_model)


def step() -> None:
    """End the current step here. Needed only for loops that have neither an optimizer nor one forward per step."""
    if not _mine():
        return
    for host in _hosts():
        host.step()
    end_if_over()


def dump_start() -> None:
    """Record from here on, whatever `iteration` says; until dump_stop(). At once, also within a step.

    With the first call of dump_start() or dump_stop() the switch alone decides; steps go on being counted. Raises Error
    when no session runs.
    """
    _switch(True)


def dump_stop() -> None:
    """Record nothing from here on, whatever `iteration` says; until dump_start(). The session goes on.

    Raises Error when no session runs.
    """
    _switch(False)


def dump_set_iteration(iteration: int) -> None:
    """The step that begins next is number `iteration` (of every graph): after a checkpoint was loaded.

    Raises ValueError when `iteration` is not an integer from 0 on, Error when no session runs or the framework counts
    by itself.
    """
    if not isinstance(iteration, int) or isinstance(iteration, bool) or iteration < 0:
        raise ValueError(f"dump_set_iteration: a step's number is an integer from 0 on, not {iteration!r}")
    if not _mine():
        raise Error("cannot set the iteration: no session is running; call sonde.start() first")
    for host in _hosts():
        host.set_step(iteration)


def write_ring(why: str = "sonde.write_ring()") -> int:
    """Write the steps that the ring holds (`sonde_settings.ring`), and the rest of the step that runs.

    Gives the number of steps, when they are on disk; `why` is one line for people. Raises Error when no session runs,
    or when its configuration has no ring.
    """
    if not _mine():
        raise Error("cannot write the ring: no session is running; call sonde.start() first")
    steps = _core.write_ring(why)
    if steps < 0:
        raise Error("cannot write the ring: the configuration has no sonde_settings.ring")
    return steps


def _write_ring_of_failure() -> None:
    """The program ends with an exception, or leaves a `with sonde.capture(...)` with one."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if isinstance(error, Exception | KeyboardInterrupt) and _core.has_ring():
        _core.write_ring(f"the program ended with {_line_about(error)}")


def _line_about(error: BaseException) -> str:
    try:
        text = str(error).strip().splitlines()
    except Exception:  # of the user's own class
        text = []
    return type(error).__name__ + (f": {text[0]}" if text else "")


def _switch(on: bool) -> None:
    if not _mine():
        raise Error("cannot switch recording: no session is running; call sonde.start() first")
    for host in _hosts():
        host.dump_switch(on)


class Capture:
    """The object of `with sonde.capture(...)`: `path`, where the dump is, and after the block `summary`."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.summary = ""


@contextlib.contextmanager
def capture(
    config: StrPath | Settings | None = None,
    *,
    out: StrPath | None = None,
    saved_data: str = "statistic",
    iteration: int | str = "all",
    kernels: str | Iterable[str] = (),
    statistics: Iterable[str] | None = None,
    on_alert: OnAlert | None = None,
    alert: str | Iterable[str] = "bad",
) -> Iterator[Capture]:
    """Record what runs inside the `with` block.

    with sonde.capture(out="/tmp/run7", saved_data="full", kernels=["conv2d"]) as session:
        loss = model(batch).sum()
        loss.backward()
    print(session.summary)

    Either `config` as for start(), or `out`, the directory to write to, with what to save there; `on_alert` and `alert`
    as for start(). Raises Error when it is neither or both, and as start() does.
    """
    if (config is None) == (out is None):
        raise Error("sonde.capture() takes either a configuration or out=DIRECTORY")
    if out is not None and not os.fspath(out):
        raise Error("sonde.capture() needs a directory to write to; out is empty")
    if out is not None:
        config = settings(out, saved_data=saved_data, iteration=iteration, kernels=kernels, statistics=statistics)
    assert config is not None
    session = Capture(_path_of(config))
    start(config, on_alert=on_alert, alert=alert)
    try:
        yield session
    finally:
        session.summary = stop()


def settings(
    out: StrPath,
    *,
    saved_data: str = "statistic",
    iteration: int | str = "all",
    kernels: str | Iterable[str] = (),
    statistics: Iterable[str] | None = None,
    net_name: str = "Net",
) -> Settings:
    """A configuration in MindSpore's dialect, as a dictionary."""
    counted = list(statistics or ["max", "min", "avg", "l2norm", "nan count"])
    made: Settings = json.loads(
        _core.configuration(
            os.path.abspath(os.fspath(out)),
            iteration=str(iteration),
            saved_data=saved_data,
            kernels=[kernels] if isinstance(kernels, str) else list(kernels),
            statistics=[] if saved_data == "tensor" else counted,
            net_name=net_name,
        )
    )
    return made


def start_from_environment(config: str | None, framework: str = "torch") -> None:
    """Called by the import of a framework if the environment requests a dump (see sonde_autoload): it names a
    configuration, or, with None, has a switch that needs no configuration. Raises Error as start() does."""
    if framework == "mindspore":
        from . import mindspore

        reason = mindspore.why_not()
        if reason:
            report("failure", f"sonde: not recording: {reason}; MindSpore's own dump continues unchanged")
            return
    if _mine():  # for the framework that was imported first
        with _life:
            _attach_host(framework)
        return
    by_a_switch = None
    if not config:
        by_a_switch, why_not = environment.configuration()
        if by_a_switch is None:
            raise Error(why_not)
    global _by_a_switch, _again
    report("started", config or "a switch of the environment")
    try:
        start(by_a_switch or config or "")
        _by_a_switch = by_a_switch
        _again = (lambda: start_from_environment(config)) if config else None
    except Exception as error:
        report("refused", str(error))
        # MindSpore would end the program because of the same file.
        if framework == "mindspore":
            os.environ.pop("MINDSPORE_DUMP_CONFIG", None)
        raise


def begin_with_model(config: str) -> None:
    """Called by the import of PyTorch in a worker (see sonde_autoload): a session begins with its first model."""
    call_with_model(lambda: start_from_environment(config))


def call_with_model(begin: Callable[[], None]) -> None:
    """Calls begin(), which begins a session, when the first model of this process is about to run, if any does."""
    global _search
    from .first_model import Search

    def begin_here() -> None:
        global _with_model
        try:
            begin()
            _with_model = True
            _close_with_worker()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # no exception may reach the user's program
            report("failure", sonde_early.message(error))

    _search = Search(begin_here)


def _be_no_child() -> None:
    """A session begins here: nothing of the parent's is left, and no model is looked for."""
    global _search
    search, _search = _search, None
    if search is not None:
        search.end()
    while _of_parent:
        _of_parent.pop().let_go()


def _close_with_worker() -> None:
    """A worker of multiprocessing ends without the functions of atexit."""
    util, process = (sys.modules.get(f"multiprocessing.{name}") for name in ("util", "process"))
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, stop, exitpriority=_LAST)


def _why_no_target(summary: str) -> str:
    """No target of set_dump ran, because other code than the target's own ran in its place."""
    utilities = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utilities, "counters", None)
    if "records the targets of sonde.set_dump()" not in summary or not counters:
        return ""
    compiled = counters.get("frames", {}).get("ok", 0)
    if not compiled:
        return ""
    return (
        f"; torch.compile ran {compiled} compiled functions in their place: with the backends 'eager' and 'aot_eager' "
        "these contain no modules; use the backend 'inductor', set_dump() of a type of operator, or dump_mode 1"
    )


def _why_it_ended() -> str:
    """`stop_after`; or, if exceptions are recorded, the exception that ends the program, which Python keeps."""
    if _ended:
        return "\nsonde: ended after the last chosen step (stop_after)"
    error = getattr(sys, "last_value", None)
    if not _records_exceptions or not isinstance(error, BaseException):
        return ""
    return f"\nsonde: the program ended with {_line_about(error)}"


def _start_engine(path: str) -> None:
    global _owner, _records_exceptions
    _join_launch()
    ok, text = _core.start(path)
    if not ok:
        raise Error(text)
    for warning in (text, complaint_about_another()):
        if warning:
            report("warning", warning)
    _owner = os.getpid()
    host_facts.plan_key = _hash_of(path)
    _records_exceptions = _core.records_exceptions()
    _at_exit_once()


def _join_launch() -> None:
    """The variable names the launch, and the processes with a session from the first one to this: by it the engine
    knows the processes of one launch, and which of them started which."""
    own = str(os.getpid())
    launch, *above = os.environ.get("SONDE_LAUNCH", "").split(":")
    if above[-1:] != [own]:
        os.environ["SONDE_LAUNCH"] = ":".join([launch or f"{own}-{time.time_ns()}", *above, own])


def _hash_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def _host_of(framework: str) -> type[Host]:
    """The watcher of an imported framework; Sonde's module for it is imported only now."""
    if framework == "torch" and _core.keeps_summary():
        from .summaries import SummaryHost

        return SummaryHost
    if framework == "torch":
        from .torch import TorchHost

        return TorchHost
    from .mindspore import MindSporeHost

    return MindSporeHost


def _hosts() -> Sequence[Host]:
    return _attached or [_EngineAlone(end_if_over)]


def _attach() -> None:
    """Watches the imported frameworks now, and the others after their import: then sonde_early calls `waiting`."""
    imported = [name for name in ("torch", "mindspore") if name in sys.modules]
    sonde_early.waiting = _attach_host
    sonde_early.watch_mindspore_again()
    if not imported and os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
        imported = ["torch"]
    for name in imported:
        _attach_host(name)


def _attach_host(framework: str) -> None:
    """Watches an imported framework."""
    try:
        kind = _host_of(framework)
        if any(type(host) is kind for host in _attached):
            return
        host = kind.attach(end_if_over)
    except BaseException:
        if not _attached:
            _core.stop()
            _forget()
        raise
    _attached.append(host)
    if not _mine():  # a signal handler has stopped the session meanwhile
        host.detach()
        _forget()


_registered = False
_LAST = -100  # after the worker has waited for its own children


def _at_exit_once() -> None:
    global _registered
    if not _registered:
        _registered = True
        atexit.register(stop)
        os.register_at_fork(after_in_child=_in_forked_child)


def _in_forked_child() -> None:
    global _life
    _life = threading.RLock()
    if _owner is None:
        return
    for host in _attached:
        host.forked_child()
    _core.forked_child()
    _of_parent[:] = _attached
    begin = _again
    _forget()
    if begin is not None and any(host.can_look_for_model for host in _of_parent):
        call_with_model(begin)


def _forget() -> None:
    global _owner, _by_a_switch, _with_model, _ended, _again
    _owner = _by_a_switch = _again = None
    _with_model = _ended = False
    _attached.clear()
    _alerts.clear()
    sonde_early.waiting = None


def _mine() -> bool:
    return _owner == os.getpid()


@contextlib.contextmanager
def _as_file(config: object) -> Iterator[str]:
    """`config` as the path of a file, which exists until the end of the block."""
    if not isinstance(config, dict):
        yield _checked_path(config)
        return
    with tempfile.TemporaryDirectory(prefix="sonde-") as directory:
        path = os.path.join(directory, "data_dump.json")
        try:
            text = json.dumps(config, indent=2)
        except (TypeError, ValueError, RecursionError) as error:
            raise Error(f"cannot record: the configuration cannot be written as JSON: {error}") from None
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        yield path


def _checked_path(config: object) -> str:
    if not isinstance(config, str | os.PathLike):
        raise Error(f"a configuration is the path of a file or a dictionary, not {type(config).__name__}")
    path = os.path.abspath(os.fspath(config))
    if "\0" in path or path != path.encode(errors="replace").decode():
        raise Error(f"cannot read configuration {path!r}: its name is not UTF-8 text; give it another one")
    return path


def _path_of(config: StrPath | Settings) -> str | None:
    """The dump directory in a configuration; None if it has a mistake."""
    settings = config if isinstance(config, dict) else _read(config)
    try:
        return _core.dump_path_of(json.dumps(settings)) or None
    except (TypeError, ValueError, RecursionError):
        return None  # start() says why


def _read(path: StrPath) -> Settings | None:
    """A configuration file; None if it is not an object in JSON."""
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
        settings = json.load(file)
        return settings if isinstance(settings, dict) else None
    return None
