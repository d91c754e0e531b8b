"""Runs one program in a forked process, recorded as `sonde run` records it, or in several: the ranks.

Importing torch takes seconds, so the bench does it once and forks for every run. Each run starts Sonde by itself before
the program's first operator; a run without evidence does not.
"""

import contextlib
import faulthandler
import importlib
import os
import random
import signal
import socket
import sys
import time
import traceback

from cases import OVERFLOW, STATISTICS, TENSORS

SAVED = {TENSORS: "full", STATISTICS: "statistic", OVERFLOW: "full"}
LONGEST = 60  # seconds


def settings(dump, evidence):
    """As `sonde run --out DUMP --saved-data …` writes them."""
    common = {
        "dump_mode": 0,
        "path": str(dump),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": SAVED[evidence],
        "input_output": 0,
        "kernels": [],
        "support_device": list(range(8)),
        "statistic_category": ["max", "min", "avg", "l2norm", "nan count"],
    }
    if evidence == OVERFLOW:
        common["op_debug_mode"] = 3
    return {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}


def import_once():
    """Before the forks: these imports take seconds each. The first optimizer imports torch._dynamo."""
    importlib.import_module("torch._dynamo")
    importlib.import_module("sonde.torch")


def record(case, evidence, dump, arguments=()):
    """Sonde makes the dump's directory; a log is beside it. Raises if the program does not run to its end."""
    port = _free_port()
    children = [forked(_run, case, evidence, dump, arguments, (rank, port)) for rank in range(case.ranks)]
    deadline = time.monotonic() + LONGEST
    failed = [_wait(child, deadline) for child in children]
    if any(failed):
        raise RuntimeError(f"{case.name} ({evidence}) did not run to its end:\n{_log(dump).read_text()}")


def _log(dump):
    return dump.with_name(dump.name + ".log")


def forked(work, *arguments):
    """The number of a child process that does this work. It prints an exception, and then exits with 1."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run(case, evidence, dump, arguments, place):
    log = os.open(_log(dump), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    faulthandler.dump_traceback_later(LONGEST * 0.9)  # prints the stack if it hangs
    if case.ranks > 1:
        rank, port = place
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(case.ranks))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    import torch

    import sonde

    if evidence:
        sonde.start(settings(dump, evidence))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    # The program may end by an exception of its own: guards raise exceptions.
    with contextlib.suppress(FloatingPointError):
        case.program(*arguments)
    sonde.stop()


def _wait(child, deadline):
    """True if it failed, or was too slow."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _free_port():
    """One that no connection takes by chance before a rank listens there: these have numbers from 32768 on."""
    while True:
        port = random.SystemRandom().randrange(20000, 32000)  # forks share the state of another
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
