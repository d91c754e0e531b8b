"""The short form of tests/kills/run.py: a training that dies at any moment loses no written data."""

import pathlib
import subprocess
import sys

import disks


def test_nothing_that_was_written_is_lost_however_a_training_ends():
    program = pathlib.Path(__file__).parents[1] / "kills/run.py"
    command = [sys.executable, program, "--kills", "8", "--seed", "1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=disks.environment())
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("8 kills (")
