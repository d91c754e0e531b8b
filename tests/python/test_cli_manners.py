"""The command around its verbs: help, completion, widths, suggestions, and words that fit the exit status."""

import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import CLI, SMALL_TRAINING
from processes import python, run_in, settings_of

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Dumps with tensors, with statistics written by `run` under an odd name, and with tensors alone."""
    directory = tmp_path_factory.mktemp("manners")
    (directory / "train.py").write_text(textwrap.dedent(SMALL_TRAINING))
    config = directory / "config.json"
    config.write_text(json.dumps(settings_of(directory / "full", None, None, {"saved_data": "full"})))
    assert run_in(directory, None, sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config).status == 0
    odd = directory / "a b.c/run 7.1"
    run = run_in(directory, None, CLI, "run", "--out", odd, "--", *python(), "train.py")
    assert run.status == 0, run.stderr
    alone = directory / "alone"
    shutil.copytree(directory / "full", alone)
    shutil.rmtree(alone / "rank_0/.dump_metadata")
    shutil.rmtree(alone / "rank_0/graphs")
    for table in alone.rglob("statistic.csv"):
        table.unlink()
    nothing = directory / "empty/rank_0/Net/0/0/statistic.csv"  # a run that selected no op
    nothing.parent.mkdir(parents=True)
    nothing.write_text("Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value\n")
    return directory


@pytest.fixture(scope="module")
def ask(place):
    return lambda *arguments, **environment: run_in(place, None, CLI, *arguments, **environment)


def verbs(ask):
    return re.findall(r"^  ([\w-]+)", ask("--help").stdout.split("Subcommands:")[1], re.MULTILINE)


def test_help_of_a_verb_is_the_verbs_help(ask):
    assert ask("help").stdout == ask("--help").stdout
    for verb in verbs(ask):
        if verb != "msaccucmp":
            assert ask("help", verb).stdout == ask(verb, "--help").stdout != "", verb
    assert ask("help", "sats").status == 2
    assert "did you mean 'stats'?" in ask("help", "sats").stderr
    assert ask("-V").stdout == ask("--version").stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_learns_all_verbs_and_options(ask, shell, tmp_path):
    script = ask("completion", shell)
    assert script.status == 0
    for verb in verbs(ask):
        assert re.search(rf"\b{verb}\b", script.stdout), verb
    for option in ("select", "trend", "next-config", "junit", "color"):
        assert option in script.stdout
    if shutil.which(shell):
        path = tmp_path / "completion"
        path.write_text(script.stdout)
        checked = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes(ask, tmp_path):
    (tmp_path / "completion").write_text(ask("completion", "bash").stdout)

    def completed(*words):
        program = (
            f"source {tmp_path}/completion; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _sonde; "
            'echo "${COMPREPLY[@]}"'
        )
        return subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert "stats" in completed("sonde", "st")
    assert completed("sonde", "stats", "--se") == ["--select"]
    assert completed("sonde", "help", "firs") == ["first-bad"]
    assert completed("sonde", "completion", "z") == ["zsh"]


def test_what_is_like_nothing_suggests_nothing(ask):
    for arguments in (["stats", "full", "-s", "frobnicate"], ["frobnicate"], ["stats", "--frobnicate"]):
        said = ask(*arguments)
        assert said.status == 2
        assert "nearest" not in said.stderr and "did you mean" not in said.stderr, said.stderr
    assert "nearest: conv2d" in ask("stats", "full", "-s", "conv2").stderr


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_every_table_fits_the_terminal(ask, columns):
    for arguments in (
        ["ls", "full"], ["ls", "full", "--ops"], ["stats", "full"], ["graph", "full"],
        ["compare", "full", "full", "--all"],
        ["watch", "full", "--recommended"], ["watch", "full", "-c", "tensor_too_large:max_gt=0"], ["watch", "--list"],
        ["show", "full", "conv.weight", "--trend", "max,min,avg,l2norm,nan_count,zero_count"],
    ):  # fmt: skip
        answer = ask(*arguments, COLUMNS=columns)
        table = [line for line in answer.stdout.splitlines() if "  " in line.strip()]
        if arguments[0] == "show":
            table = answer.stdout.split("\ntrend\n")[1].splitlines()
        if arguments[0] == "compare":
            table = answer.stdout.split("\n\n")[-1].splitlines()
        if arguments[:2] == ["ls", "full"] and len(arguments) == 2:
            table = answer.stdout.split("\n\n")[-1].splitlines()
        assert table, arguments
        assert max(map(len, table)) <= columns, (arguments, max(table, key=len))


def test_a_dump_may_lie_anywhere(ask, place):
    odd = place / "a b.c/run 7.1"
    (rank,) = json.loads(ask("ls", odd, "--json").stdout)["ranks"]
    assert [step["step"] for step in rank["steps"]] == [0, 1, 2]


def test_what_was_written_counts_the_tables_too(ask, place):
    odd = place / "a b.c/run 7.1"
    (rank,) = json.loads(ask("ls", odd, "--json").stdout)["ranks"]
    tables = [table.read_bytes() for table in odd.rglob("statistic.csv")]
    rows = sum(len(table) - table.index(b"\n") - 1 for table in tables)
    assert rank["runs"][0]["bytes_written"] == rows > 1000
    assert "wrote 0 B" not in ask("ls", odd).stdout


def test_nothing_is_said_to_be_right_that_was_not_looked_at(ask, place):
    for verb in ("first-bad", "watch"):
        run = ask(verb, "empty", *(["--recommended"] if verb == "watch" else []))
        assert run.status == 3, (verb, run.stdout, run.stderr)
        assert "nothing wrong" not in run.stdout + run.stderr
    torn = place / "torn"
    shutil.copytree(place / "alone", torn)
    # Integers need not be read: they hold no NaN and no infinity.
    next(torn.rglob("*.output.0.*.Float32.npy")).write_bytes(b"\x93NUMPY\x01\x00")
    run = ask("first-bad", torn)
    assert run.status == 3
    assert "nothing wrong" not in run.stdout + run.stderr


def test_show_says_which_of_several_steps_it_shows(ask):
    assert "3 steps have it; showing rank 0, graph 0, step 0" in ask("show", "full", "conv2d-op0:output.0").stderr
    assert ask("show", "full", "conv2d-op0:output.0", "--step", "1").stderr == ""


def test_an_output_comes_from_its_own_op_alone(ask):
    shown = ask("show", "full", "conv2d-op0:output.0", "--step", "0").stdout
    assert "comes from" not in shown
    read = ask("show", "full", "batch_norm-op0:input.0", "--step", "0").stdout
    assert re.search(r"comes from +\S*conv2d-op0:output\.0", read)


def test_a_table_of_statistics_is_read_as_the_guide_says(place):
    guide = (pathlib.Path(__file__).parents[2] / "docs/guide.md").read_text()
    call = re.search(r"`(pandas\.read_csv\(path, [^`]*\))`", guide)[1]
    pandas = pytest.importorskip("pandas")
    path = next((place / "full").rglob("statistic.csv"))
    table = eval(call, {"pandas": pandas, "path": path})
    assert set(table["IO"]) == {"input", "output"}
    assert table["Op Name"].str.contains("conv2d-op0").any()
    comma = io.StringIO("Op Name,IO,Max Value\nDefault/conv2d-op0,output,1,\n")  # as rows of 2.5 and 2.7 may end
    assert list(eval(call, {"pandas": pandas, "path": comma})["IO"]) == ["output"]


PARTLY_RECORDED = """
    import torch

    x = torch.ones(2, 3)
    y = x.to_sparse()  # left out, with the reason
    z = (y.to_dense() * 2).sum()
    w = torch.ones(3, device="meta") * 2
