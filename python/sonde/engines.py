"""Where the ranks of a dump are indexed: processes of this machine, the workers of Ray or Dask, any executor. They
spread the work: a part is a few ranks, and what it gives is their indices (docs/scale.md)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

from ._core import version
from .console import report
from .distribution import native_command
from .errors import Error
from .extras import extra
from .index_part import Outcome, Part

Engine = str | futures.Executor

_PARTS_OF_WORKER = 8  # so that none waits long for the last one
_MOST_IN_PART = 256


def index_ranks(dump: str, engine: Engine) -> None:
    """Indexes the ranks of a dump that have no index of their own, or one that is out of date.

    `engine`: "local", "ray", "dask" or an executor. Raises sonde.Error when a worker must not do it, or cannot see a
    rank; ValueError when there is no such engine."""
    if engine == "local":
        _ask(["index", dump, "--engine", "local", "--json"])
        return
    answer = _ask(["index", dump, "--stale", "--json"])
    if answer["ranks"]:
        _spread(os.path.abspath(dump), engine, answer["ranks"], answer["file"])


def _ask(arguments: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run([native_command(), *arguments], stdout=subprocess.PIPE, text=True, check=False)
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0:
        raise Error(answer.get("error") or f"`sonde {' '.join(arguments)}` ended with status {done.returncode}")
    return dict(answer)


def _spread(dump: str, engine: Engine, ranks: Sequence[str], out: str) -> None:
    Path(out).mkdir(parents=True, exist_ok=True)
    # A worker that sees this file writes its indices beside it; others send them.
    with tempfile.NamedTemporaryFile(dir=out, prefix=".shared-") as token, _runner(engine) as (run, workers):
        size = min(max(len(ranks) // (workers * _PARTS_OF_WORKER), 1), _MOST_IN_PART)
        parts: list[Part] = [
            {"dump": dump, "ranks": list(ranks[at : at + size]), "out": out, "token": token.name, "version": version}
            for at in range(0, len(ranks), size)
        ]
        done = 0
        for outcome in run(parts):
            _take(outcome, Path(out))
            done += outcome["done"]
            _show(done, len(ranks))
    _show(0, 0)


def _show(done: int, count: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rindexing rank {done} of {count}\033[K" if count else "\r\033[K")
        sys.stderr.flush()


def _take(outcome: Outcome, out: Path) -> None:
    if outcome.get("refused"):
        raise Error(outcome["refused"])
    if outcome.get("failed"):
        report("notice", f"{outcome['failed']}; one process reads the dump")
    for name, content in outcome.get("files", {}).items():
        aside = out / f".{os.path.basename(name)}.{os.getpid()}.partial"
        aside.write_bytes(content)
        aside.replace(out / os.path.basename(name))


# --- on a worker -----------------------------------------------------------------------------------------------------


def on_worker(part: Part) -> Outcome:
    """Indexes the ranks of a part, on any machine. It arrives there as it is, also where there is no Sonde."""
    import socket

    place = f"the worker on {socket.gethostname()}"
    try:
        from sonde._core import version as theirs
    except ImportError as error:
        return {
            "done": 0,
            "refused": f"{place} has no Sonde ({error}), and this is {part['version']}: pip install "
            f"tensorsonde=={part['version']} there",
        }
    if theirs != part["version"]:
        return {
            "done": 0,
            "refused": f"{place} has Sonde {theirs}, and this is {part['version']}: install one version on both",
        }
    from sonde.index_part import index_part

    return index_part(part, place)


# --- engines ---------------------------------------------------------------------------------------------------------

Runner = tuple[Callable[[list[Part]], Iterator[Outcome]], int]


def _runner(engine: Engine) -> contextlib.AbstractContextManager[Runner]:
    if isinstance(engine, futures.Executor):
        return _executor(engine)
    if engine == "ray":
        return _ray()
    if engine == "dask":
        return _dask()
    raise ValueError(
        f"engine '{engine}' does not exist; there are local, ray, dask and executors of concurrent.futures"
    )


def _by_value() -> Callable[[Part], Outcome]:
    """on_worker for a worker that may lack this module: what is of no module is sent with its code."""
    sent = types.FunctionType(on_worker.__code__, {"__builtins__": __builtins__}, "on_worker")
    sent.__module__ = "__main__"
    return sent


@contextlib.contextmanager
def _executor(executor: futures.Executor) -> Iterator[Runner]:
    def run(parts: list[Part]) -> Iterator[Outcome]:
        try:
            for done in futures.as_completed([executor.submit(on_worker, part) for part in parts]):
                yield done.result()
        except futures.BrokenExecutor as error:
            report("notice", f"the executor broke ({error}); processes of this machine index the other ranks")
            _ask(["index", parts[0]["dump"], "--engine", "local", "--json"])

    yield run, getattr(executor, "_max_workers", None) or os.cpu_count() or 1


@contextlib.contextmanager
def _ray() -> Iterator[Runner]:
    ray = extra("ray", "ray", "--engine ray")
    is_ours = not ray.is_initialized()
    if is_ours:  # the cluster that RAY_ADDRESS names, or one on this machine
        ray.init(log_to_driver=False, logging_level="error")
    task = ray.remote(max_retries=3)(_by_value())

    def run(parts: list[Part]) -> Iterator[Outcome]:
        waiting = [task.remote(part) for part in parts]
        while waiting:
            done, waiting = ray.wait(waiting)
            yield ray.get(done[0])

    try:
        yield run, int(ray.cluster_resources().get("CPU", 1)) or 1
    finally:
        if is_ours:
            ray.shutdown()


@contextlib.contextmanager
def _dask() -> Iterator[Runner]:
    distributed = extra("distributed", "dask", "--engine dask")
    # The cluster that DASK_SCHEDULER_ADDRESS names, or one on this machine.
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    with contextlib.ExitStack() as stack:
        if address is None:
            cluster = distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
            address = stack.enter_context(cluster)
        client = stack.enter_context(distributed.Client(address))
        task = _by_value()

        def run(parts: list[Part]) -> Iterator[Outcome]:
            for done in distributed.as_completed([client.submit(task, part, pure=False) for part in parts]):
                yield done.result()

        yield run, sum(client.nthreads().values()) or 1


def main(request: str) -> int:
    """`--engine ray` and `--engine dask` of the command. Returns the exit status."""
    asked = json.loads(request)
    try:
        _spread(os.path.abspath(asked["dump"]), asked["engine"], asked["ranks"], asked["out"])
    except (Error, ImportError) as error:
        sys.stderr.write(f"sonde: error: {error}\n")
        return 3 if isinstance(error, Error) else 2
    except Exception as error:  # of the cluster
        sys.stderr.write(f"sonde: error: --engine {asked['engine']}: {type(error).__name__}: {error}\n")
        return 3
    return 0
