"""A disk that is full or fails (full_disk.c): training goes on, one line gives the reason, written files stay."""

import dataclasses
import json
import subprocess
import sys
import textwrap

import disks
import pytest
import readers
from processes import CLI, settings_of

FULL, FAILING = "no space left on device", "input/output error"


@dataclasses.dataclass
class Case:
    saved_data: str
    cause: str
    limits: dict
    files: int = 0  # the least number of files that were complete before
    named: str = ""


CASES = {
    "tensors on a full disk": Case("tensor", FULL, {"bytes": 300_000}, 50),
    "tensors on a failing disk": Case("tensor", FAILING, {"writes": 60}, 40),
    "both on a full disk": Case("full", FULL, {"bytes": 400_000}, 50),
    "both on a failing disk": Case("full", FAILING, {"writes": 100}, 60),
    "statistics on a full disk": Case("statistic", FULL, {"bytes": 60_000}),
    "statistics on a failing disk": Case("statistic", FAILING, {"writes": 20}),
    "tensors, full when closed": Case("tensor", FULL, {"bytes": 300_000, "late": True}, 50),
    "both, failing when closed": Case("full", FAILING, {"writes": 60, "late": True}, 40),
    # In its steps only tables are closed: the first and the last have graphs.
    "tables, full when closed": Case("statistic", FULL, {"bytes": 120_000, "late": True}, named="statistic.csv"),
    "nothing fits": Case("full", FULL, {"bytes": 0}),
    "nothing but the start fits": Case("full", FULL, {"bytes": 5000}),
    "nothing works": Case("full", FAILING, {"writes": 0}),
    "the third write fails": Case("full", FAILING, {"writes": 2}),
}

# Every case in a fork: the program's own output, in files beside its configuration. The first is without Sonde.
PROGRAM = """
    import json, os, sys
    import disks, sonde, torch

    torch.set_num_threads(1)


    def train():
        torch.manual_seed(0)
        net = torch.nn.Linear(300, 30)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        for step in range(8):
            optimizer.zero_grad()
            loss = net(torch.randn(50, 300)).relu().square().sum()
            loss.backward()
            optimizer.step()
            print(loss.item(), flush=True)


    def run(name, limits):
        for descriptor, end in ((1, ".out"), (2, ".err")):
            os.dup2(os.open(name + end, os.O_WRONLY | os.O_CREAT), descriptor)
        if limits is None:
            return train()
        disks.spoil(name, **limits)
        sonde.start(name + ".json")
        train()
        sonde.stop()


    for name, limits in json.loads(sys.argv[1]).items():
        child = os.fork()
        if child == 0:
            run(name, limits)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, name
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    directory = tmp_path_factory.mktemp("full", numbered=True)
    limits = {"bare": None}
    for number, case in enumerate(CASES.values()):
        dump = directory / f"dump{number}"
        settings = settings_of(dump, None, None, {"saved_data": case.saved_data})
        dump.with_suffix(".json").write_text(json.dumps(settings))
        limits[str(dump)] = case.limits
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "train.py", json.dumps(limits)]
    subprocess.run(command, cwd=directory, env=disks.environment(), check=True)
    return directory


@pytest.fixture(params=CASES)
def case(request, recorded):
    """A case, and its dump."""
    return CASES[request.param], recorded / f"dump{list(CASES).index(request.param)}"


def test_the_training_goes_on_and_one_line_names_the_cause(case, recorded):
    case, dump = case
    assert dump.with_suffix(".out").read_text() == (recorded / "bare.out").read_text()
    said = dump.with_suffix(".err").read_text()
    lines = said.splitlines()
    assert [line for line in lines if case.cause in line] == [lines[0]], said
    assert lines[0].startswith("sonde: cannot ") and f"'{dump}/" in lines[0], said
    assert case.named in lines[0]
    assert lines[1].startswith("sonde: recorded ") or "nothing was recorded: it could not be written" in lines[1], said
    assert len(lines) == 2, said
    assert "missing" in lines[1] or "nothing " in lines[1], said
    assert " 0.0 MB could not" not in said


def test_what_was_written_before_is_shown_by_every_reader_and_completed(case):
    case, dump = case
    if not list(dump.rglob("journal")):
        assert not list(dump.rglob("*.npy"))
        return
    files, _, _ = readers.check(dump)
    assert files >= case.files


def test_first_bad_does_not_call_what_is_missing_fine(case):
    _, dump = case
    if list(dump.rglob("journal")):
        answer = subprocess.run([CLI, "first-bad", dump], capture_output=True, text=True, check=False)
        # Where not even the reason could be written, the run looks like one that was killed.
        assert answer.returncode == 3, answer.stdout
        assert "nothing wrong" not in answer.stdout
        assert "The recording " in answer.stdout or "nothing found in the part" in answer.stdout
