"""Where the ranks of a dump are worked on: processes of this machine, the workers of Ray or Dask, any executor. They
spread the work of a verb: a part is a few ranks, and what it gives is a file for each, as an index (docs/scale.md).
Workers that see different ranks get those that they see."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from . import _core, remote
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
    url: str = ""  # of the dump: workers read it there


_PARTS_OF_WORKER = 8  # so that none waits long for the last one
_MOST_IN_PART = 256
_SECONDS_TO_CONNECT = 10
_DASK_SCHEMES = ("tcp://", "tls://")
_LONGEST_REASON = 300  # letters


def index_ranks(dump: str, engine: Engine) -> None:
    """Indexes the ranks of a dump that have no index of their own, or one that is out of date.

    `engine`: "local", "ray", "dask", the address of a cluster or an executor. Raises sonde.Error when a worker must not
    do it, or cannot see a rank, or no cluster answers; ValueError when there is no such engine."""
    if engine == "local":
        _ask(["index", dump, "--engine", "local", "--json"])
        return
    answer = _ask(["index", dump, "--stale", "--json"])
    if answer["ranks"]:
        _spread(engine, Work(os.path.abspath(dump), ["index"], answer["ranks"], answer["file"], "indexing rank"))


def searched_ranks(dump: str, question: Mapping[str, Any], engine: Engine) -> tuple[str, str]:
    """`_core.first_bad` of a dump whose ranks the engine searches: its document and its page. Errors as of
    `index_ranks`."""
    options = [word for name in ("step", "graph", "rank", "request") for word in _option(name, question)]
    if remote.is_url(dump) and engine != "local":
        remote.shared(dump)
    place = remote.local_path(dump, later=True)
    with tempfile.TemporaryDirectory() as parts, futures.ThreadPoolExecutor() as here:
        for searcher in (here if engine == "local" else engine, here):
            asking = ["first-bad", place, *options, "--parts", parts, "--stale"]
            ranks = _said(asking, subprocess.DEVNULL).stdout.splitlines()  # an error is raised below
            if ranks:
                url = dump if remote.is_mirrored(dump) else ""
                work = Work(os.path.abspath(place), ["first-bad", *options], ranks, parts, "searching rank", url)
                _spread(searcher, work)
        place = remote.local_path(dump, later=bool(os.listdir(parts)))
        if os.listdir(parts):
            return _core.first_bad_of_parts(place, parts, dict(question))
    return _core.first_bad(_core.open_dump(place, [], [], [], "", "", ""), dict(question))


def _option(name: str, question: Mapping[str, Any]) -> list[str]:
    value = question.get(name)
    return [] if value is None or value == "" else [f"--{name}", str(value)]


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


def _said(arguments: Sequence[str], errors: int | None = None) -> subprocess.CompletedProcess[str]:
    command, settings = [native_command(), *arguments], remote.environment()
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env=settings, text=True, check=False)


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
    with tempfile.NamedTemporaryFile(dir=work.out, prefix=".shared-") as token, _runner(engine) as cluster:
        size = min(max(len(work.ranks) // (cluster.workers * _PARTS_OF_WORKER), 1), _MOST_IN_PART)
        parts: list[Part] = [
            {
                "dump": work.dump,
                "url": work.url,
                "verb": list(work.verb),
                "ranks": ranks[at : at + size],
                "out": work.out,
                "token": token.name,
                "version": version,
                "node": node,
            }
            for node, ranks in _ranks_of_nodes(cluster, work)
            for at in range(0, len(ranks), size)
        ]
        done = 0
        for outcome in cluster.run(parts):
            _take(outcome, Path(work.out))
            done += outcome["done"]
            _show(f"{work.doing} {done} of {len(work.ranks)}")
    _show("")


def _ranks_of_nodes(cluster: Cluster, work: Work) -> list[tuple[str | None, list[str]]]:
    """The ranks, each with a node that sees its directory; None: any node, since all see the same."""
    if work.url:
        return [(None, list(work.ranks))]
    seen = cluster.look(work)
    everything = len(work.ranks)
    if all(len(ranks) == everything for ranks in seen.values()):
        return [(None, list(work.ranks))]
    of_node: dict[str | None, list[str]] = {node: [] for node in seen}
    for rank in work.ranks:
        nodes = [node for node, ranks in seen.items() if rank in ranks]
        # One that no node sees goes anywhere, and is refused there with its path.
        node = min(nodes, key=lambda one: len(of_node[one])) if nodes else None
        of_node.setdefault(node, []).append(rank)
    return [(node, ranks) for node, ranks in of_node.items() if ranks]


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


def seen_here(dump: str, ranks: list[str]) -> list[str]:
    """The ranks whose directories a worker sees. It arrives there as `on_worker` does."""
    import os

    return [rank for rank in ranks if os.path.isdir(os.path.join(dump, rank))]


# --- engines ---------------------------------------------------------------------------------------------------------


class Cluster(NamedTuple):
    """An engine at work."""

    run: Callable[[list[Part]], Iterator[Outcome]]
    workers: int
    look: Callable[[Work], dict[str, set[str]]] = lambda work: {}  # which ranks each node sees; empty: nobody chooses


def _runner(engine: Engine) -> contextlib.AbstractContextManager[Cluster]:
    if isinstance(engine, futures.Executor):
        return _executor(engine)
    name = str(engine)  # a caller may pass anything, as Dask's client
    if name == "ray" or name.startswith("ray://"):
        return _ray(name)
    if name == "dask" or name.startswith(_DASK_SCHEMES):
        return _dask(name)
    raise ValueError(
        f"engine '{engine}' does not exist; there are local, ray, dask, ray://HOST:PORT, tcp://HOST:PORT, "
        "tls://HOST:PORT and executors of concurrent.futures"
    )


def _address(engine: str, variable: str) -> str | None:
    """Of a cluster that answers; None: none is named. Raises Error within seconds, where clusters try for minutes."""
    address = engine if "://" in engine else os.environ.get(variable)
    if not address:
        return None
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Error(f"engine address '{address}' cannot be read ({error}); expected HOST:PORT") from None
    if host and port:
        try:
            socket.create_connection((host, port), _SECONDS_TO_CONNECT).close()
        except OSError as error:
            source = "" if "://" in engine else f" ({variable})"
            raise Error(
                f"no cluster answers at '{address}'{source}: {error.strerror or error}; is it up, and its port open "
                "here? `local` needs no cluster"
            ) from None
    return address


def _by_value(function: Callable[..., Any] = on_worker) -> Callable[..., Any]:
    """A function for a worker that may lack this module: what is of no module is sent with its code."""
    sent = types.FunctionType(function.__code__, {"__builtins__": __builtins__}, function.__name__)
    sent.__module__ = "__main__"
    return sent


def _gone(part: Part) -> Outcome:
    return {"done": len(part["ranks"]), "failed": f"the worker that sees {', '.join(part['ranks'][:3])} is gone"}


@contextlib.contextmanager
def _executor(executor: futures.Executor) -> Iterator[Cluster]:
    def run(parts: list[Part]) -> Iterator[Outcome]:
        try:
            for done in futures.as_completed([executor.submit(on_worker, part) for part in parts]):
                yield done.result()
        except futures.BrokenExecutor as error:
            report("notice", f"the executor broke ({error}); this machine does the other ranks")
            if parts[0]["verb"] == ["index"]:
                _ask(["index", parts[0]["dump"], "--engine", "local", "--json"])

    yield Cluster(run, getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


@contextlib.contextmanager
def _ray(engine: str) -> Iterator[Cluster]:
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "2")  # 20 take twelve minutes if the head goes away meanwhile
    known = sys.modules.get("ray")
    is_ours = known is None or not known.is_initialized()
    address = _address(engine, "RAY_ADDRESS") if is_ours else None
    ray = extra("ray", "ray", "--engine ray")
    if is_ours:  # without an address: a cluster on this machine
        ray.init(address=address, log_to_driver=False, logging_level="error")
    affinity = extra("ray.util.scheduling_strategies", "ray", "--engine ray").NodeAffinitySchedulingStrategy
    task = ray.remote(max_retries=3)(_by_value())

    def on(remote: Any, node: str | None) -> Any:
        return remote if node is None else remote.options(scheduling_strategy=affinity(node_id=node, soft=False))

    def run(parts: list[Part]) -> Iterator[Outcome]:
        waiting = {on(task, part["node"]).remote(part): part for part in parts}
        while waiting:
            (done, *_), _ = ray.wait(list(waiting))
            part = waiting.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError:
                if part["node"] is None:
                    raise
                yield _gone(part)

    def look(work: Work) -> dict[str, set[str]]:
        nodes = [one["NodeID"] for one in ray.nodes() if one["Alive"] and one["Resources"].get("CPU")]
        if len(nodes) < 2:
            return {}
        ask = ray.remote(_by_value(seen_here))
        asked = {node: on(ask, node).remote(work.dump, list(work.ranks)) for node in nodes}
        return {node: set(ray.get(seen)) for node, seen in asked.items()}

    try:
        yield Cluster(run, int(ray.cluster_resources().get("CPU", 1)) or 1, look)
    finally:
        if is_ours:
            ray.shutdown()


@contextlib.contextmanager
def _dask(engine: str) -> Iterator[Cluster]:
    address: Any = _address(engine, "DASK_SCHEDULER_ADDRESS")
    distributed = extra("distributed", "dask", "--engine dask")
    with contextlib.ExitStack() as stack:
        if address is None:  # a cluster on this machine
            with _deaf_to_interrupts():
                cluster = distributed.LocalCluster(
                    threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                )
            address = stack.enter_context(cluster)
        client = stack.enter_context(distributed.Client(address))
        task = _by_value()

        def submit(part: Part) -> Any:
            place = {} if part["node"] is None else {"workers": [part["node"]], "allow_other_workers": False}
            return client.submit(task, part, pure=False, **place)

        def run(parts: list[Part]) -> Iterator[Outcome]:
            waiting = {submit(part): part for part in parts}
            while waiting:
                done = _done_of(distributed, list(waiting))
                for one in done:
                    del waiting[one]
                    yield one.result()
                alive = {None, *client.nthreads()} if not done else {part["node"] for part in waiting.values()}
                for one in [one for one, part in waiting.items() if part["node"] not in alive]:
                    one.cancel()
                    yield _gone(waiting.pop(one))

        def look(work: Work) -> dict[str, set[str]]:
            seen = client.run(_by_value(seen_here), work.dump, list(work.ranks), on_error="ignore")
            return {address: set(ranks) for address, ranks in seen.items()}

        yield Cluster(run, sum(client.nthreads().values()) or 1, look)


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Threads and processes that begin here leave a terminal's Ctrl-C to this thread, which ends them."""
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start would end this
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _done_of(distributed: Any, waiting: list[Any]) -> set[Any]:
    """Those that are done; none after some seconds: a worker may be gone, and nobody else may do its part."""
    try:
        return set(distributed.wait(waiting, timeout=5, return_when="FIRST_COMPLETED").done)
    except (TimeoutError, asyncio.TimeoutError, distributed.TimeoutError):
        return set()


def main(request: str) -> int:
    """An engine of the command that is a cluster. Returns the exit status."""
    asked = json.loads(request)
    logging.disable()  # clusters log pages of a lost connection, which is an exception too
    try:
        dump = os.path.abspath(asked["dump"])
        _spread(asked["engine"], Work(dump, asked["verb"], asked["ranks"], asked["out"], asked["doing"]))
    except (Error, ImportError) as error:
        sys.stderr.write(f"sonde: error: {error}\n")
        return 3 if isinstance(error, Error) else 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:  # of the cluster
        sys.stderr.write(f"sonde: error: --engine {asked['engine']}: {_reason(error)}\n")
        return 3
    return 0


def _reason(error: Exception) -> str:
    """One line of what a cluster says, which may be pages, or nothing."""
    text = " ".join(str(error).split()).rstrip(".")
    shown = text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + "…"
    return f"the cluster failed: {type(error).__name__}{': ' if shown else ''}{shown}; `--engine local` needs none"
