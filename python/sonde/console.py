"""Messages to the user of this process, and the user's environment variables."""

import contextlib
import functools
import json
import os
import shlex
import sys
from typing import NamedTuple

_MOST_RANKS = 2**31 - 1
_rank = ""  # of this process, from name_process()


class Launched(NamedTuple):
    """The place of this process among those of its launch."""

    rank: int
    local_rank: int
    world_size: int


# The variables of each launcher, in this order: the one that was started last comes first.
_LAUNCHERS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),  # torchrun, accelerate
    ("RANK_ID", "LOCAL_RANK", "RANK_SIZE"),  # MindSpore's
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),  # mpirun of Open MPI
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),  # mpirun of MPICH and Intel MPI
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),  # srun; a batch script alone has SLURM_NTASKS, too
)


def launched_rank() -> Launched:
    """As the launcher's variables say; rank 0 of 1 without a launcher."""
    for rank, local_rank, world_size in _LAUNCHERS:
        if os.environ.get(rank):
            local = number_from("LOCAL_RANK", number_from(local_rank, 0))
            return Launched(number_from(rank, 0), local, max(number_from(world_size, 1), 1))
    return Launched(0, number_from("LOCAL_RANK", 0), max(number_from("WORLD_SIZE", 1), 1))


def command_line() -> str:
    """The words that start this program again, for a shell: the command of `sonde run`, else that of this process."""
    command = os.environ.get("SONDE_COMMAND")
    if command:
        return command
    words = getattr(sys, "orig_argv", sys.argv)  # Python 3.10
    if "--multiprocessing-fork" in words:  # a child has the arguments of its parent
        words = [words[0], *sys.argv]
    return "" if sys.argv[:1] == ["-c"] else " ".join(shlex.quote(word) for word in words)


def name_process(rank: int) -> None:
    """Later messages name this rank."""
    global _rank
    if _rank != str(rank):
        _rank = str(rank)
        report("rank", "")


def report(kind: str, text: str) -> None:
    """Say `text` to the user: in the report of `sonde run` when it started this process, else on stderr.

    `kind` is "started", "rank", "refused", "summary", "warning", "notice", "failure", "observed" or "unobserved".
    Failures and notices go to stderr at once in either case. `sonde run` has printed the warnings itself, when it read
    the configuration.
    """
    path = os.environ.get("SONDE_RUN_REPORT")
    if path:
        entry = {"kind": kind, "text": text, "pid": os.getpid(), "rank": _rank or os.environ.get("RANK", "")}
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    if kind in ("failure", "notice") or (kind in ("warning", "summary") and not path):
        lines = (line if line.startswith("sonde") else f"sonde: {line}" for line in text.splitlines())
        _write_to_stderr("".join(line + "\n" for line in lines))


@functools.cache
def say_once(text: str) -> None:
    """report() a failure, only once."""
    report("failure", text)


def number_from(variable: str, default: int) -> int:
    """The number in an environment variable: a rank, or a count; `default`, with a message, if it is not a number."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_RANKS)) and int(text) <= _MOST_RANKS:
        return int(text)
    say_once(f"sonde: {variable}={text!r} is not a number from 0 to {_MOST_RANKS}; using {default}")
    return default


def _write_to_stderr(text: str) -> None:
    """Bypasses the stream's own buffer if it has a file: text that cannot be written there fails again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        try:
            descriptor = sys.stderr.fileno()
        except (OSError, ValueError, AttributeError):  # as in a notebook or a test
            sys.stderr.write(text)
            sys.stderr.flush()
        else:
            sys.stderr.flush()
            os.write(descriptor, text.encode(errors="backslashreplace"))
