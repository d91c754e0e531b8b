"""Which processes of a program are recorded: every one that runs a model, however it was started, and no other."""

import json
import re
import sys
import textwrap

import dumps
import pytest

from sonde import console

pytestmark = pytest.mark.cold

TRAIN = """
import multiprocessing, os, sys, threading, torch
from concurrent.futures import ProcessPoolExecutor
from torch import nn

def train(steps=2, rate=0.1):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    for step in range(steps):
        optimizer.zero_grad()
        loss = network(torch.ones(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
    print("loss", loss.item(), flush=True)

def run(method, target, *arguments):
    process = multiprocessing.get_context(method).Process(target=target, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0, process.exitcode
"""


def ranks_of(dump):
    return sorted(path.name for path in dump.iterdir())


def ops_of(dump, rank):
    return [(row["Op Name"], row["L2Norm Value"]) for row in dumps.statistics(dump, 1, rank=rank)]


FORKS = (
    TRAIN
    + """
def prepare():
    rows = torch.randn(200, 4)
    for row in rows:  # more operators than a program without a model may run before they count
        nn.functional.relu(row * 2 + 1).sum()
    nn.Dropout(0.5)(rows)

def fork():
    child = os.fork()
    if child == 0:
        train()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0

def bare():
    weight = torch.ones(4, requires_grad=True)
    for step in range(2):
        weight.square().sum().backward()
    print("loss", 0, flush=True)

if __name__ == "__main__":
    train()
    run("fork", prepare)
    run("fork", train)
    fork()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        pool.submit(train).result()
    run("fork", run, "fork", train)  # the one between them runs no model
    run("fork", bare)
"""
)


def test_children_with_a_model_are_recorded_each_in_its_own_directory(sonde, script, dump):
    done = sonde("run", "--out", dump, "--", sys.executable, script(FORKS))
    assert done.status == 0, done.stderr
    assert len(set(done.stdout.splitlines()[:5])) == 1 and done.stdout.count("loss") == 6, done.stdout
    assert ranks_of(dump) == [f"rank_{rank}" for rank in range(6)], done.stderr
    for rank in range(1, 5):
        assert ops_of(dump, rank) == ops_of(dump, 0)
    lines = [line for line in done.stderr.splitlines() if line.startswith("sonde: recorded")]
    assert len(lines) == 6 and all("(process " in line for line in lines), done.stderr
    assert done.stderr.count("belongs to another process of rank 0") == 5


METHODS = (
    TRAIN
    + """
if __name__ == "__main__":
    rows = torch.randn(20, 4).mean()
    run("spawn", train)
    run("forkserver", train)
"""
)


@pytest.mark.long
def test_a_parent_that_only_starts_them_is_not_recorded_itself(sonde, script, dump):
    done = sonde("run", "--out", dump, "--", sys.executable, script(METHODS))
    assert done.status == 0, done.stderr
    assert ranks_of(dump) == ["rank_0", "rank_1"], done.stderr
    assert ops_of(dump, 0) == ops_of(dump, 1)
    assert "nothing was recorded: this process ran no model; those that it started are recorded" in done.stderr


SPAWN = """
import os, signal, sys, time, torch
import torch.distributed as dist
from torch import nn

def train(rank, meet):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
    torch.manual_seed(0)
    network = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        network(torch.ones(3, 4) * (rank + 1)).square().mean().backward()
        if rank == 1 and step == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
    time.sleep(0.1)  # gloo's thread must free the last collective before the group goes, or both wait for ever
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, args=(sys.argv[1],), nprocs=2, start_method=sys.argv[3])
"""


@pytest.mark.long
def test_a_program_of_a_library_is_recorded_only_if_it_runs_a_model(sonde, script, dump, tmp_path):
    package = tmp_path / "site-packages" / "engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import torch\nTABLE = torch.ones(4) * 2\n")
    (package / "look.py").write_text("print('looked')\n")
    (package / "work.py").write_text(TRAIN + "\ntrain()\n")
    source = """
    import subprocess
    for module in ("engine.look", "engine.work"):
        subprocess.run([sys.executable, "-m", module], check=True)
    train()
    """
    program = script(TRAIN + textwrap.dedent(source))
    done = sonde("run", "--out", dump, "--", sys.executable, program, PYTHONPATH=package.parent)
    assert done.stdout.split()[0] == "looked"
    assert ranks_of(dump) == ["rank_0", "rank_1"], done.stderr
    for rank in (0, 1):
        assert len(ops_of(dump, rank)) > 4
    assert not [line for line in done.sonde_lines if "nothing was recorded" in line]


