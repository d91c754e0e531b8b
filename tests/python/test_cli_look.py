"""`sonde ls`, `stats` and `show`, as users see them: a real training's dump, and dumps like MindSpore's."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from conftest import CLI, SMALL_TRAINING

FINITE, FINDING, BAD_USAGE, UNREADABLE = 0, 1, 2, 3


def sonde(*arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "SONDE_CONFIG")}
    return subprocess.run(
        [CLI, *map(str, arguments)], env=kept | environment, capture_output=True, text=True, timeout=60, check=False
    )


def rows(*arguments):
    """The answer of a verb as one dictionary per line."""
    result = sonde(*arguments, "--jsonl")
    assert result.returncode in (FINITE, FINDING), result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def train(directory, saved_data):
    (directory / "train.py").write_text(textwrap.dedent(SMALL_TRAINING))
    settings = {
        "dump_mode": 0,
        "path": str(directory / "dump"),
        "net_name": "Net",
        "iteration": "0|2",
        "saved_data": saved_data,
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    config = directory / "data_dump.json"
    config.write_text(json.dumps({"common_dump_settings": settings, "e2e_dump_settings": {"enable": True}}))
    environment = os.environ | {"MINDSPORE_DUMP_CONFIG": str(config)}
    subprocess.run([sys.executable, directory / "train.py"], env=environment, check=True, capture_output=True)
    return directory / "dump"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A dump with tensors and statistics."""
    return train(tmp_path_factory.mktemp("trained"), "full")


@pytest.fixture(scope="module")
def tensors_only(tmp_path_factory):
    return train(tmp_path_factory.mktemp("tensors"), "tensor")


@pytest.fixture
def foreign(tmp_path):
    """A tree like MindSpore's, with a NaN in one of its tensors."""
    step = tmp_path / "rank_0/Net/0/5"
    step.mkdir(parents=True)

    def write(name, array):
        np.save(step / name, array)

    write("ReLU.Default_ReLU-op0.0.0.1001.input.0.DefaultFormat.Float32.npy", np.float32([[1, -2], [3, 0]]))
    write("ReLU.Default_ReLU-op0.0.0.1002.output.0.DefaultFormat.Float32.npy", np.float32([[1, 0], [np.nan, 0]]))
    write("Cast.Default_Cast-op0.0.0.1003.output.0.DefaultFormat.Float64.npy", np.float64([np.inf, 1e300]))
    return tmp_path


# --- ls


def test_ls_lists_the_dump(trained):
    result = sonde("ls", trained)
    assert result.returncode == FINITE, result.stderr
    assert "finished" in result.stdout
    assert "torch 2.13" in result.stdout
    title, line = result.stdout.split("\n\n")[1].splitlines()
    assert title.split()[:4] == ["rank", "run", "graph", "steps"]
    assert line.split()[:5] == ["0", "0", "0", "0,", "2"]


def test_ls_counts_what_is_on_disk(trained):
    (rank,) = json.loads(sonde("ls", trained, "--json").stdout)["ranks"]
    (run,) = rank["runs"]
    assert run["finished"] is True
    files = list(trained.glob("rank_0/Net/0/*/*.npy"))
    assert sum(step["files"] for step in rank["steps"]) == len(files)
    inodes = {file.stat().st_ino: file.stat().st_size for file in files}
    assert sum(step["bytes"] for step in rank["steps"]) == sum(inodes.values())
    assert [step["step"] for step in rank["steps"]] == [0, 2]


