"""`sonde verify` lists complete and missing parts of a dump; `--complete` makes them again from the journal."""

import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import textwrap

import mindspore_tree
import numpy as np
import pytest
from conftest import CLI
from journal_reader import xxh32

NOTHING, FINDING, UNREADABLE = 0, 1, 3

# Dumps of one training in several layouts, made by one process. The second graph differs from step to step.
PROGRAM = """
    import json, sys
    import sonde, torch
    from torch import nn

    torch.set_num_threads(1)


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x, again):
            y = self.fc(x)
            if again:
                y = torch.tanh(y)
            return y.square().mean()


    def train():
        torch.manual_seed(0)
        network = Net()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
        for step in range(3):
            optimizer.zero_grad()
            network(torch.randn(2, 4), step == 1).backward()
            optimizer.step()
            with torch.no_grad():
                network(torch.randn(1, 4), step == 2)


    def record(name, saved_data, layout, common={}, own={}):
        settings = {"dump_mode": 0, "path": sys.argv[1] + "/" + name, "net_name": "Net", "iteration": "all",
                    "saved_data": saved_data, "input_output": 0, "kernels": [], "support_device": [0], **common}
        with open(name + ".json", "w") as file:
            json.dump({"common_dump_settings": settings, "e2e_dump_settings": {"enable": True},
                       "sonde_settings": {"layout": layout, **own}}, file)
        sonde.start(name + ".json")
        train()
        sonde.stop()


    hashed = {"statistic_category": ["max", "min", "avg", "l2norm", "md5"]}
    record("full", "full", "mindspore-2.7")
    record("hashed", "full", "mindspore-2.7", hashed)
    record("statistic", "statistic", "mindspore-2.5")
    record("old", "full", "mindspore-2.0")
    record("oldest", "full", "mindspore-1.2")
    record("ge", "full", "ge")
    record("acl", "tensor", "acl")
    record("graphs", "full", "mindspore-2.7", {"net_name": "graphs"})
    record("execution_order", "statistic", "mindspore-2.7", {"net_name": "execution_order"})
    record("private", "full", "mindspore-2.0", own={"private": True})  # no paths in its copy of the configuration
    record("full", "full", "mindspore-2.7")  # a second run into the same directory
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("verify")
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    subprocess.run([sys.executable, "train.py", directory], cwd=directory, check=True, capture_output=True)
    return directory


@pytest.fixture
def copy(dumps, tmp_path):
    def make(name):
        shutil.copytree(dumps / name, tmp_path / name, symlinks=True)
        return tmp_path / name

    return make


def verify(dump, *more):
    environment = os.environ | {"SONDE_INDEX": "off"}
    command = [CLI, "verify", dump, *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def issues(dump, *more, status=FINDING):
    result = verify(dump, "--json", *more)
    assert result.returncode == status, result
    return [issue for issue in json.loads(result.stdout)["issues"] if issue["is_finding"]]


def tree(directory):
    """Every file with its mode and bytes, except the file that names the recording process."""
    return {
        path.relative_to(directory): (path.stat().st_mode, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def one(dump, pattern):
    return sorted(dump.rglob(pattern))[0]


def overwrite(path, data):
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(mode)


NAMES = ["full", "hashed", "statistic", "old", "oldest", "ge", "private"]


@pytest.mark.parametrize("name", NAMES)
def test_of_a_whole_dump_nothing_is_wrong(dumps, name):
    before = tree(dumps / name)
    result = verify(dumps / name, "--hashes", "--json")
    assert result.returncode == NOTHING, result
    answer = json.loads(result.stdout)
    assert answer["issues"] == []
    assert answer["records"] > 100
    steps = [step for rank in answer["ranks"] for step in rank["steps"]]
    assert len(steps) == (12 if name == "full" else 6)
    assert all(step["ended"] and step["files_missing"] == step["rows_missing"] == 0 for step in steps)
    assert answer["rows"] == sum(step["rows"] for step in steps) > 100
    assert "nothing wrong" in verify(dumps / name).stdout
    assert tree(dumps / name) == before


@pytest.mark.parametrize("name", ["graphs", "execution_order"])
def test_a_net_may_have_the_name_of_a_directory_beside_the_steps(dumps, copy, name):
    whole = json.loads(verify(dumps / name, "--json").stdout)
    assert whole["issues"] == [] and whole["rows"] > 100
    table = one(copy(name), "statistic.csv")
    table.unlink()
    assert {issue["kind"] for issue in issues(table.parents[4])} == {"missing"}


def test_of_a_dump_without_a_journal_the_files_that_are_there_are_looked_at(tmp_path):
    mindspore_tree.write(tmp_path / "dump")
    result = verify(tmp_path / "dump")
    assert (result.returncode, result.stderr) == (NOTHING, "")
    assert "without a journal a file that is missing cannot be noticed" in result.stdout
    file = one(tmp_path / "dump", "*.npy")
    overwrite(file, file.read_bytes()[:-1])
    (issue,) = issues(tmp_path / "dump")
    assert file.name in issue["path"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_made_again_is_byte_for_byte_what_the_run_wrote(copy, name):
    dump = copy(name)
    before = tree(dump)
    gone = [path for path in dump.rglob("*") if path.name in ("execution_order", "graphs")]
    gone += dump.rglob("statistic.csv")
    assert len(gone) > 3
    for path in gone:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert {issue["kind"] for issue in issues(dump)} == {"missing"}
    result = verify(dump, "--complete", "--json")
    assert result.returncode == NOTHING, result
    assert len(json.loads(result.stdout)["made"]) > 10
    assert tree(dump) == before
    again = json.loads(verify(dump, "--complete", "--json").stdout)
    assert again["made"] == again["trimmed"] == again["entered"] == again["kept"] == []
    assert tree(dump) == before


def test_torn_rows_are_found_and_mended(copy):
    dump = copy("full")
    before = tree(dump)
    for pattern in ("statistic.csv", "ms_global_execution_order_graph_0.csv", "steps_graph_1.csv"):
        path = one(dump, pattern)
        overwrite(path, path.read_bytes()[:-2])
    assert "torn" in {issue["kind"] for issue in issues(dump)}
    assert verify(dump, "--complete").returncode == NOTHING
    assert tree(dump) == before


def test_rows_that_the_journal_does_not_have_stay(copy):
    dump = copy("full")
    table = one(dump, "statistic.csv")
    lines = table.read_bytes().splitlines(keepends=True)
    overwrite(table, b"".join([*lines[:-1], lines[-1].replace(b"0,0,1", b"0,0,3"), lines[-1][:20]]))
    result = verify(dump, "--complete", "--json")
    assert result.returncode == FINDING
    assert json.loads(result.stdout)["kept"] == [str(table)]
    assert table.read_bytes() == b"".join([*lines[:-1], lines[-1].replace(b"0,0,1", b"0,0,3")])


def spoil_value(dump):
    path = one(dump, "*fc-Linear_linear-op0*output.0*.npy")
    values = np.load(path)
    values.flat[0] += 1e-4
    data = path.read_bytes()
    overwrite(path, data[: len(data) - values.nbytes] + values.tobytes())


def drop_row(dump):
    path = one(dump, "statistic.csv")
    overwrite(path, b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def flip_journal(dump):
    path = one(dump, "journal")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    overwrite(path, bytes(data))


def leave_half_a_file(dump):
    place = one(dump, "journal").parent / "partial/12345"
    place.mkdir(parents=True)
    (place / "0").write_bytes(b"half")


def enter_no_file(dump):
    directory = one(dump, "*.npy").parent
    name = "relu.Default_relu-op7.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy"
    np.save(directory / name, np.zeros(3, "f4"))


DAMAGE = {
    "a tensor file is gone": (lambda dump: one(dump, "*.npy").unlink(), "missing", []),
    "a tensor file is cut off": (
        lambda dump: overwrite(one(dump, "*.npy"), one(dump, "*.npy").read_bytes()[:-1]),
        "damaged",
        [],
    ),
    "a tensor file holds another shape": (
        lambda dump: overwrite(one(dump, "*mean*.npy"), one(dump, "*linear*input.1*.npy").read_bytes()),
        "damaged",
        [],
    ),
    "a value has changed": (spoil_value, "damaged", ["--hashes"]),
    "a row is gone": (drop_row, "missing", []),
    "a graph is gone": (lambda dump: one(dump, "*.pb").unlink(), "missing", []),
    "a graph of one step is gone": (lambda dump: one(dump, "step_1/*.ir").unlink(), "missing", []),
    "a history is gone": (lambda dump: one(dump, "ms_global*_0.csv").unlink(), "missing", []),
    "an order is gone": (lambda dump: one(dump, "ms_execution_order_graph_1.csv").unlink(), "missing", []),
    "a table is not a table": (lambda dump: overwrite(one(dump, "statistic.csv"), b"\0\1\2\n"), "damaged", []),
    "the journal is damaged": (flip_journal, "damaged", []),
    "a killed run left half a file": (leave_half_a_file, "leftover", []),
    "others may write a file": (lambda dump: one(dump, "*.npy").chmod(0o666), "permission", []),
    "others may write a directory": (lambda dump: one(dump, "*.npy").parent.chmod(0o777), "permission", []),
    "a file is not in the journal": (enter_no_file, "unentered", []),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_wrong_is_found(copy, case):
    change, kind, options = DAMAGE[case]
    dump = copy("hashed")
    if case == "a file is not in the journal":  # only a run that did not end leaves such a file
        cut_end(dump)
        assert issues(dump, status=NOTHING) == []
    change(dump)
    found = issues(dump, *options)
    assert kind in {issue["kind"] for issue in found}, found
    text = verify(dump, *options)
    assert text.returncode == FINDING and f"{kind}: " in text.stdout and "nothing wrong" not in text.stdout


def entries(journal):
    at, ends = 16, [16]
    while at < len(journal):
        at += 9 + int.from_bytes(journal[at + 4 : at + 8], "little")
        ends.append(at)
    return ends


def cut_end(dump, part=1.0):
    """The journal after a kill: without its end, or cut off after a part of its entries."""
    journal = one(dump, "journal")
    data = journal.read_bytes()
    ends = entries(data)
    overwrite(journal, data[: ends[int((len(ends) - 2) * part)]])


def test_files_that_a_kill_left_outside_the_journal_are_entered(copy):
    import sonde

    dump = copy("hashed")

    def shown():
        opened = sonde.open(dump)
        return sorted(
            (t.op.op_name, t.side, t.slot, pathlib.Path(t.tensor_file).name) for t in opened.tensors if t.tensor_file
        )

    whole = shown()
    cut_end(dump, 0.6)
    assert "unentered" in {issue["kind"] for issue in issues(dump)}
    tensors = {path: path.read_bytes() for path in dump.rglob("*.npy")}
    entered = json.loads(verify(dump, "--complete", "--json").stdout)["entered"]
    assert len(entered) > 20
    assert shown() == whole
    assert {path: path.read_bytes() for path in dump.rglob("*.npy")} == tensors
    assert [problem for problem in sonde.open(dump).problems if "not entered" in problem.message] == []
    journal = one(dump, "journal").read_bytes()
    again = json.loads(verify(dump, "--complete", "--json").stdout)
    assert again["entered"] == [] and one(dump, "journal").read_bytes() == journal


def record_entry(kind, sequence, note=""):
    """A record of step 0 without op and tensors."""
    payload = bytes([kind, 0]) + sequence + bytes(6) + bytes([len(note)]) + note.encode() + bytes(2)
    rest = struct.pack("<IB", len(payload), 4) + payload
    return struct.pack("<I", xxh32(rest)) + rest


def test_files_of_a_run_whose_journal_has_nothing_but_why_it_stopped_are_entered(copy, sonde):
    dump = copy("hashed")
    journal = one(dump, "journal")
    data = journal.read_bytes()
    note = record_entry(4, b"\xff" * 9 + b"\x01", "recording stopped: file too large")  # notes have no number
    overwrite(journal, data[: entries(data)[1]] + record_entry(2, b"\0") + note)
    for table in dump.rglob("statistic.csv"):  # its rows would come after their records
        table.unlink()
    assert {issue["kind"] for issue in issues(dump)} == {"unentered"}
    assert "stopped: file too large" in sonde("ls", dump).stdout
    (unfinished,) = json.loads(sonde("first-bad", dump, "--json").stdout)["unfinished"]
    assert unfinished["state"] == "stopped"
    assert issues(dump, "--complete", status=NOTHING) == []


def test_constants_of_a_run_that_ended_before_its_first_op_are_entered(copy):
    import sonde

    dump = copy("old")
    (constants,) = (dump / "rank_0" / "Net" / "0").glob("constants")
    for part in ["Net", "graphs", "execution_order"]:
        for path in (dump / "rank_0" / part).glob("**/*"):
            if path.is_file() and path.parent != constants:
                path.unlink()
    (constants / "statistic.csv").unlink()  # its rows would come after their records
    journal = one(dump, "journal")
    data = journal.read_bytes()
    overwrite(journal, data[: entries(data)[1]] + record_entry(2, b"\0"))
    (tensor,) = sonde.open(dump).tensors
    assert pathlib.Path(tensor.tensor_file) == one(constants, "*.npy")
    assert {issue["kind"] for issue in issues(dump)} == {"unentered"}
    assert len(json.loads(verify(dump, "--complete", "--json").stdout)["entered"]) == 1
    assert issues(dump, status=NOTHING) == []


@pytest.mark.parametrize("form", ["empty", "5 bytes", "16 bytes", "100 bytes", "with files"])
def test_a_run_that_ended_before_its_first_entry_lost_nothing(copy, form):
    dump = copy("full")
    left = int(form.split()[0]) if form[0].isdigit() else 0
    journal = one(dump, "journal")
    overwrite(journal, journal.read_bytes()[:left])
    (one(dump, "partial") / "4711").mkdir()
    if form == "with files":  # an entry was there before each of them
        assert "damaged" in {issue["kind"] for issue in issues(dump)}
        return
    for path in (dump / "rank_0").iterdir():
        if path.name != ".dump_metadata":
            shutil.rmtree(path)
    is_torn = left not in (0, 16)  # 16: a header
    assert [issue["kind"] for issue in issues(dump)] == is_torn * ["torn"] + ["leftover"]
    assert issues(dump, "--complete", status=NOTHING) == []
    assert issues(dump, status=NOTHING) == []
    assert subprocess.run([CLI, "ls", dump], capture_output=True, check=False).returncode == 0


def test_a_dump_that_is_being_recorded_is_not_completed(copy):
    dump = copy("full")
    before = tree(dump)
    with one(dump, "owner").open() as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        result = verify(dump, "--complete")
        assert result.returncode == UNREADABLE and "a run is recording there" in result.stderr
        assert tree(dump) == before
        assert "recording" in verify(dump).stdout
    assert verify(dump, "--complete").returncode == NOTHING


def test_nothing_is_made_behind_a_link_that_leads_out_of_the_dump(copy, tmp_path):
    dump = copy("full")
    outside = tmp_path / "outside"
    outside.mkdir()
    graphs = dump / "rank_0/graphs"
    shutil.rmtree(graphs)
    graphs.symlink_to(outside)
    result = verify(dump, "--complete")
    assert result.returncode == FINDING and "symbolic link" in result.stderr
    assert list(outside.iterdir()) == []


def test_nothing_is_removed_behind_a_link_in_the_place_of_leftovers(copy, tmp_path):
    dump = copy("full")
    victim = tmp_path / "victim"
    (victim / "7").mkdir(parents=True)
    (victim / "7/kept").write_text("kept")
    partial = dump / "rank_0/.dump_metadata/sonde/partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.symlink_to(victim)
    result = verify(dump, "--complete")
    assert "symbolic link" in result.stderr
    assert (victim / "7/kept").read_text() == "kept" and sorted(victim.iterdir()) == [victim / "7"]


def test_what_an_unfinished_completion_left_is_removed(copy):
    dump = copy("full")
    left = dump / "rank_0/.dump_metadata/sonde/partial/4242"
    (left / "tree/rank_0/Net").mkdir(parents=True)
    (left / "tree/rank_0/Net/statistic.csv").write_text("half")
    (left / "17").write_text("half")
    assert "leftover" in {issue["kind"] for issue in json.loads(verify(dump, "--json").stdout)["issues"]}
    assert verify(dump, "--complete").returncode == NOTHING
    assert not left.exists()


def test_completing_reads_no_file_that_the_journal_names_but_programs(train, config, dump, tmp_path):
    run = train(
        """
        import torch

        with open("half.cfg", "w") as file:
            file.write("def half(y):\\n    return y / 2\\n")
        with open("half.cfg") as file:
            exec(compile(file.read(), "half.cfg", "exec"))
        print(half(torch.ones(2)))
        """,
        config=config(),
    )
    assert run.status == 0 and "recorded" in run.stderr, run.stderr
    (tmp_path / "half.cfg").write_text("password = TOP-SECRET\n" * 9)
    graphs = one(dump, "graphs")
    assert one(graphs, "half.cfg").read_text().startswith("def half")
    shutil.rmtree(graphs)
    environment = os.environ | {"SONDE_INDEX": "off"}
    command = [CLI, "verify", dump, "--complete"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert done.returncode == NOTHING, done
    assert one(graphs, "train.py").read_text() == (tmp_path / "train.py").read_text()
    assert not [path for path in dump.rglob("*") if path.is_file() and b"TOP-SECRET" in path.read_bytes()]


def kept_tensors(dump):
    """(operator, side, slot, step) of every tensor with values."""
    import sonde

    tensors = sonde.open(dump).tensors
    return sorted((t.op.op_name, t.side, t.slot, t.op.graph, t.op.step) for t in tensors if t.tensor_file)


@pytest.mark.parametrize("part", [0.1, 0.35, 0.6, 0.8, 0.95])
def test_containers_that_a_kill_left_outside_the_journal_are_named_and_entered(copy, part):
    """Those of operators outside modules have no step in their path."""
    dump = copy("acl")
    whole = kept_tensors(dump)
    cut_end(dump, part)
    files = {path for path in dump.rglob("*") if path.is_file() and ".dump_metadata" not in path.parts}
    assert "unentered" in {issue["kind"] for issue in issues(dump)}
    assert len(kept_tensors(dump)) == len(whole)
    assert json.loads(verify(dump, "--complete", "--json").stdout)["entered"]
    assert len(kept_tensors(dump)) == len(whole)
    assert issues(dump, status=NOTHING) == []
    assert {path for path in dump.rglob("*") if path.is_file() and ".dump_metadata" not in path.parts} == files
    moved = set(kept_tensors(dump)) ^ set(whole)
    assert len(moved) <= len(whole) / 10, sorted(moved)
