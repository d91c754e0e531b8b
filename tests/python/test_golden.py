"""The files of every dialect, layout and mode are those of tests/golden/."""

import difflib
import pathlib
import sys

import golden_cases
import pytest
from processes import run_in

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def produced(tmp_path_factory):
    """The texts of all cases, from new runs in one process."""
    directory = tmp_path_factory.mktemp("golden", numbered=True)
    program = pathlib.Path(__file__).with_name("golden.py")
    run = run_in(directory, directory, sys.executable, program, "--into", directory, timeout=280)
    assert run.status == 0, run.stderr
    return directory


@pytest.mark.parametrize("case", golden_cases.CASES)
def test_trees_values_and_tables_are_those_of_the_golden_file(case, produced):
    known = (GOLDEN / f"{case}.txt").read_text().splitlines()
    now = (produced / f"{case}.txt").read_text().splitlines()
    difference = "\n".join(difflib.unified_diff(known, now, "golden", "now", lineterm=""))
    assert not difference, f"{difference}\nif it is meant: python tests/python/golden.py {case}"


def test_every_golden_file_belongs_to_a_case():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(golden_cases.CASES)


def test_the_trees_in_the_documentation_are_those_of_the_golden_files(execute):
    checked = execute(sys.executable, pathlib.Path(__file__).with_name("golden_trees.py"), "--check")
    assert checked.status == 0, f"{checked.stderr}\npython tests/python/golden_trees.py makes them anew"
