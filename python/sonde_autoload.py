"""Starts Sonde at the end of `import torch`, when the environment asks for it (entry point group `torch.backends`).

torch calls start() in every process that imports it, so nothing but `os` is imported until there is something to do,
and no failure of ours may fail `import torch`.
"""

import os

# Set by sonde.start() when it was called before `import torch`: what to call when torch is there.
waiting = None


def start():
    config = os.environ.get("SONDE_CONFIG") or os.environ.get("MINDSPORE_DUMP_CONFIG")
    prove = os.environ.get("SONDE_PROVE")
    if prove:
        _observe(prove)
    if not config and waiting is None and not _asked_by_a_switch():
        return
    try:
        _start(config)
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


def _start(config):
    if waiting is not None:
        waiting()
    elif not _not_the_training():
        import sonde

        sonde.session.start_from_environment(config)


def _not_the_training():
    """Why this process is a helper of the training and not the training itself; None when it may record."""
    import sys

    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.current_process().name != "MainProcess":
        return "a worker started by multiprocessing"
    command = sys.orig_argv
    if any(a.replace("\\", "/").endswith("torch/_inductor/compile_worker/__main__.py") for a in command[:8]):
        return "a compile worker of Inductor"
    if "RANK" not in os.environ and _program(command) in _LAUNCHERS:
        return "the launcher of a distributed training"
    return None


_LAUNCHERS = {
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic.multiprocessing",
    "accelerate",
    "deepspeed",
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
