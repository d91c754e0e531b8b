"""The short form of the bench of planted faults: the true operator and line, or no finding if there is no fault."""

import importlib
import json
import pathlib
import sys
from types import SimpleNamespace

import pytest
from processes import CLI, run_in

SCORE = pathlib.Path(__file__).parents[1] / "faults" / "score.py"
RIGHT = {"non_finite": "first", "differs": "first", "healthy": "clean", "rounding": "clean"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    directory = tmp_path_factory.mktemp("faults")
    run = run_in(directory, None, sys.executable, SCORE, "--short", "--json", timeout=600, SONDE_CLI=CLI)
    return json.loads(run.stdout)["results"]


@pytest.mark.parametrize("evidence", ["tensors", "statistics", "overflow"])
def test_the_answer_to_every_program_is_right(results, evidence):
    of_evidence = [result for result in results if result["evidence"] == evidence]
    wrong = [result for result in of_evidence if result["outcome"] != RIGHT[result["kind"]]]
    assert not wrong, "\n".join(f"{r['case']}: {r['outcome']}: {r['said']}" for r in wrong)


def test_the_short_form_has_a_program_of_each_family_that_is_right_with_tensors(results):
    families = {result["family"] for result in results if result["outcome"] == RIGHT[result["kind"]]}
    families_of_faults = {"domain errors", "overflow", "reductions", "normalisations", "losses", "optimizers"}
    assert families >= families_of_faults | {"healthy", "reports"}


@pytest.mark.parametrize(
    ("finding", "outcome"),
    [
        ({}, "first"),
        ({"why": "its inputs are finite and its result is not"}, "unexplained"),
        ({"why": "infinity", "kind": "overflow"}, "first"),
        ({"op_type": "sub"}, "wrong"),
        ({"op_type": "sub", "tags": ["uncertain"]}, "doubted"),
    ],
)
def test_the_first_answer_has_operator_line_and_cause(monkeypatch, finding, outcome):
    monkeypatch.syspath_prepend(str(SCORE.parent))
    judge = importlib.import_module("judge")
    case = SimpleNamespace(
        kind="non_finite",
        places={("x.py", 7)},
        ops=("log",),
        verdicts=(),
        causes=("log of 0", "overflow"),
    )
    code = {"source_file": "b/x.py", "source_line": 7}
    first = {"op_type": "log", "code": code, "kind": "operator", "why": "log of 0: input.0 = 0"} | finding
    answer = SimpleNamespace(status=1, report={}, findings=[first])
    assert judge.outcome(case, answer) == outcome
