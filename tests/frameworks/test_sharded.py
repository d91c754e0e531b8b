"""sonde first-bad, and sonde compare with one process, of a Llama that transformers or accelerate shard."""

import json
import pathlib
import re

import pytest
from conftest import HERE, PYTHON
from processes import CLI, run_in

HEALTHY = "healthy"
NOT_FINITE = {"log_alone": "log", "division": "div", "infinite": "div_"}
FINITE = {"scaled_alone": "mul", "gradient": "mul", "tripled": "mul_"}
KINDS = ("tp_plan-statistics", "fsdp2-tensors", "tp_plan-tensors", "fsdp2-statistics")
SHORT = 2  # of them


def pytest_generate_tests(metafunc):
    kinds = KINDS[:SHORT] if metafunc.config.getoption("--short") else KINDS
    metafunc.parametrize("dumps", kinds, indirect=True, scope="module")


@pytest.fixture(scope="module")
def dumps(request, tmp_path_factory):
    """The directory of all runs of one training."""
    place = tmp_path_factory.mktemp("sharded", numbered=True)
    command = (PYTHON, HERE / "sharded/record_all.py", *request.param.split("-"), place)
    run = run_in(place, None, *command, "whole", HEALTHY, *NOT_FINITE, *FINITE, timeout=600, HF_HUB_OFFLINE=1)
    assert run.status == 0, run.stderr[-3000:]
    return place


def asked(*command):
    run = run_in(pathlib.Path.cwd(), None, CLI, *command, "--json")
    return run.status, json.loads(run.stdout)["findings"]


def line_of(fault):
    lines = (HERE / "sharded/trainings.py").read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if re.search(rf"# FAULT: {fault}$", line))


def check(answer, fault, op):
    status, findings = answer
    assert status == 1 and findings, (fault, status, len(findings))
    first = findings[0]
    code = first.get("code", first)
    found = (first["step"], first["op_type"], pathlib.Path(code["source_file"]).name, code["source_line"])
    assert found == (1, op, "trainings.py", line_of(fault)), (fault, first["text"])
    assert "uncertain" not in first.get("tags", ()), (fault, first["text"])
    assert first["rank"] == 1 or not fault.endswith("_alone"), (fault, first["text"])


def test_a_healthy_training_is_not_blamed_and_does_not_differ(dumps):
    assert asked("first-bad", dumps / HEALTHY) == (0, [])
    for pair in ((HEALTHY, "whole"), ("whole", HEALTHY), (HEALTHY, HEALTHY)):
        assert asked("compare", *(dumps / name for name in pair)) == (0, []), pair


def test_a_value_that_is_not_finite_is_followed_to_its_rank_and_line(dumps):
    for fault, op in NOT_FINITE.items():
        check(asked("first-bad", dumps / fault), fault, op)


def test_a_difference_from_one_process_is_followed_to_its_rank_and_line(dumps):
    for fault, op in {**NOT_FINITE, **FINITE}.items():
        check(asked("compare", dumps / fault, dumps / "whole"), fault, op)