def test_ls_ops_lists_each_op_once_with_its_line(trained):
    ops = {op["op_name"]: op for op in rows("ls", trained, "--ops", "--step", "0")}
    conv = ops["Default/network-Small/conv-Conv2d/conv2d-op0"]
    assert (conv["op_type"], conv["phase"], conv["times"], conv["outputs"]) == ("conv2d", "forward", 1, 1)
    lines = textwrap.dedent(SMALL_TRAINING).splitlines()
    assert "self.conv(x)" in lines[conv["source_line"] - 1]
    order = (trained / "rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().splitlines()[1:]
    assert [name for name in ops if not ops[name]["is_parameter"]] == order


def test_ls_selects_by_type_scope_and_step(trained):
    names = [op["op_name"] for op in rows("ls", trained, "--ops", "-s", "conv2d", "-s", "**/fc-Linear/*")]
    assert any(name.endswith("/conv2d-op0") for name in names)
    assert any("/fc-Linear/" in name for name in names)
    assert not any("/relu" in name for name in names)
    (op,) = rows("ls", trained, "--ops", "-s", "conv2d", "--step", "2")
    assert op["times"] == 1


def test_ls_of_one_step_directory_shows_that_step(trained):
    (rank,) = json.loads(sonde("ls", trained / "rank_0/Net/0/2", "--json").stdout)["ranks"]
    assert [step["step"] for step in rank["steps"]] == [2]


# --- stats


def test_stats_are_numpys(trained):
    checked = 0
    for row in rows("stats", trained):
        array = np.load(row["tensor_file"]).astype(np.float64)
        assert row["shape"] == list(array.shape)
        assert row["count"] == array.size
        assert row["max"] == array.max()
        assert row["min"] == array.min()
        assert row["avg"] == pytest.approx(array.mean(), rel=1e-12, abs=1e-300)
        assert row["l2norm"] == pytest.approx(np.linalg.norm(array.ravel()), rel=1e-12)
        assert row["zero_count"] == (array == 0).sum()
        checked += 1
    assert checked > 100


def test_stats_of_tensors_alone_are_computed_from_them(tensors_only):
    found = rows("stats", tensors_only, "--step", "0")
    for row in found:
        assert row["max"] == np.load(row["tensor_file"]).max()
    assert len(found) > 50


def test_stats_show_parameters_and_gradients_by_name(trained):
    found = rows("stats", trained, "--step", "2")
    parameters = {row["op_name"] for row in found if row["is_parameter"]}
    assert {"conv.weight", "fc.bias", "conv.weight.grad"} <= parameters
    conv = [row for row in found if row["op_type"] == "conv2d"]
    assert "conv.weight" in [row["parameter"] for row in conv]


def test_stats_table_has_a_line_per_slot(trained):
    result = sonde("stats", trained, "-s", "conv2d", "--step", "0")
    assert result.returncode == FINITE, result.stderr
    title, *lines = result.stdout.splitlines()
    assert title.split() == [
        "op",
        "slot",
        "name",
        "dtype",
        "shape",
        "max",
        "min",
        "avg",
        "l2norm",
        "nan",
        "inf",
        "line",
    ]
    assert [line.split()[1] for line in lines] == ["input.0", "input.1", "input.2", "output.0"]
    assert all("train.py:" in line for line in lines)


def test_stats_answer_with_one_when_something_is_not_finite(foreign):
    result = sonde("stats", foreign)
    assert result.returncode == FINDING
    assert "2 of 3 tensors hold NaN or infinity" in result.stderr
    by_slot = {(row["op_name"], row["side"]): row for row in rows("stats", foreign)}
    relu = by_slot["Default_ReLU-op0", "output"]
    assert (relu["nan_count"], relu["max"], relu["shape"]) == (1, "nan", [2, 2])
    assert by_slot["Default_Cast-op0", "output"]["max"] == "inf"
    assert sonde("stats", foreign, "-s", "Cast").returncode == FINDING


def test_stats_of_what_is_finite_answer_with_zero(foreign):
    (foreign / "rank_0/Net/0/5/ReLU.Default_ReLU-op0.0.0.1002.output.0.DefaultFormat.Float32.npy").unlink()
    assert sonde("stats", foreign, "-s", "ReLU").returncode == FINITE


def test_one_bad_file_does_not_hide_the_others(foreign):
    bad = foreign / "rank_0/Net/0/5/Mul.Default_Mul-op0.0.0.1000.output.0.DefaultFormat.Float32.npy"
    bad.write_bytes(b"\x93NUMPY\x01\x00")
    result = sonde("stats", foreign)
    assert result.returncode == UNREADABLE
    assert bad.name in result.stderr
    assert "Default_ReLU-op0" in result.stdout


def test_a_csv_of_mindspore_is_read_with_its_files(foreign):
    (foreign / "rank_0/Net/0/5/statistic.csv").write_text(
        "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value\n"
        'Cast,Default/Cast-op0,0,0,1003,output,0,16,float64,"(2)",inf,-nan\n'
    )
    (row,) = rows("stats", foreign, "-s", "Cast")
    assert (row["op_name"], row["max"], row["min"]) == ("Default/Cast-op0", "inf", "nan")
    assert "avg" not in row


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_tables_fit_the_terminal(trained, columns):
    for verb in (["stats", trained], ["ls", trained, "--ops"]):
        for line in sonde(*verb, COLUMNS=str(columns)).stdout.splitlines():
            assert len(line) <= columns


# --- show


def test_show_shows_all_about_a_tensor(trained):
    result = sonde("show", trained, "conv-Conv2d/conv2d-op0:output.0", "--step", "2")
    assert result.returncode == FINITE, result.stderr
    text = result.stdout
    assert text.startswith("Default/network-Small/conv-Conv2d/conv2d-op0:output.0\n")
    for part in ("rank 0, graph 0, step 2", "(2,4,6,6) float32", "train.py:", "batch_norm-op0:input.0", "█"):
        assert part in text
    (row,) = [r for r in rows("stats", trained, "-s", "conv2d", "--step", "2") if r["side"] == "output"]
    assert f"{np.load(row['tensor_file'])[0, 0, 0, 0]:g}" in text


def test_show_json_holds_corner_and_histogram(trained):
    shown = json.loads(sonde("show", trained, "conv.weight", "--json").stdout)
    array = np.load(shown["tensor_file"])
    assert shown["shape"] == [4, 1, 3, 3]
    assert [[float(cell) for cell in row] for row in shown["corner"]] == pytest.approx(array[0, 0], rel=1e-5)
    counts, edges = np.histogram(array, bins=len(shown["histogram_counts"]))
    assert sum(shown["histogram_counts"]) == array.size
    assert shown["histogram_edges"] == pytest.approx(edges)
    assert np.abs(np.array(shown["histogram_counts"]) - counts).sum() <= 2  # an element may lie on an edge
    assert any("conv2d-op0:input.1" in reader for reader in shown["read_by"])


def test_show_names_who_wrote_an_input(trained):
    shown = json.loads(sonde("show", trained, "batch_norm-op0:input.0", "--json").stdout)
    assert shown["written_by"] == "Default/network-Small/conv-Conv2d/conv2d-op0:output.0"


def test_an_op_of_a_later_step_is_found_too(trained):
    first, later = ({row["op_name"] for row in rows("ls", trained, "--ops", "--step", step)} for step in ("0", "2"))
    name = min(later - first)  # SGD multiplies its momentum from the second step on
    result = sonde("show", trained, f"{name}:output.77")
    assert result.returncode == BAD_USAGE
    assert "does not have this slot; it has input.0" in result.stderr
    assert sonde("show", trained, name).returncode == FINITE


def test_show_takes_a_file_inside_a_dump_or_alone(trained, tmp_path):
    (row,) = [r for r in rows("stats", trained, "-s", "conv2d", "--step", "0") if r["side"] == "output"]
    assert "conv2d-op0:output.0" in sonde("show", trained, row["tensor_file"]).stdout
    np.save(tmp_path / "mine.npy", np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)))
    alone = json.loads(sonde("show", tmp_path / "mine.npy", "--json").stdout)
    assert alone["corner"] == [["0", "1", "2"], ["3", "4", "5"]]


