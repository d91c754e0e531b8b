"""The scripts of examples/cluster, on one machine: Slurm's programs are stand-ins, torchrun and Sonde are not."""

import os
import pathlib
import shutil
import subprocess

import pytest
import ranks
from processes import CLI, clean_environment
from rank_work import TRAINING, grown

CLUSTER = pathlib.Path(__file__).parents[2] / "examples/cluster"

PROGRAMS = {
    "srun": '#!/bin/sh\nexec "$@"\n',
    "scontrol": "#!/bin/sh\necho localhost\n",
    "shell": '#!/bin/sh\nshift; exec "$@"\n',  # in the place of ssh
}
ON_RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
net = torch.nn.Linear(4, 2)
for step in range(3):
    loss = net(torch.full((2, 4), float("nan") if step == 1 and dist.get_rank() == 1 else 1.0)).sum()
    loss.backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
    torch.optim.SGD(net.parameters(), lr=0.1).step()
"""


@pytest.fixture
def script(tmp_path):
    """script(name, ...): runs it in tmp_path; its status, output and messages."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o700)

    def run(name, *arguments, **variables):
        path = f"{programs}:{pathlib.Path(CLI).parent}:{os.environ['PATH']}"
        environment = clean_environment(PATH=path, RSYNC_RSH=programs / "shell", HOME=tmp_path, **variables)
        done = subprocess.run(
            [CLUSTER / name, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    two = ranks.run_ranks(directory, TRAINING, saved_data="statistic", iteration="all").dump
    return grown(two, directory / "grown", 7)


def test_jobs_of_an_array_verify_all_ranks_and_their_answer_is_that_of_one_process(dump, script, tmp_path):
    parts = tmp_path / "parts"
    for job in range(3):
        done = script("verify.sbatch", dump, parts, SLURM_ARRAY_TASK_ID=job, SLURM_ARRAY_TASK_COUNT=3)
        assert done == (0, "", "")
    assert len(list(parts.iterdir())) == 7
    alone = subprocess.run([CLI, "verify", dump, "--json"], capture_output=True, text=True, check=False)
    assert script("join.sh", dump, parts, "--json") == (alone.returncode, alone.stdout, "")


def test_a_job_of_a_cluster_asks_with_an_engine(dump, script):
    status, out, error = script("ray_job.sh", "first-bad", dump, "--json", SONDE_ENGINE="local")
    assert (status, error) == (1, "")
    alone = subprocess.run([CLI, "first-bad", dump, "--json"], capture_output=True, text=True, check=False)
    assert out == alone.stdout


@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
@pytest.mark.long
def test_nodes_record_on_their_own_disks_and_their_ranks_come_together(script, tmp_path):
    (tmp_path / "train.py").write_text(ON_RANKS)
    slurm = {"SLURM_JOB_ID": 7, "SLURM_NNODES": 1, "SLURM_JOB_NODELIST": "localhost", "SLURM_SUBMIT_DIR": tmp_path}
    places = {"SONDE_LOCAL": tmp_path / "local", "SONDE_STEPS": "0-2", "GPUS_PER_NODE": 2, "MASTER_PORT": 29765}
    status, out, error = script("record.sbatch", "train.py", **slurm, **places)
    assert status == 1, error
    assert "2 ranks gathered into" in out
    assert "rank 1" in out and "train.py:6" in out
    assert sorted(path.name for path in (tmp_path / "run-7").glob("rank_*")) == ["rank_0", "rank_1"]
