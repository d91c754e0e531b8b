"""Runs programs of public libraries in .venv-frameworks, bare and recorded; tests read the results."""

import json
import os
import pathlib
import time

import pytest
from findings import Pair
from processes import run_in, settings_of

HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / ".venv-frameworks"
PYTHON = pathlib.Path(os.environ.get("SONDE_FRAMEWORKS_PYTHON") or ENVIRONMENT / "bin" / "python")


def pytest_addoption(parser):
    parser.addoption("--short", action="store_true", help="the programs of the short form alone")
    parser.addoption("--table", help="write the table of README.md to this file")


def pytest_sessionstart():
    if not PYTHON.exists():
        pytest.exit(f"no Python with the frameworks at '{PYTHON}': scripts/setup --frameworks makes it", returncode=2)


@pytest.fixture(scope="module")
def pair(request, tmp_path_factory):
    """The Pair of one program: it is run bare, watched by PyTorch's profiler, and recorded."""
    program = request.param
    directory = tmp_path_factory.mktemp(program, numbered=True)
    dump = directory / "dump"
    config = directory / "data_dump.json"
    categories = ["max", "min", "avg", "l2norm"]
    config.write_text(json.dumps(settings_of(dump, None, None, {"statistic_category": categories})))
    common = {
        "HF_HUB_OFFLINE": 1,
        "PYTHONPATH": HERE,
        "VISION": ENVIRONMENT / "vision",
        "HF_HOME": directory / "hub",
        "PYTHONHASHSEED": 0,
    }

    def run(out, **environment):
        path = HERE / "programs" / f"{program}.py"
        return run_in(directory, dump, PYTHON, HERE / "observe.py", out, path, timeout=280, **common, **environment)

    started = time.monotonic()
    bare = run(directory / "bare.json", OBSERVE_OPERATORS=1)
    assert bare.status == 0, bare.stderr[-3000:]
    recorded = run(directory / "recorded.json", MINDSPORE_DUMP_CONFIG=config)
    assert recorded.status == 0, recorded.stderr[-3000:]
    found = Pair(
        program,
        json.loads((directory / "bare.json").read_text()),
        json.loads((directory / "recorded.json").read_text()),
    )
    found.take(dump, bare, recorded)
    found.seconds = time.monotonic() - started
    yield found
    if request.config.getoption("--table"):
        with open(request.config.getoption("--table"), "a", encoding="utf-8") as file:
            file.write(found.row() + "\n")
