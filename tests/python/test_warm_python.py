"""The forks of the warm interpreter do what an interpreter of their own would, as far as tests rely on it."""

import subprocess
import sys

import pytest
from processes import clean_environment, python

PRINTS_AND_IS_GONE = "import os; print('printed', end=''); os._exit(7)"


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("option", "variable", "printed"), [([], "", ""), (["-u"], "", "printed"), ([], "1", "printed")]
)
def test_output_is_buffered_unless_the_user_says_otherwise(fresh, option, variable, printed):
    environment = clean_environment(**({"PYTHONUNBUFFERED": variable} if variable else {}))
    environment = {name: value for name, value in environment.items() if variable or name != "PYTHONUNBUFFERED"}
    command = [*python(fresh), *option, "-c", PRINTS_AND_IS_GONE]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (7, printed), done.stderr


def test_the_interpreter_of_a_fork_is_this_one():
    done = subprocess.run(
        [*python(fresh=False), "-c", "import sys; print(sys.executable)"],
        check=True,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == sys.executable, done.stderr
