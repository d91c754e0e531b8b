"""Dumps whose journal is damaged, cut off or gone: every verb gives the true answer, or reports parts that it cannot
read."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import CLI

NOTHING, FINDING, UNREADABLE = 0, 1, 3

# Three dumps of one training with a NaN in its second step, made by one process.
PROGRAM = """
    import json, sys
    import sonde, torch
    from torch import nn

    torch.set_num_threads(1)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x, shift):
            return torch.log(self.fc(x).abs() + shift).square().mean()


    def train():
        torch.manual_seed(0)
        network = Net()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
        for step in range(3):
            optimizer.zero_grad()
            network(torch.randn(2, 4), -9.0 if step == 1 else 1.0).backward()
            optimizer.step()


    for saved_data in ["full", "statistic", "tensor"]:
        settings = {"dump_mode": 0, "path": sys.argv[1] + "/" + saved_data, "net_name": "Net", "iteration": "all",
                    "saved_data": saved_data, "input_output": 0, "kernels": [], "support_device": [0]}
        with open(saved_data + ".json", "w") as file:
            json.dump({"common_dump_settings": settings, "e2e_dump_settings": {"enable": True}}, file)
        sonde.start(saved_data + ".json")
        train()
        sonde.stop()
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("damaged")
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    subprocess.run([sys.executable, "train.py", directory], cwd=directory, check=True, capture_output=True)
    return directory


def run(verb, dump, *more):
    environment = os.environ | {"SONDE_INDEX": "off"}
    return subprocess.run([CLI, verb, dump, *more], capture_output=True, text=True, check=False, env=environment)


def journal_of(dump):
    return dump / "rank_0/.dump_metadata/sonde/journal"


def damaged(dumps, saved_data, tmp_path, change):
    """A copy of that dump with another journal."""
    copy = tmp_path / saved_data
    if not copy.exists():
        shutil.copytree(dumps / saved_data, copy)
    before = journal_of(dumps / saved_data).read_bytes()
    journal = journal_of(copy)
    journal.unlink(missing_ok=True)
    journal.write_bytes(change(before))
    return copy


def flipped(position, bit):
    def change(data):
        changed = bytearray(data)
        changed[position % len(data)] ^= 1 << bit
        return bytes(changed)

    return change


VERBS = {
    "first-bad": [],
    "stats": [],
    "watch": ["--recommended"],
    "ls": [],
    "graph": ["--step", "1"],
    "stomp": [],
}


def first_op(result):
    found = json.loads(result.stdout)["first"]
    return found and found["tensor"]["op_name"]


