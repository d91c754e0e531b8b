"""The verbs give the same answers from a saved index as from the dump, in every layout."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time

import conftest
import pytest

CASES = (
    "mindspore-2.7-full",
    "mindspore-2.0-statistic",
    "mindspore-1.2",
    "mindspore-2.3-async-bin",
    "acl-stats",
    "torchair-all",
)
RECORD = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import golden, golden_cases
for name in sys.argv[3:]:
    directory = pathlib.Path(sys.argv[2]) / name.replace('.', '_')  # a path with dots is none to MindSpore
    directory.mkdir()
    golden.record(golden_cases.CASES[name], directory)
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """A dump of each case, with times an hour ago: an index of a new dump would have to wait."""
    directory = pathlib.Path(str(tmp_path_factory.mktemp("index")).replace(".", ""))
    command = [sys.executable, "-c", RECORD, pathlib.Path(__file__).parent, directory, *CASES]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    then = time.time() - 3600
    for path in directory.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)
    return directory


@pytest.fixture(scope="module")
def journalless(dumps):
    """The same dumps without journals: trees like those of MindSpore and CANN."""
    for journal in dumps.rglob("sonde/journal"):
        moment = journal.parent.stat()
        journal.rename(journal.with_name("kept"))
        os.utime(journal.parent, ns=(moment.st_atime_ns, moment.st_mtime_ns))
    yield dumps
    for kept in dumps.rglob("sonde/kept"):
        kept.rename(kept.with_name("journal"))


def dump_of(dumps, name):
    return dumps / name.replace(".", "_") / "dump"


def said(cache, *arguments, index="auto"):
    environment = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(cache), "SONDE_INDEX": index}
    done = subprocess.run(
        [conftest.CLI, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def questions(dump, cache):
    """All calls of verbs on this dump, with names and steps that it has, and some that it lacks."""
    rows = [json.loads(line) for line in said(cache, "ls", dump, "--ops", "--jsonl", index="off")[1].splitlines()]
    tensors = [json.loads(line) for line in said(cache, "stats", dump, "--jsonl", index="off")[1].splitlines()]
    op, last = rows[0]["op_name"], rows[-1]
    step = str(tensors[-1]["step"])
    asked = [
        ("ls", dump), ("ls", dump, "--step", step, "--json"), ("ls", dump, "--ops", "-s", last["op_type"]),
        ("ls", dump, "--ops"), ("ls", dump, "--ops", "--step", step, "--jsonl"),
        ("ls", dump, "-s", "no_such_op"), ("stats", dump, "--json"), ("graph", dump, "--json"),
        ("first-bad", dump), ("first-bad", dump, "--json"), ("first-bad", dump, "--step", step, "--json"),
        ("show", dump, op), ("show", dump, op + "x"),
        ("show", dump, last["op_name"].rsplit("/", 1)[-1] + ":output.0"),
    ]  # fmt: skip
    files = [pathlib.Path(tensor["tensor_file"]).name for tensor in tensors if "tensor_file" in tensor]
    names = [tensor["parameter"] for tensor in tensors if tensor["parameter"]]
    return asked + [("show", dump, name, "--json") for name in files[:1] + names[:1]]


def compare(dumps, cache, cases):
    for name in cases:
        dump = dump_of(dumps, name)
        asked = questions(dump, cache)
        status, built, complaint = said(cache, "index", dump, "--json")
        assert status == 0, complaint
        file = pathlib.Path(json.loads(built)["file"])
        for question in asked:
            os.utime(file, ns=(0, file.stat().st_mtime_ns))
            expected, found = said(cache, *question, index="off"), said(cache, *question)
            assert found == expected, (name, question)
            assert file.stat().st_atime_ns > 0 or os.statvfs(file).f_flag & os.ST_NOATIME, "the index was not read"


def test_the_verbs_say_the_same_from_an_index(dumps, tmp_path):
    compare(dumps, tmp_path, CASES[:2])


def test_the_verbs_say_the_same_of_trees_without_a_journal(journalless, tmp_path):
    compare(journalless, tmp_path, CASES)


def test_an_index_elsewhere_answers_sql(dumps, tmp_path):
    dump, out = dump_of(dumps, "mindspore-2.7-full"), tmp_path / "x.sqlite"
    status, text, complaint = said(tmp_path, "index", dump, "--out", out)
    assert (status, complaint) == (0, "")
    assert text.startswith(f"{out}\n")
    with sqlite3.connect(f"file:{out}?mode=ro", uri=True) as database:
        wanted = "SELECT op_name, slot, l2norm, tensor_file FROM gradients ORDER BY l2norm DESC"
        rows = database.execute(wanted).fetchall()
        assert rows == sorted(rows, key=lambda row: -row[2])
        assert any("convolution_backward" in name for name, *_ in rows)
        assert all(pathlib.Path(file).is_file() for *_, file in rows)
    assert not (tmp_path / "sonde").exists(), "nothing is kept in the cache"


BAD_STEP = """
import sys, torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        nn.init.constant_(self.fc.weight, -1.0)

    def forward(self, x):
        return self.fc(x).log() if x[0, 0] > 1 else self.fc(x)

import sonde
net = Net()
with sonde.capture(out=sys.argv[1], saved_data="statistic"):
    for step in range(4):
        net(torch.full((2, 4), 8.0 if step == 2 else 1.0)).sum().backward()
"""


@pytest.mark.parametrize("bad", [False, True])
def test_first_bad_says_the_same_of_steps_that_it_need_not_read(tmp_path, bad):
    dump, cache = tmp_path / "dump", tmp_path / "cache"
    program = BAD_STEP if bad else BAD_STEP.replace(".log()", ".exp()")
    subprocess.run([sys.executable, "-c", program, dump], check=True, capture_output=True, cwd=tmp_path)
    then = time.time() - 3600
    for path in [dump, *dump.rglob("*")]:
        os.utime(path, (then, then))
    status, built, complaint = said(cache, "index", dump, "--json")
    assert status == 0, complaint
    with sqlite3.connect(f"file:{json.loads(built)['file']}?immutable=1", uri=True) as database:
        fine = [row for (row,) in database.execute("SELECT is_fine FROM steps ORDER BY step")]
    assert fine == ([1, 1, 0, 1] if bad else [1, 1, 1, 1])
    for question in (("first-bad", dump), ("first-bad", dump, "--json"), ("first-bad", dump, "--step", "3", "--json")):
        found = said(cache, *question)
        assert found == said(cache, *question, index="off")
        assert found[0] == (1 if bad and "3" not in question else 0), found


def test_what_cannot_be_indexed_is_said(dumps, tmp_path):
    status, _, complaint = said(tmp_path, "index", tmp_path)
    assert status == 3 and "found 0 files" in complaint
    status, _, complaint = said(tmp_path, "index", dump_of(dumps, CASES[0]), "--out", "/proc/x")
    assert status == 3 and "/proc" in complaint
