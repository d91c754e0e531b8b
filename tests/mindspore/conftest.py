"""Runs MindSpore programs in .venv-mindspore as a user does, with Sonde and without; tests read the results."""

import json
import os
import pathlib

import pytest
from processes import CLI, run_in, settings_of

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = pathlib.Path(
    os.environ.get("SONDE_MINDSPORE_PYTHON") or HERE.parents[1] / ".venv-mindspore" / "bin" / "python"
)


def pytest_sessionstart():
    if not PYTHON.exists():
        pytest.exit(f"no Python with MindSpore at '{PYTHON}': scripts/setup --mindspore makes it", returncode=2)


class Case:
    """A directory, a configuration in it, and the runs of programs under it."""

    def __init__(self, directory):
        self.directory = directory
        self.dump = directory / "dump"
        self.config = directory / "data_dump.json"

    def configure(self, sonde_settings=None, e2e=None, **common):
        self.config.write_text(json.dumps(settings_of(self.dump, e2e, sonde_settings, common)))
        return self

    def run(self, program, *arguments, **environment):
        """`MINDSPORE_DUMP_CONFIG=config python program`, where Sonde is installed."""
        return self.run_bare(program, *arguments, MINDSPORE_DUMP_CONFIG=self.config, **environment)

    def run_native(self, program, *arguments):
        """The same, without Sonde."""
        return self.run(program, *arguments, SONDE_OFF=1)

    def run_bare(self, program, *arguments, **environment):
        """Without a configuration."""
        command = PYTHON, HERE / "programs" / f"{program}.py", *arguments
        return run_in(self.directory, self.dump, *command, **environment)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """case(**common): a Case of its own; MindSpore takes seconds to start, so runs are shared within a module."""

    def make(*settings, **common):
        return Case(tmp_path_factory.mktemp("case", numbered=True)).configure(*settings, **common)

    return make


@pytest.fixture(scope="module")
def sonde(tmp_path_factory):
    """sonde(verb, ...): the command as users call it."""
    directory = tmp_path_factory.mktemp("sonde", numbered=True)
    return lambda *arguments: run_in(directory, None, CLI, *arguments)


@pytest.fixture(scope="module")
def rows(sonde):
    """rows(verb, ...): the answer of the command, as JSON objects."""

    def read(*arguments):
        said = sonde(*arguments, "--jsonl")
        assert said.status in (0, 1), said.stderr
        return [json.loads(line) for line in said.stdout.splitlines()]

    return read