@pytest.mark.parametrize("saved_data", ["full", "statistic", "tensor"])
def test_a_flipped_bit_never_makes_anything_right(dumps, tmp_path, saved_data):
    size = journal_of(dumps / saved_data).stat().st_size
    truth = {verb: run(verb, dumps / saved_data, *more) for verb, more in VERBS.items()}
    assert truth["first-bad"].returncode == truth["stats"].returncode == truth["watch"].returncode == FINDING
    culprit = first_op(run("first-bad", dumps / saved_data, "--json"))
    assert "log" in culprit
    others = [verb for verb in VERBS if verb != "first-bad"]
    right = 0
    for i in range(24):
        dump = damaged(dumps, saved_data, tmp_path, flipped(size * (2 * i + 1) // 48 + i, i % 8))
        result = run("first-bad", dump, "--json")
        assert result.returncode in (FINDING, UNREADABLE), (i, result)
        assert "warning" in result.stderr
        right += first_op(result) == culprit
        verb = others[i % len(others)]
        result = run(verb, dump, *VERBS[verb])
        is_true = (result.returncode, result.stdout) == (truth[verb].returncode, truth[verb].stdout)
        is_reported = "warning" in result.stderr or "error" in result.stderr
        assert is_true or (result.returncode == UNREADABLE and is_reported), (i, verb, result, truth[verb])
    assert right >= 22  # files and tables show the content of a lost entry, except lines and data flow


@pytest.mark.parametrize("saved_data", ["full", "statistic", "tensor"])
def test_without_a_journal_that_can_be_read_the_answers_are_those_of_files_and_tables(dumps, tmp_path, saved_data):
    size = journal_of(dumps / saved_data).stat().st_size
    deleted = damaged(dumps, saved_data, tmp_path, bytes)
    journal_of(deleted).unlink()
    bare = run("first-bad", deleted, "--json")
    assert bare.returncode == FINDING
    rows = run("stats", deleted)
    assert rows.returncode == FINDING
    changes = {
        "empty": lambda data: b"",
        "noise": lambda data: bytes(range(1, 200)) * 9,
        "header alone": lambda data: data[:16],
        "zeros": lambda data: bytes(len(data)),
    }
    for name, change in changes.items():
        dump = damaged(dumps, saved_data, tmp_path, change)
        result = run("first-bad", dump, "--json")
        assert result.returncode in (FINDING, UNREADABLE), (name, result)
        assert first_op(result) == first_op(bare), name
        assert "journal: " in result.stderr, name
        assert run("stats", dump).stdout == rows.stdout, name
    for part in (0.02, 0.2, 0.5, 0.9):
        dump = damaged(dumps, saved_data, tmp_path, lambda data, part=part: data[: int(size * part)])
        result = run("first-bad", dump, "--json")
        assert result.returncode in (FINDING, UNREADABLE), (part, result)
        assert first_op(result) == first_op(bare), part
        assert "journal: " in result.stderr, part


def test_a_dump_without_a_recorded_step_shows_no_graph_and_does_not_crash(tmp_path):
    own = tmp_path / "rank_0/.dump_metadata/sonde"
    own.mkdir(parents=True)
    (own / "journal").write_bytes(b"")
    for verb, more in VERBS.items():
        result = run(verb, tmp_path, *more)
        shows = verb in ("ls", "stats")  # an empty list is true; "nothing is wrong" would not be
        assert result.returncode == UNREADABLE or (shows and result.returncode == 0), (verb, result)
        assert "the run ended before its first entry" in result.stderr and "nothing wrong" not in result.stdout
    assert "no step was recorded" in run("graph", tmp_path).stderr


def test_a_bad_tensor_that_cannot_be_read_is_never_nothing_wrong(dumps, tmp_path):
    dump = damaged(dumps, "tensor", tmp_path, bytes)
    journal_of(dump).unlink()  # it holds statistics
    for file in (dump / "rank_0/Net/0/1").glob("*.npy"):
        file.unlink()
        file.write_bytes(b"no npy")
    for verb in ("stats", "watch"):
        result = run(verb, dump, *VERBS[verb])
        assert result.returncode == UNREADABLE, (verb, result)
        assert "warning" in result.stderr and "nothing wrong" not in result.stdout


def entries(journal):
    """Offsets at which entries end; the first is the header's end."""
    at, ends = 16, [16]
    while at < len(journal):
        at += 9 + int.from_bytes(journal[at + 4 : at + 8], "little")
        ends.append(at)
    return ends


def tensors_of(dump):
    return sorted(
        (t.op.op_name, t.step, t.side, t.slot, pathlib.Path(t.tensor_file).name) for t in dump.tensors if t.tensor_file
    )


def test_files_that_a_kill_left_outside_the_journal_are_shown_under_their_ops(dumps, tmp_path):
    import sonde

    whole = sonde.open(dumps / "tensor")
    wanted = tensors_of(whole)
    ends = entries(journal_of(dumps / "tensor").read_bytes())
    dump = damaged(dumps, "tensor", tmp_path, lambda data: data[: ends[len(ends) * 2 // 3]])
    cut = sonde.open(dump)
    assert tensors_of(cut) == wanted
    assert any("not entered here" in problem.message for problem in cut.problems)
    result = run("first-bad", dump, "--json")
    assert first_op(result) == first_op(run("first-bad", dumps / "tensor", "--json"))