def test_show_says_when_values_were_not_kept(tmp_path):
    dump = train(tmp_path, "statistic")
    result = sonde("show", dump, "conv2d-op0")
    assert result.returncode == FINITE
    assert "values were not recorded" in result.stdout


# --- typing errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stats", "DUMP", "-s", "conv2"], "no op 'conv2'; nearest: conv2d"),
        (["show", "DUMP", "conv2d-op00"], "no op or tensor 'conv2d-op00'; nearest: conv2d, conv2d-op0"),
        (["show", "DUMP", "conv2d-op0:output.3"], "it has input.0, input.1, input.2, output.0"),
        (["show", "DUMP"], "TENSOR is missing"),
        (["stats", "DUMP", "--step", "9"], "no step 9; there is 0, 2"),
        (["stats", "DUMP", "--step", "one"], "names no steps"),
        (["ls", "DUMP", "--graph", "3"], "no graph 3; there is 0"),
        (["ls", "DUMP", "--rank", "4"], "no rank 4; there is 0"),
        (["sats", "DUMP"], "unknown verb 'sats'; did you mean 'stats'?"),
        (["stats", "DUMP", "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
        (["stats", "--selct=x"], "unknown option '--selct'; did you mean '--select'?"),
        (["stats"], "DUMP is required"),
    ],
)
def test_mistakes_are_named_with_what_was_meant(trained, arguments, said):
    result = sonde(*[trained if argument == "DUMP" else argument for argument in arguments])
    assert result.returncode == BAD_USAGE
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("verb", ["ls", "stats", "show"])
def test_what_is_no_dump_is_said_to_be_none(verb, tmp_path):
    (tmp_path / "todo.txt").write_text("buy milk")
    more = ["conv2d"] if verb == "show" else []
    for path, said in (
        (tmp_path, "expected rank_N"),
        (tmp_path / "nowhere", "no such directory"),
        (tmp_path / "todo.txt", "it is a file"),
    ):
        result = sonde(verb, path, *more)
        assert result.returncode == UNREADABLE
        assert said in result.stderr
        assert str(path) in result.stderr


