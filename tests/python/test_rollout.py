"""examples/rollout: a serving engine beside the trainer, healthy and with each of its faults."""

import pathlib
import re

import pytest
from processes import CLI

ROLLOUT = pathlib.Path(__file__).parents[2] / "examples" / "rollout"
PYTHON = ROLLOUT.parents[1] / ".venv-frameworks" / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason=f"no {PYTHON}; run scripts/setup --frameworks")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    import subprocess

    folder = tmp_path_factory.mktemp("rollout") / "llama"
    subprocess.run([PYTHON, ROLLOUT / "make_weights.py", folder], check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture
def compared(execute, weights, tmp_path):
    """Runs the engine, and the trainer on what it answered; returns what the trainer and `sonde compare` said."""

    def run(*options):
        programs = (("engine", *options), ("trainer",))
        for name, *arguments in programs:
            program = (PYTHON, ROLLOUT / f"{name}.py", weights, tmp_path / "rollout.json", *arguments)
            recorded = ("--out", tmp_path / name, "--saved-data", "tensor")
            done = execute(CLI, "run", *recorded, "--", *program)
            assert done.status == 0, done.stderr
        return done.stdout, execute(CLI, "compare", tmp_path / "engine", tmp_path / "trainer")

    return run


def largest_difference(printed):
    return float(re.search(r"^largest difference: (\S+)", printed, re.M)[1])


def test_a_serving_engine_and_the_trainer_give_the_same_tokens_the_same_probabilities(compared):
    printed, answer = compared()
    rows = [line.split() for line in printed.splitlines() if re.match(r"[a-d] ", line)]
    assert len(rows) == 18
    assert largest_difference(printed) < 1e-5
    assert answer.status == 0, answer.stdout
    assert answer.stdout.startswith("no difference that rounding does not explain\n")


@pytest.mark.parametrize(
    ("plant", "named"),
    [
        ("weights", r"step 0 .*parameter layers\.1\.mlp\.gate_up_proj\.weight.*up_proj\.weight was not carried over"),
        pytest.param(
            "positions",
            r"step 0 .*gives position 6 to the token of row 0, which is number 5 of its sequence",
            marks=pytest.mark.long,
        ),
        ("cache", r"step 3 .*slice .*gives an attention of one sequence rows of golden sequence 1 beside those of 2"),
    ],
)
def test_a_fault_of_the_engine_is_named_where_it_begins(compared, plant, named):
    printed, answer = compared("--plant", plant)
    assert largest_difference(printed) > 0.01
    assert answer.status == 1, answer.stdout
    first = " ".join(answer.stdout.split("\n  source")[0].split())
    assert re.match(rf"first difference( \(uncertain\))?: {named}", first), first
