"""What every dialect, layout and mode leaves on disk is what tests/golden/ says."""

import pathlib
import sys


def test_trees_and_tables_are_those_of_the_golden_files(execute):
    checked = execute(sys.executable, pathlib.Path(__file__).with_name("golden.py"), "--check")
    assert checked.status == 0, f"{checked.stdout}\n{checked.stderr}\nif it is meant: python tests/python/golden.py"


def test_the_trees_in_the_documentation_are_those_of_the_golden_files(execute):
    checked = execute(sys.executable, pathlib.Path(__file__).with_name("golden_trees.py"), "--check")
    assert checked.status == 0, f"{checked.stderr}\npython tests/python/golden_trees.py makes them anew"
