"""The facts about a process that Sonde needs before its own import: whether to begin, and when MindSpore is imported.

sonde_autoload, which frameworks start, and the package `sonde` both use this module; it uses neither. It imports
nothing but `os` until there is something to do, and no failure of ours may fail the import of a framework.
"""

import os

TYPE_CHECKING = False  # typing's own would import typing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Set by sonde.start(): the function to call with the name of an imported framework.
waiting: "Callable[[str], None] | None" = None

_said_too_late = False
_mindspore: "_Finder | None" = None  # the last one; it is in sys.meta_path until MindSpore is imported


def is_off() -> bool:
    """True if SONDE_OFF turns Sonde off."""
    return os.environ.get("SONDE_OFF", "0") not in ("", "0")


def configuration() -> str | None:
    """The path of the configuration in the environment; None or empty if there is none."""
    return os.environ.get("SONDE_CONFIG") or os.environ.get("MINDSPORE_DUMP_CONFIG")


def npu_stand_in() -> bool:
    """True if `sonde run --npu-stand-in` started this process."""
    return os.environ.get("SONDE_NPU_STAND_IN", "0") not in ("", "0")


def framework_imported(
    framework: str,
    begin: "Callable[[str | None, str], None]",
    begin_with_model: "Callable[[str], None] | None" = None,
) -> None:
    """A framework was imported: calls its waiting function, or else `begin(configuration, framework)`. A worker, or
    a program of a library's own, calls `begin_with_model(configuration)`: it records only if it runs a model. Errors go
    to stderr."""
    try:
        config = configuration()
        if waiting is not None:
            waiting(framework)
        elif is_worker() or (begin_with_model is not None and is_of_library()):
            if config and begin_with_model is not None:
                begin_with_model(config)
        elif (config or framework == "torch") and not not_the_training():
            begin(config, framework)
    except (KeyboardInterrupt, SystemExit):
        raise  # the user's: ^C, or a signal handler that ends the program
    except BaseException as error:
        say(message(error))


def watch_mindspore(load: "Callable[[], None]", begin: "Callable[[str | None, str], None]") -> None:
    """Arrange a call when `mindspore` is imported: `load()` before the import, the only time at which its dumper can be
    replaced, and framework_imported() after it."""
    global _mindspore
    try:
        import sys

        if not is_off() and not any(type(finder) is _Finder for finder in sys.meta_path):
            _mindspore = _Finder(load, begin)
            sys.meta_path.insert(0, _mindspore)
    except Exception as error:
        say(message(error))


def say_if_only_half_asked() -> None:
    """MindSpore's second variable alone."""
    if os.environ.get("MS_ACL_DUMP_CFG_PATH") and not configuration() and not not_the_training():
        say(
            "sonde: nothing is recorded: MS_ACL_DUMP_CFG_PATH is set without MINDSPORE_DUMP_CONFIG; "
            "MindSpore needs both, with the same file"
        )


def say_if_too_late() -> None:
    """At the end of a process that set MINDSPORE_DUMP_CONFIG itself: MindSpore reads it later than Sonde could."""
    import sys

    global _said_too_late  # site-packages may be there twice, as lib and lib64
    said, _said_too_late = _said_too_late, True
    if "mindspore" in sys.modules and not (said or is_off()):
        say_if_only_half_asked()
    if not configuration():
        return
    if "mindspore" in sys.modules and "sonde.mindspore" not in sys.modules and not (said or is_off()):
        say(
            "sonde: Sonde recorded nothing: MINDSPORE_DUMP_CONFIG was set after Python had started, so MindSpore "
            "dumped by itself; set it before, or import sonde before mindspore"
        )


def watch_mindspore_again() -> None:
    """Repeat the last call of watch_mindspore(): other code may have looked for MindSpore without importing it."""
    if _mindspore is not None:
        watch_mindspore(_mindspore.load, _mindspore.begin)


def watch_npu(find: "Callable[[str], ModuleSpec | None]") -> None:
    """Let `find` look for `torch_npu` and `torchair` when they are imported."""
    try:
        import sys

        if npu_stand_in() and not any(type(finder) is _NpuFinder for finder in sys.meta_path):
            sys.meta_path.insert(0, _NpuFinder(find))
    except Exception as error:
        say(message(error))


class _NpuFinder:
    """Finds the modules of Ascend's that are not installed."""

    def __init__(self, find: "Callable[[str], ModuleSpec | None]") -> None:
        self.find = find

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        return self.find(name) if name in ("torch_npu", "torchair") else None