def test_a_torn_journal_is_read_to_its_last_whole_entry(trained, tmp_path):
    journal = trained / "rank_0/.dump_metadata/sonde/journal"
    torn = tmp_path / "rank_0/.dump_metadata/sonde/journal"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(journal.read_bytes()[:-200])
    result = sonde("ls", tmp_path)
    assert result.returncode == FINITE
    assert "the last entry breaks off" in result.stderr
    assert "not finished" in result.stdout


def test_names_in_a_dump_cannot_command_the_terminal(tmp_path):
    step = tmp_path / "rank_0/Net/0/0"
    step.mkdir(parents=True)
    np.save(step / "ReLU.x\x1b]0;owned\x07.0.0.1.output.0.DefaultFormat.Float32.npy", np.float32([1]))
    result = sonde("stats", tmp_path)
    assert result.returncode == FINITE
    assert "\x1b" not in result.stdout


# --- how it behaves


def test_every_verb_has_help_with_exit_status_and_example():
    verbs = re.findall(r"^  ([\w-]+)", sonde("--help").stdout.split("Subcommands:")[1], re.MULTILINE)
    assert {"ls", "stats", "show"} <= set(verbs)
    for verb in set(verbs) - {"msaccucmp"}:  # it answers as the original does
        result = sonde(verb, "--help")
        assert result.returncode == 0
        assert "Exit status" in result.stdout, verb
        assert "Example: sonde " + verb in result.stdout, verb


def test_the_version_is_printed():
    assert sonde("--version").stdout.startswith("sonde 0.")