def test_ranks_of_torch_multiprocessing_spawn_are_recorded(sonde, script, dump, tmp_path):
    done = sonde("run", "--out", dump, "--", sys.executable, script(SPAWN), tmp_path / "meet", "-1", "spawn")
    assert done.status == 0, done.stderr
    assert ranks_of(dump) == ["rank_0", "rank_1"], done.stderr
    for rank in (0, 1):
        assert dumps.steps(dump, rank=rank) == [0, 1, 2]
        assert any("allreduce_" in name for name, _ in ops_of(dump, rank))
        assert f"rank_{rank} (rank {rank})" in done.stderr
    assert "NaN or infinity" not in done.stderr and "ended without closing" not in done.stderr


def test_a_rank_that_dies_is_named_and_what_it_wrote_is_readable(sonde, script, dump, tmp_path):
    done = sonde("run", "--out", dump, "--", sys.executable, script(SPAWN), tmp_path / "meet", "1", "fork")
    assert done.status != 0
    (ended,) = [line for line in done.stderr.splitlines() if line.startswith("sonde: rank 1 ended without closing")]
    # A kill comes at any time; operators may be there whose statistics are not yet.
    wrote = (
        r"the dump \(a kill, os\._exit, Pool\.terminate\(\)\): it wrote (?:no operator|(\d+) operators? in (\d) step)"
    )
    said = re.search(wrote, ended)
    assert said, ended
    ranks = json.loads(sonde("ls", dump, "--json").stdout)["ranks"]
    steps = [step for rank in ranks if rank["rank"] == 1 for step in rank["steps"]]
    assert [int(number or 0) for number in said.groups()] == [sum(step["ops"] for step in steps), len(steps)]
    unfinished = json.loads(sonde("first-bad", dump, "--json").stdout)["unfinished"]
    assert 1 in [entry["rank"] for entry in unfinished]


FORKED_WHILE_RECORDING = (
    TRAIN
    + """
def go_on(network):
    while not done.is_set():
        network(torch.ones(3, 4)).square().mean().backward()

if __name__ == "__main__":
    train(1)  # what PyTorch imports with the first step is imported here
    done = threading.Event()
    thread = threading.Thread(target=go_on, args=(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)),))
    thread.start()
    for i in range(12):
        run("fork", train, 1)
    done.set()
    thread.join()
"""
)


@pytest.mark.long
def test_a_fork_while_another_thread_records_blocks_nobody(sonde, script, dump):
    done = sonde("run", "--out", dump, "--", sys.executable, script(FORKED_WHILE_RECORDING))
    assert done.status == 0 and done.stdout.count("loss") == 13, done.stderr
    assert len(ranks_of(dump)) == 13


def test_every_local_rank_is_recorded_without_a_configuration(sonde, script, dump, config):
    ninth = {"RANK": 8, "LOCAL_RANK": 8, "WORLD_SIZE": 9}
    done = sonde("run", "--out", dump, "--", sys.executable, script(TRAIN + "train()"), **ninth)
    assert ranks_of(dump) == ["rank_8"], done.stderr
    file = config(support_device=[0, 1, 3])
    checked = sonde("check", file, "--local-ranks", "5")
    assert "local ranks: 3 of 5 record; not 2, 4, support_device does not list them" in checked.stdout
    assert (
        "local ranks: all 2 record" in json.loads(sonde("check", file, "--local-ranks", "2", "--json").stdout)["plan"]
    )


@pytest.mark.parametrize(
    ("variables", "launched"),
    [
        ({}, (0, 0, 1)),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "SLURM_PROCID": "1"}, (3, 1, 4)),
        ({"RANK_ID": "2", "RANK_SIZE": "8"}, (2, 0, 8)),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8"}, (5, 1, 8)),
        ({"PMI_RANK": "1", "MPI_LOCALRANKID": "1", "PMI_SIZE": "2"}, (1, 1, 2)),
        ({"SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8"}, (6, 2, 8)),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "8"}, (0, 0, 1)),  # a batch script, without srun
    ],
)
def test_launchers_say_the_rank(monkeypatch, variables, launched):
    for row in console._LAUNCHERS:
        for name in row:
            monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert console.launched_rank() == launched
