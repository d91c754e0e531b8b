"""Runs the package mindstudio-probe, which holds CANN's msaccucmp and msprobe, in .venv-probe."""

import json
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / ".venv-probe"
READY = ENVIRONMENT / ".stamp-requirements"

needs_probe = pytest.mark.skipif(not READY.exists(), reason=f"no {ENVIRONMENT}; run scripts/setup --probe")


class Done:
    """A finished command: its status and its log."""

    def __init__(self, status, log):
        self.status, self.log = status, log


def run_program(name, *arguments, directory, **environment):
    """`python name.py arguments` in .venv-probe; returns its output."""
    done = subprocess.run(
        [ENVIRONMENT / "bin" / "python", HERE / f"{name}.py", *map(str, arguments)],
        cwd=directory,
        env={**os.environ, **{key: str(value) for key, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def original(commands, directory):
    """The results of the original msaccucmp for these lists of arguments, in one process: a Done for each."""
    path = directory / "commands.json"
    path.write_text(json.dumps([[str(argument) for argument in command] for command in commands]))
    return [Done(*each) for each in json.loads(run_program("probe_commands", path, directory=directory))]


def ours(command):
    """`sonde msaccucmp` with these arguments."""
    done = subprocess.run(
        ["sonde", "msaccucmp", *map(str, command)], capture_output=True, text=True, timeout=120, check=False
    )
    return Done(done.returncode, done.stderr)
