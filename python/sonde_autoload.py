"""Starts Sonde with the framework, when the environment asks for it.

torch calls start() at the end of `import torch` in every process (entry point group `torch.backends`). For MindSpore,
sonde_mindspore.pth calls watch_mindspore() at the start of every process whose environment names a configuration. So
nothing but `os` is imported until there is something to do, and no failure of ours may fail the import of a framework.
"""

import os

# Set by sonde.start(): what to call, with the framework's name, when one is imported.
waiting = None


def start():
    if os.environ.get("SONDE_OFF", "0") not in ("", "0"):
        return
    config = _config()
    prove = os.environ.get("SONDE_PROVE")
    if prove:
        _observe(prove)
    if not config and waiting is None and not _asked_by_a_switch():
        return
    _start_safely("torch", config)


def watch_mindspore():
    """Be told when `mindspore` is imported: what it dumps can only be taken over before."""
    try:
        import sys

        if os.environ.get("SONDE_OFF", "0") in ("", "0") and not any(type(f) is _Finder for f in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
    except Exception as error:
        _say(_message(error))


class _Finder:
    """Finds `mindspore` as the others do, and wraps what executes it. For that one import."""

    def find_spec(self, name, path=None, target=None):
        if name != "mindspore":
            return None
        import importlib.util
        import sys

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _wrap(spec.loader)
        return spec


def _wrap(loader):
    execute = loader.exec_module

    def exec_module(module):
        loader.exec_module = execute
        placed = _place_in_mindspore()
        execute(module)
        if placed:
            _start_safely("mindspore", _config())

    loader.exec_module = exec_module


def _place_in_mindspore():
    """Before `import mindspore`. False: this process records nothing, or it went wrong, which is said."""
    try:
        import sys

        if not _config() and "sonde" not in sys.modules:
            return False
        if waiting is None and _not_the_training():
            return False
        import sonde.mindspore

        sonde.mindspore.load()
    except Exception as error:
        _say(_message(error))
        return False
    return True


def _config():
    return os.environ.get("SONDE_CONFIG") or os.environ.get("MINDSPORE_DUMP_CONFIG")


def _start_safely(framework, config):
    try:
        _start(framework, config)
    except (KeyboardInterrupt, SystemExit):
        raise  # the user's: ^C, or a signal handler of theirs that ends the program
    except BaseException as error:
        _say(_message(error))


def _asked_by_a_switch():
    """Variables of the originals that ask for something by themselves: see sonde.environment."""
    return (
        os.environ.get("MS_DEV_SAVE_GRAPHS", "0") not in ("", "0")
        or os.environ.get("DUMP_GE_GRAPH") in ("1", "2", "3")
        or os.environ.get("ASCEND_DUMP_SCENE", "").startswith(("aic_err_", "lite_exception"))
    )


def _observe(directory):
    """`sonde run --prove`: this process writes down digests of what it computes, recorded or not."""
    try:
        import sonde.prove

        sonde.prove.start(directory)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        _say(f"sonde: cannot observe: {' '.join(str(error).split())} ({type(error).__name__})")


def _start(framework, config):
    if waiting is not None:
        waiting(framework)
    elif (config or framework == "torch") and not _not_the_training():
        import sonde

        sonde.session.start_from_environment(config, framework)


def _not_the_training():
    """Why this process is a helper of the training and not the training itself; None when it may record."""
    import sys

    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.current_process().name != "MainProcess":
        return "a worker started by multiprocessing"
    command = sys.orig_argv
    if any(a.replace("\\", "/").endswith("torch/_inductor/compile_worker/__main__.py") for a in command[:8]):
        return "a compile worker of Inductor"
    ranked = "RANK" in os.environ or "RANK_ID" in os.environ
    if not ranked and _program(command) in _LAUNCHERS:
        return "the launcher of a distributed training"
    return None


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


def _program(command):
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


def _message(error):
    """One line; for a configuration, one per error in it."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    if type(error).__name__ == "Error":
        return "\n".join("sonde: " + ("" if n else "not recording: ") + line for n, line in enumerate(lines))
    return f"sonde: not recording: {' '.join(lines)} ({type(error).__name__})"


def _say(line):
    try:
        import sys

        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except Exception:
        pass  # no stderr: there is nobody to tell