class _Finder:
    """Finds `mindspore` as the others do, and wraps its loader's execution. Only for that import."""

    def __init__(self, load: "Callable[[], None]", begin: "Callable[[str | None, str], None]") -> None:
        self.load = load
        self.begin = begin

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name != "mindspore":
            return None
        import importlib.util
        import sys

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self._wrap(spec.loader)
        return spec

    def _wrap(self, loader: "Loader") -> None:
        execute = loader.exec_module

        def exec_module(module: "ModuleType") -> None:
            loader.exec_module = execute  # type: ignore[method-assign]
            placed = self._place()
            execute(module)
            if placed:
                framework_imported("mindspore", self.begin)

        loader.exec_module = exec_module  # type: ignore[method-assign]

    def _place(self) -> bool:
        """Called before `import mindspore`. False: this process records nothing, or an error was reported."""
        try:
            import sys

            if not configuration() and "sonde" not in sys.modules:
                return False
            if waiting is None and not_the_training():
                return False
            self.load()
        except Exception as error:
            say(message(error))
            return False
        return True


def is_worker() -> bool:
    """True in a process that multiprocessing has started, and in the one that forks them for it."""
    import sys

    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.current_process().name != "MainProcess":
        return True
    return any(argument.startswith(_FORK_SERVER) for argument in sys.orig_argv[:8])


def _has_rank() -> bool:
    return "RANK" in os.environ or "RANK_ID" in os.environ


def is_of_library() -> bool:
    """True in `python -m a.b` of an installed library, started by a recorded process and without a rank. An engine for
    inference looks at its models in one; an import runs a few operators there."""
    import sys

    above = os.environ.get("SONDE_LAUNCH", "").split(":")[1:]
    if not [pid for pid in above if pid != str(os.getpid())] or _has_rank():
        return False
    main = sys.modules.get("__main__")
    if sys.argv[:1] != ["-m"] and getattr(main, "__spec__", None) is None:
        return False
    package = sys.modules.get(program_of(sys.orig_argv).partition(".")[0], main)
    origin = str(getattr(getattr(package, "__spec__", None), "origin", None))
    return not {"site-packages", "dist-packages"}.isdisjoint(origin.replace("\\", "/").split("/"))


def not_the_training() -> str | None:
    """The reason why this process is only a helper of the training; None if it may record."""
    import sys

    if is_worker():
        return "a worker started by multiprocessing"
    command = sys.orig_argv
    if any(a.replace("\\", "/").endswith("torch/_inductor/compile_worker/__main__.py") for a in command[:8]):
        return "a compile worker of Inductor"
    if command[1:2] == ["-c"] and "".join(command[2:3]).lstrip().startswith(_PROCESSOR_CHECK):
        return "a check of the processor by Inductor"
    if not _has_rank() and program_of(command) in _LAUNCHERS:
        return "the launcher of a distributed training"
    return None


# PyTorch 2.6 starts Python with it for each set of vector instructions, to see that compiled code loads.
_PROCESSOR_CHECK = "import torch\nfrom ctypes import cdll\ncdll.LoadLibrary("
_FORK_SERVER = "from multiprocessing.forkserver import main"
_LAUNCHERS = {
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic.multiprocessing",
    "accelerate",
    "accelerate-launch",
    "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli",
    "fabric",
    "lightning.fabric.cli",
    "lightning_fabric.cli",
    "deepspeed",
    "ds",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
    "horovodrun",
    "horovod.runner.launch",
    "composer",
    "composer.cli.launcher",
    "colossalai",
    "msrun",
    "mindspore.parallel.cluster.run",
}


def program_of(command: "Sequence[str]") -> str:
    """The script or module: `torchrun` of `python -u /bin/torchrun …`, `a.b` of `python -um a.b …`."""
    arguments = iter(command[1:])
    for argument in arguments:
        if argument in ("-W", "-X", "--check-hash-based-pycs"):
            next(arguments, None)
        elif not argument.startswith("-"):
            return os.path.basename(argument)
        elif not argument.startswith(("--", "-W", "-X")):
            letters, module, name = argument.partition("m")
            if "c" in letters or argument == "-":
                return ""  # -c COMMAND, or a program on standard input
            if module:
                return name or next(arguments, "")
    return ""


def message(error: BaseException) -> str:
    """One line; for a configuration, one per error in it."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    if type(error).__name__ == "Error":
        return "\n".join("sonde: " + ("" if n else "not recording: ") + line for n, line in enumerate(lines))
    return f"sonde: not recording: {' '.join(lines)} ({type(error).__name__})"


def say(line: str) -> None:
    """Writes to stderr, if there is one."""
    try:
        import sys

        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except Exception:
        pass  # no stderr: nowhere to report
