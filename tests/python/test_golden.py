"""What every dialect, layout and mode leaves on disk is what tests/golden/ says."""

import pathlib
import sys


def test_trees_and_tables_are_those_of_the_golden_files(execute):
    checked = execute(sys.executable, pathlib.Path(__file__).with_name("golden.py"), "--check")
    assert checked.status == 0, f"{checked.stdout}\n{checked.stderr}\nif it is meant: python tests/python/golden.py"