"""


def test_all_faces_count_the_same_tensors(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(PARTLY_RECORDED) + "import sonde\nsonde.step()\n")
    config = tmp_path / "config.json"
    settings = settings_of(tmp_path / "dump", None, {"step": "manual"}, {"saved_data": "full"})
    config.write_text(json.dumps(settings))
    run = run_in(tmp_path, None, sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
    announced = int(re.search(r"(\d+) tensors of", run.stderr)[1])
    (rank,) = json.loads(run_in(tmp_path, None, CLI, "ls", "dump", "--json").stdout)["ranks"]
    looked = json.loads(run_in(tmp_path, None, CLI, "first-bad", "dump", "--json").stdout)["looked_at"]
    index = json.loads(run_in(tmp_path, None, CLI, "index", "dump", "--out", "i.sqlite", "--json").stdout)
    rows = run_in(tmp_path, None, CLI, "stats", "dump", "--jsonl").stdout.splitlines()
    program = "import sonde; t = sonde.open('dump').tensors; print(len(t.recorded), len(t))"
    recorded, every = map(int, run_in(tmp_path, None, sys.executable, "-c", program).stdout.split())
    assert every > recorded == announced == sum(step["tensors"] for step in rank["steps"]) == looked["tensors"]
    assert index["tensors"] == announced
    assert sum("max" in json.loads(row) for row in rows) == announced