def test_a_closed_pipe_is_silent(trained):
    with subprocess.Popen(
        [CLI, "stats", trained, "--jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_full_disk_is_not(trained):
    with open("/dev/full", "w") as full:
        result = subprocess.run([CLI, "ls", trained], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == UNREADABLE
    assert "cannot write to standard output" in result.stderr


def test_nothing_but_the_answer_is_on_stdout_of_a_terminal(trained):
    reader, terminal = pty.openpty()
    with subprocess.Popen([CLI, "ls", trained, "--json"], stdout=subprocess.PIPE, stderr=terminal) as process:
        answer = process.stdout.read()
    os.close(terminal)
    os.close(reader)
    json.loads(answer)


def in_slow_motion(command, stderr, runs):
    """The process runs for `runs` seconds, rests for a second, and so on: work of some milliseconds takes seconds."""
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=stderr) as process:
        while process.poll() is None:
            time.sleep(runs)
            process.send_signal(signal.SIGSTOP)
            time.sleep(1.1)
            process.send_signal(signal.SIGCONT)


def on_a_terminal(command, runs):
    """The text on its standard error, a terminal, in slow motion."""
    reader, terminal = pty.openpty()
    try:
        in_slow_motion(command, terminal, runs)
    finally:
        os.close(terminal)
    parts = []
    with (
        open(reader, "rb", buffering=0) as text,
        contextlib.suppress(OSError),
    ):  # it arrives in parts; its end is an error
        while part := text.read(1 << 16):
            parts.append(part)
    return b"".join(parts).decode()


def test_long_work_is_said_on_a_terminal_and_nowhere_else(trained, tmp_path):
    for command, runs, work in (
        ([CLI, "compare", trained, trained], 0.004, r"comparing step \d of \d,|comparing…|reading the dump…"),
        ([CLI, "report", trained, "--html", tmp_path / "a.html"], 0.02, "looking for the first bad value…|writing .*…"),
    ):
        # Its end may come before a rest does, and on a busy machine this process may wait where the other runs.
        for _ in range(20):
            (tmp_path / "a.html").unlink(missing_ok=True)
            said = on_a_terminal(command, runs)
            if said:
                break
        assert re.search(rf"\r({work}) \d+ s\033\[K", said), (command, said)
        assert said.endswith("\r\033[K") or "\n" in said.rpartition("\r\033[K")[2], said
    (tmp_path / "a.html").unlink()
    with open(tmp_path / "errors", "w+b") as errors:
        in_slow_motion([CLI, "report", trained, "--html", tmp_path / "a.html"], errors, 0.02)
        errors.seek(0)
        assert errors.read() == b""


# --- colours


def test_colours_are_for_terminals_and_for_those_who_ask(trained):
    plain = sonde("first-bad", trained)
    painted = sonde("--color=always", "first-bad", trained)
    assert "\033[" not in plain.stdout and "\033[1;" in painted.stdout
    assert re.sub("\033\\[[0-9;]*m", "", painted.stdout) == plain.stdout
    assert sonde("first-bad", trained, "--color", "always").stdout == painted.stdout
    assert sonde("first-bad", trained, "--color=never").stdout == plain.stdout
    for found, arguments in (("blue", ["--color=blue"]), ("blue", ["--color", "blue"]), ("", ["--color"])):
        wrong = sonde("first-bad", trained, *arguments)
        assert wrong.returncode == 2 and f"--color is auto, always, never; found '{found}'" in wrong.stderr
    assert "--colour" in sonde("first-bad", trained, "--colour=always").stderr


def test_a_line_has_the_colour_of_what_it_is(trained):
    def first_colour(*arguments):
        plain = sonde(*arguments).stdout
        painted = sonde("--color=always", *arguments).stdout
        assert "\001" not in plain and re.sub("\033\\[[0-9;]*m", "", painted) == plain
        return re.search("\033\\[([0-9;]*)m(.*)", painted)

    compared = first_colour("compare", trained, trained)
    assert compared[1] == "1;32" and compared[2].startswith("no difference")
    looked = first_colour("first-bad", trained)
    assert looked[1] == "1;32" and looked[2].startswith("nothing wrong")
    code = first_colour("graph", trained, "**/conv2d-op0", "--step", 0)
    assert code[1] == "1" and re.match(r"  > +\d+ \| ", code[2])


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_no_table_cuts_a_number(trained, columns):
    table = sonde("ls", trained, COLUMNS=str(columns)).stdout.split("\n\n")[1]
    assert "rank" in table and not re.search(r"\d…|…\d", table), table
