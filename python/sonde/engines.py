"""Where the ranks of a dump are worked on: processes of this machine, the workers of Ray or Dask, any executor. They
spread the work of a verb: a part is a few ranks, and what it gives is a file for each, as an index (docs/scale.md)."""

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
from typing import Any, NamedTuple

from ._core import version
from .console import report
from .distribution import native_command
from .errors import Error
from .extras import extra
from .rank_part import Outcome, Part

Engine = str | futures.Executor


class Work(NamedTuple):
    """Work on each rank: a verb of the command with its options, and the ranks' directories in the dump."""

    dump: str
    verb: Sequence[str]
    ranks: Sequence[str]
    out: str  # a directory: files of the ranks
    doing: str  # "indexing rank", for people


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
        _spread(engine, Work(os.path.abspath(dump), ["index"], answer["ranks"], answer["file"], "indexing rank"))


def verified_ranks(dump: str, options: Sequence[str], engine: Engine | None) -> dict[str, Any]:
    """The document of `sonde verify DUMP OPTIONS --json`, whose ranks the engine verifies. Errors as of
    `index_ranks`."""
    if engine is None or engine == "local":
        return _ask(["verify", dump, *options, *(["--engine", engine] if engine else []), "--json"])
    with tempfile.TemporaryDirectory() as parts:
        ranks = _said(["verify", dump, *options, "--parts", parts, "--stale"]).stdout.splitlines()
        if ranks:
            _spread(engine, Work(os.path.abspath(dump), ["verify", *options], ranks, parts, "verifying rank"))
        if "--ranks" in options:
            index_ranks(dump, engine)
        return _ask(["verify", dump, *options, "--parts", parts, "--json"])


def _said(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([native_command(), *arguments], stdout=subprocess.PIPE, text=True, check=False)


def _ask(arguments: Sequence[str]) -> dict[str, Any]:
    done = _said(arguments)
    answer = json.loads(done.stdout or "{}")
    if "error" in answer or not answer:
        why = answer.get("error", {}).get("message")
        raise Error(why or f"`sonde {' '.join(arguments)}` ended with status {done.returncode}")
    return dict(answer)


def _spread(engine: Engine, work: Work) -> None:
    Path(work.out).mkdir(parents=True, exist_ok=True)
    # A worker that sees this file writes its files beside it; others send them.
    with tempfile.NamedTemporaryFile(dir=work.out, prefix=".shared-") as token, _runner(engine) as (run, workers):
        size = min(max(len(work.ranks) // (workers * _PARTS_OF_WORKER), 1), _MOST_IN_PART)
        parts: list[Part] = [
            {
                "dump": work.dump,
                "verb": list(work.verb),
                "ranks": list(work.ranks[at : at + size]),
                "out": work.out,
                "token": token.name,
                "version": version,
            }
            for at in range(0, len(work.ranks), size)
        ]
        done = 0
        for outcome in run(parts):
            _take(outcome, Path(work.out))
            done += outcome["done"]
            _show(f"{work.doing} {done} of {len(work.ranks)}")
    _show("")


def _show(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}\033[K")
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
    """Works on the ranks of a part, on any machine. It arrives there as it is, also where there is no Sonde."""
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
    from sonde.rank_part import do_part

    return do_part(part, place)


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
            report("notice", f"the executor broke ({error}); this machine does the other ranks")
            if parts[0]["verb"] == ["index"]:
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
        dump = os.path.abspath(asked["dump"])
        _spread(asked["engine"], Work(dump, asked["verb"], asked["ranks"], asked["out"], asked["doing"]))
    except (Error, ImportError) as error:
        sys.stderr.write(f"sonde: error: {error}\n")
        return 3 if isinstance(error, Error) else 2
    except Exception as error:  # of the cluster
        sys.stderr.write(f"sonde: error: --engine {asked['engine']}: {type(error).__name__}: {error}\n")
        return 3
    return 0
