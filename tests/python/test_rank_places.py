"""A rank is worked on by a worker that sees its directory: workers have different ranks, as with local disks."""

import json
import textwrap

import pytest
import ranks
from rank_work import TRAINING, grown, needs, python_says

COUNT = 9

# A worker sees the directories of `ranks` alone, and notes those that it has worked on.
HIDING = """
def hide(ranks, notes):
    import os
    from sonde import rank_part
    isdir, do_part = os.path.isdir, rank_part.do_part

    def sees(path):
        name = os.path.basename(os.fspath(path))
        return isdir(path) and (not name.startswith("rank_") or name in ranks)

    def noted(part, place):
        found = do_part(part, place)
        with open(notes, "a") as file:
            file.write("".join(f"{rank} {len(ranks)}\\n" for rank in part["ranks"]))
        return found

    os.path.isdir, rank_part.do_part = sees, noted
"""

DASK = """
    import distributed
    WHO = json.loads(sys.argv[3])
    if __name__ == "__main__":
        cluster = distributed.LocalCluster(n_workers=len(WHO), threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster) as client:
            client.wait_for_workers(len(WHO))
            os.environ["DASK_SCHEDULER_ADDRESS"] = cluster.scheduler_address
            for worker, ranks in zip(client.nthreads(), WHO):
                client.run(hide, ranks, sys.argv[4], workers=[worker])
            say()
"""

RAY = """
    import ray
    from ray.cluster_utils import Cluster
    WHO = json.loads(sys.argv[3])
    cluster = Cluster()
    for ranks in WHO:
        seen = {"SEES": json.dumps([ranks, sys.argv[4]]), "PYTHONPATH": sys.argv[5]}
        cluster.add_node(num_cpus=1, include_dashboard=False, env_vars=seen)
    ray.init(address=cluster.address, log_to_driver=False)
    say()
    ray.shutdown()
    cluster.shutdown()
"""

SAY = """
    def say():
        for question in sys.argv[2].split():
            try:
                found = getattr(sonde, question)(sys.argv[1], engine=ENGINE)
                print(repr((str(found), json.dumps(dict(found.document)))))
            except sonde.Error as error:
                print("refused:", error)
"""

ALONE = "print(repr((str(found := sonde.first_bad(sys.argv[1])), json.dumps(dict(found.document)))))"


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    run = ranks.run_ranks(tmp_path_factory.mktemp("ranks"), TRAINING, saved_data="statistic", iteration="all")
    return grown(run.dump, tmp_path_factory.mktemp("grown") / "dump", COUNT)


def split(parts):
    names = [f"rank_{rank}" for rank in range(COUNT)]
    return [names[at::parts] for at in range(parts)]


def asked(engine, dump, cache, who):
    """The last line that a program prints which asks a cluster whose workers see `who`; (rank, ranks of its worker)."""
    site = cache / "site"
    site.mkdir()
    begin = "import json, os\nif 'SEES' in os.environ:\n    hide(*json.loads(os.environ['SEES']))\n"
    (site / "sitecustomize.py").write_text(HIDING + begin)
    program = "import concurrent.futures, json, os, sys\nimport sonde\n" + HIDING
    program += textwrap.dedent(SAY.replace("ENGINE", repr(engine)))
    program += textwrap.dedent(DASK if engine == "dask" else RAY)
    notes = cache / "notes"
    notes.touch()
    said, _ = python_says(cache, program, dump, "first_bad", json.dumps(who), notes, site)
    return said, [line.split() for line in notes.read_text().splitlines()]


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(
    "engine", [pytest.param("dask", marks=needs("distributed")), pytest.param("ray", marks=needs("ray"))]
)
def test_a_rank_is_worked_on_where_its_directory_is(dump, tmp_path, engine, workers):
    who = split(workers)
    said, worked = asked(engine, dump, tmp_path, who)
    alone, _ = python_says(tmp_path, "import json, sys, sonde\n" + ALONE, dump)
    assert said == alone
    assert sorted(rank for rank, _ in worked) == sorted(f"rank_{rank}" for rank in range(COUNT))


@pytest.mark.parametrize("engine", [pytest.param("dask", marks=needs("distributed"))])
def test_a_rank_that_no_worker_sees_is_one_line(dump, tmp_path, engine):
    said, _ = asked(engine, dump, tmp_path, [["rank_0", "rank_1"], ["rank_2"]])
    assert said.startswith("refused: rank directory '")
    assert "mount it there" in said


@pytest.mark.parametrize("engine", [pytest.param("dask", marks=needs("distributed"))])
def test_workers_that_see_all_ranks_share_them(dump, tmp_path, engine):
    everything = [f"rank_{rank}" for rank in range(COUNT)]
    said, worked = asked(engine, dump, tmp_path, [everything, everything])
    assert not said.startswith("refused")
    assert len(worked) == COUNT


KILLED = """
    import distributed, signal, threading, time
    from pathlib import Path
    WHO = json.loads(sys.argv[3])

    def kill_one(pid):
        while not any(Path(os.environ["TMPDIR"]).rglob("*.part")):
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)

    if __name__ == "__main__":
        cluster = distributed.LocalCluster(n_workers=len(WHO), threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster) as client:
            client.wait_for_workers(len(WHO))
            os.environ["DASK_SCHEDULER_ADDRESS"] = cluster.scheduler_address
            for worker, ranks in zip(client.nthreads(), WHO):
                client.run(hide, ranks, sys.argv[4], workers=[worker])
            killer = threading.Thread(target=kill_one, args=(list(cluster.workers.values())[0].pid,), daemon=True)
            killer.start()
            say()
            killer.join(1)
            assert not killer.is_alive(), "nothing was killed"
"""


@needs("distributed")
def test_the_ranks_of_a_killed_worker_are_read_by_who_asks(dump, tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "DASK", KILLED)
    said, _ = asked("dask", dump, tmp_path, split(2))
    alone, _ = python_says(tmp_path, "import json, sys, sonde\n" + ALONE, dump)
    assert said == alone
