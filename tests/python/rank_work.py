"""A dump of many ranks from two that were recorded, and its verbs on executors, Dask and Ray, with a worker killed."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import conftest
import pytest
import ranks

TRAINING = (
    ranks.DISTRIBUTED
    + """
    for step in range(4):
        data = torch.ones(3, 2)
        if rank == 1 and step == 2:
            data = data * float("inf") * 0
        loss = net(data).sum()
        optimizer.zero_grad()
        loss.backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    """
)


def grown(two, dump, count):
    """A dump of more ranks, from two that were recorded, with times an hour ago."""
    for rank in range(count):
        shutil.copytree(two / f"rank_{min(rank, 1)}" if rank < 2 else two / "rank_0", dump / f"rank_{rank}")
    return aged(dump)


def random_parts(chance, directories):
    """The directories, each in one of the parts, which have any size and order."""
    left = chance.sample(directories, len(directories))
    while left:
        yield [left.pop() for _ in range(chance.randint(1, len(left)))]


def aged(dump):
    """As if it had been written an hour ago: it is not taken for one that is being recorded."""
    then = time.time() - 3600
    for path in [dump, *dump.rglob("*")]:
        os.utime(path, (then, then))
    return dump


def environment(cache, index="auto"):
    return {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), "SONDE_INDEX": index, "HOME": str(cache)}


def said(cache, *arguments, index="auto"):
    done = subprocess.run(
        [conftest.CLI, *map(str, arguments)],
        env=environment(cache, index),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def _stat(pid):
    """The state of a process, as a letter, and its parent."""
    with open(f"/proc/{pid}/stat") as file:
        state, parent = file.read().rsplit(")", 1)[1].split()[:2]
    return state, int(parent)


def children_of(pid):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if _stat(entry)[1] == pid:
                found.append(int(entry))
    return found


def _killed_at_work(pid):
    """Whether the signal found the child at work: one that has ended takes it too, and a stopped one has not ended."""
    os.kill(pid, signal.SIGSTOP)
    while (state := _stat(pid)[0]) not in "TZX":
        time.sleep(0.001)
    if state == "T":
        os.kill(pid, signal.SIGKILL)
    return state == "T"


def said_after_a_kill(cache, *command):
    """As `said` of the command, one of whose processes is killed at its work."""
    with subprocess.Popen(
        [conftest.CLI, *map(str, command)],
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        killed = False
        while not killed and run.poll() is None:
            for child in children_of(run.pid)[:1]:
                with contextlib.suppress(OSError):  # it has been waited for
                    killed = _killed_at_work(child)
        out, error = run.communicate(timeout=120)
    assert killed, "every process had ended when the signal came"
    return run.returncode, out, error


_PROGRAM = """
    import concurrent.futures, json, os, signal, sys, threading, time
    from pathlib import Path
    import sonde

    killers = []

    def kill_one(processes):
        def wait():
            while not any(Path(os.environ["XDG_CACHE_HOME"]).rglob(WORK)):
                time.sleep(0.001)
            os.kill(processes[0], signal.SIGKILL)
        killers.append(threading.Thread(target=wait, daemon=True))
        killers[0].start()

    def answer(dump, engine):
        found = QUESTION
        for killer in killers:
            killer.join(1)
            assert not killer.is_alive(), "nothing was killed"
        return repr((str(found), repr(found), json.dumps(dict(found.document))))
"""


def program_of(question, work):
    """The begin of a program: `answer(dump, engine)` asks, and a worker is killed when a file like `work` is there."""
    return textwrap.dedent(_PROGRAM.replace("QUESTION", question).replace("WORK", repr(work)))


def python_says(cache, source, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)],
        env={**os.environ, **environment(cache), "TMPDIR": str(cache), "RAY_TMPDIR": "/tmp"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1], done.stderr


def on_engine(engine, killed, program):
    """A program that prints the answer of an engine."""
    kill = f"kill_one({_PROCESSES[engine]})" if killed else ""
    return program + textwrap.dedent(_ENGINES[engine]).replace("KILL", kill)


def needs(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


_ENGINES = {
    "executor": """
        if __name__ == "__main__":
            with concurrent.futures.ProcessPoolExecutor(2) as pool:
                list(pool.map(abs, range(8)))
                KILL
                print(answer(sys.argv[1], pool))
        """,
    "dask": """
        import distributed
        if __name__ == "__main__":
            with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
                os.environ["DASK_SCHEDULER_ADDRESS"] = cluster.scheduler_address
                KILL
                print(answer(sys.argv[1], "dask"))
        """,
    "ray": """
        import ray
        ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
        KILL
        print(answer(sys.argv[1], "ray"))
        """,
}
_PROCESSES = {
    "executor": "list(pool._processes)",
    "dask": "[worker.pid for worker in cluster.workers.values()]",
    "ray": "[ray.get(ray.remote(lambda: os.getpid()).remote())]",
}
CLUSTERS = [pytest.param("dask", marks=needs("distributed")), pytest.param("ray", marks=needs("ray"))]
