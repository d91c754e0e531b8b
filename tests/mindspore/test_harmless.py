"""Sonde does not change a bit of a MindSpore program, does not fail it, and leaves no unreadable dump."""

import json
import os
import signal
import subprocess
import time

import dumps
import numpy as np
import pytest
import trees


@pytest.fixture(scope="module")
def bare(case):
    """Ten steps without a configuration, in an environment where Sonde is installed."""
    case = case()
    run = case.run_bare("lenet", 10)
    assert run.status == 0, run.stderr
    assert run.stdout.count("loss ") == 10
    assert run.stdout.count("parameter ") > 10
    return run


def test_without_the_variable_sonde_is_not_there(bare):
    assert not bare.sonde_lines
    assert not bare.dump.exists()


@pytest.mark.parametrize("settings", [{"saved_data": "full"}, {"saved_data": "statistic", "iteration": "2|5"}])
def test_ten_steps_are_bit_identical(case, bare, settings):
    run = case(**settings).run("lenet", 10)
    assert run.status == 0, run.stderr
    assert run.stdout == bare.stdout
    assert len(dumps.steps(run.dump)) == (10 if "iteration" not in settings else 2)


def test_a_refused_configuration_is_reported_and_the_training_goes_on(case, bare):
    run = case(saved_data="statistic", iteration=["all"]).run("lenet", 10)
    assert run.status == 0, run.stderr
    assert run.stdout == bare.stdout
    (line,) = run.sonde_lines
    assert "iteration" in line
    assert not run.dump.exists()


def test_in_an_unknown_mindspore_its_own_dump_goes_on(case):
    case = case(saved_data="tensor")
    native = case.run_native("unknown_mindspore")
    theirs = trees.files(case.dump.rename(case.directory / "native"))
    run = case.run("unknown_mindspore")
    assert run.status == 0, run.stderr
    assert run.stdout == native.stdout
    (line,) = run.sonde_lines
    assert "is not built like those Sonde knows (2.7 to 2.10): it has no _ZN9mindspore14DumpJsonParser8NeedDump" in line
    assert theirs
    assert trees.files(case.dump).keys() == theirs.keys()
    assert not list(case.dump.rglob("journal"))


def test_data_sink_is_refused_by_mindspore_as_without_sonde(case):
    """On a CPU; Model.train in sink mode, which it does not refuse, is in test_native.py."""
    case = case(saved_data="statistic")
    run, native = case.run("sinking", "data_sink"), case.run_bare("sinking", "data_sink")
    assert run.status == native.status == 1
    refusal = native.stderr.splitlines()[-1]
    assert "Data sinking supports" in refusal
    assert refusal in run.stderr.splitlines()
    (line,) = run.sonde_lines
    assert line.startswith("sonde: nothing was recorded: ")


def test_what_was_written_is_readable_after_a_kill(case, sonde):
    case = case(saved_data="full")
    from conftest import HERE, PYTHON

    environment = os.environ | {"MINDSPORE_DUMP_CONFIG": str(case.config)}
    with subprocess.Popen(
        [PYTHON, HERE / "programs" / "lenet.py", "100000"], cwd=case.directory, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        third = dumps.step_directory(case.dump, 2)
        deadline = time.monotonic() + 60
        while not third.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert third.exists()
    said = sonde("stats", case.dump, "--jsonl")
    assert said.status == 3 and "was killed" in said.stderr, said.stderr
    recorded = sum("tensor_file" in json.loads(line) for line in said.stdout.splitlines())
    files = list(case.dump.glob("rank_0/Net/0/*/*.npy"))
    assert len(files) > 100
    for path in files:
        np.load(path)
    assert recorded <= len(files)
    listed = json.loads(sonde("ls", case.dump, "--json").stdout)
    assert [rank["rank"] for rank in listed["ranks"]] == [0]


def test_a_variable_that_comes_too_late_is_reported(case):
    case = case(saved_data="tensor")
    run = case.run_bare("late_variable", case.config)
    assert run.status == 0, run.stderr
    (line,) = run.sonde_lines
    assert "MINDSPORE_DUMP_CONFIG was set after Python had started" in line
    assert list(case.dump.rglob("*.npy"))  # MindSpore's own


def test_a_variable_that_is_set_after_the_import_of_sonde_counts(case):
    case = case(saved_data="statistic")
    run = case.run_bare("late_variable", case.config, "sonde")
    assert run.status == 0, run.stderr
    assert "sonde: recorded 1 ops" in run.stderr
