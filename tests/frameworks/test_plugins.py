"""Plug-ins for trainers: a planted NaN is in the trainer's log, with operator, line and the trainer's number of the
step; a healthy training is "nothing wrong"; the bits are those of a bare one.

torchtitan, verl, Ray and trackers are not in .venv-frameworks: their tests run if SONDE_PLUGIN_HOSTS names directories
with them.
"""

import functools
import json
import os
import pathlib
import re

import pytest
from conftest import PYTHON
from processes import run_in

PROGRAMS = pathlib.Path(__file__).resolve().parent / "plugins"
LINE = 1 + next(n for n, text in enumerate((PROGRAMS / "common.py").read_text().splitlines()) if "planted" in text)
HOSTS = os.environ.get("SONDE_PLUGIN_HOSTS", "")
# The program, the number of its bad step, and the beginning of its trainer's line.
CASES = {
    "trainer": (2, r"\[transformers\] sonde"),
    "fit": (2, "sonde"),
    "accelerator": (3, r"WARNING:accelerate\.sonde:sonde"),
    "loop": (12, "sonde"),
    "titan": (7, r"\[titan\] .* WARNING - sonde"),
    "rlhf": (2, "WARNING:.*global step 7: sonde"),
    "rays": (2, r".*\(Trains pid=\d+\).* sonde"),
}
NEEDS = {"titan": "torchtitan", "rlhf": "verl", "rays": "ray"}


def need(package):
    if not any((pathlib.Path(place) / package).is_dir() for place in HOSTS.split(os.pathsep) if place):
        pytest.skip(f"no {package} in SONDE_PLUGIN_HOSTS")


def execute(program, directory):
    """(facts of each run, its log): bare and recorded with the bad row, both without it"""
    if program in NEEDS:
        need(NEEDS[program])
    run = python(program, directory)
    log = run.stdout if program == "titan" else run.stderr  # torchtitan logs to stdout
    return json.loads(run.stdout.splitlines()[-1]), log.split("--- end of run\n")


@functools.cache
def python(program, directory, *arguments):
    paths = [str(PROGRAMS), *filter(None, [os.environ.get("PYTHONPATH"), HOSTS])]
    run = run_in(
        directory,
        directory,
        PYTHON,
        PROGRAMS / f"{program}.py",
        directory / program,
        *arguments,
        PYTHONPATH=os.pathsep.join(paths),
        HF_HUB_OFFLINE=1,
        VERL_USE_EXTERNAL_MODULES="sonde.plugins.verl",
        RAY_AUTH_MODE="disabled",
        WANDB_MODE="offline",
        MLFLOW_ALLOW_FILE_STORE="true",
    )
    assert run.status == 0, run.stderr[-3000:]
    return run


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("plugins")


@pytest.mark.parametrize("program", CASES)
def test_the_trainers_log_names_operator_line_and_step_and_the_bits_are_the_same(program, directory):
    step, begin = CASES[program]
    (bare_bad, bad, bare, good), (*of_bare, of_good, _) = execute(program, directory)
    assert (bad[:-1], good[:-1]) == (bare_bad[:-1], bare[:-1])
    assert good[0] != bad[0]
    of_bad = of_bare.pop(1)
    finding = rf"^{begin}: first bad: \S*/log-op0 \(\S*common\.py:{LINE}\), step {step}: log of a negative number"
    assert len(re.findall(finding, of_bad, re.MULTILINE)) == 1, of_bad
    assert "sonde: nothing wrong: no NaN" in of_good
    assert "sonde: " not in "".join(of_bare) and "nothing wrong" not in of_bad and "first bad" not in of_good


def test_the_history_of_transformers_and_on_alert_get_the_finding(directory):
    (_, bad, _, good), _ = execute("trainer", directory)
    lines = [line.partition(" (")[0] for line in bad[-1]]
    assert lines == ["sonde: first bad: Default/network-Small/log-op0", "alert: log in step 2"]
    assert len(good[-1]) == 1 and "nothing wrong" in good[-1][0]


def test_a_schedule_records_its_steps_under_the_numbers_of_the_loop(directory):
    (*_, good), _ = execute("loop", directory)
    assert good[-1][1:] == ["11", "12", "13"]


@pytest.mark.parametrize("tracker", ["tensorboard", "tensorboard-of-the-program", "wandb", "mlflow"])
def test_the_finding_is_where_the_other_numbers_of_the_training_are(tracker, directory):
    need(tracker.partition("-")[0])
    place = directory / tracker
    place.mkdir()
    run = python("trackers", place, tracker)
    assert run.stdout.splitlines()[-1].endswith("found"), run.stdout + run.stderr
