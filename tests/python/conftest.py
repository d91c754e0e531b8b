"""Runs training scripts as a user does: a file, a configuration, `python train.py`; then tests check the results."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import sys
import textwrap

import processes
import pytest
from processes import CLI, run_in, settings_of

os.environ.pop("COLUMNS", None)  # pytest gives it to its workers, and the command would fit its tables to it
os.unsetenv("COLUMNS")  # readline, which pytest imports, sets it where os.environ does not see it

# Inductor's own processes import PyTorch again, for each program that is compiled. A test that needs them sets it back.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


def link_with_gold():
    """Inductor links each kernel with all of PyTorch, which takes gold half the time of ld. The compiler looks for the
    linker in COMPILER_PATH first."""
    gold, place = shutil.which("ld.gold"), pathlib.Path(__file__).resolve().parents[2] / "build/linker"
    if gold and "COMPILER_PATH" not in os.environ:
        place.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # of another worker
            (place / "ld").symlink_to(gold)
        os.environ["COMPILER_PATH"] = str(place)


link_with_gold()

# A network small enough to train in milliseconds, with a convolution, a norm and a linear layer.
SMALL_TRAINING = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.fc = nn.Linear(4 * 6 * 6, 3)

        def forward(self, x):
            return self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))


    network = Small()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        loss = network(torch.randn(2, 1, 8, 8)).square().mean()
        loss.backward()
        optimizer.step()
    print("trained", loss.item())
"""


# Tests and files that may be left out although CI is true, with the reason; any other left-out test fails there.
MAY_SKIP = {
    # neither compiler is needed for anything else
    "test_nvcc_compiles_it_without_spilling_much",
    "test_clang_compiles_it_for_amd",
    # strace is needed for nothing else
    "test_the_verbs_read_the_indices_and_not_the_journals",
    # Ray and Dask: requirements-engines.txt, 300 MB
    "test_a_cluster_gives_the_answer_of_one_process",
    "test_a_worker_without_sonde_is_refused",
    "test_a_rank_is_worked_on_where_its_directory_is",
    "test_a_rank_that_no_worker_sees_is_one_line",
    "test_workers_that_see_all_ranks_share_them",
    "test_the_ranks_of_a_killed_worker_are_read_by_who_asks",
    "test_an_address_is_an_engine",
    "test_each_journal_is_read_once_by_who_searches_its_rank",
    "test_an_interrupt_of_the_terminal_is_no_page_of_tracebacks",
    # a file: CI has no GPU
    "test_device_cuda.py",
}


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="the tests that take long, too")


def pytest_collection_modifyitems(config, items):
    """A test that is asked for by its name is run."""
    if config.getoption("--long") or any("::" in argument for argument in config.invocation_params.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    named = item.originalname in MAY_SKIP or item.path.name in MAY_SKIP
    expected = named or item.get_closest_marker("needs_mindspore")
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true" and not expected:
        report.outcome = "failed"
        report.longrepr = f"left out in CI, and not in MAY_SKIP: {report.longrepr}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    processes.cold = item.get_closest_marker("cold") is not None


@pytest.fixture(scope="session")
def once_per_run(tmp_path_factory):
    """once_per_run(name, make): the directory that make(directory) fills, once for all workers of this run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def directory_of(name, make):
        directory, done = shared / name, shared / f"{name}.done"
        with open(shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(directory, ignore_errors=True)  # of a worker that failed
                directory.mkdir()
                make(directory)
                done.touch()
        return directory

    return directory_of


class Comparison:
    """One program run twice, bare and recorded, for many tests."""

    def __init__(self, directory, bare, recorded):
        self.directory = directory
        self.bare = bare
        self.recorded = recorded
        self.dump = recorded.dump

    def stats(self):
        """Rows of `sonde stats --jsonl`."""
        shown = run_in(self.directory, self.dump, CLI, "stats", self.dump, "--jsonl")
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def ops(self):
        """Rows of `sonde ls --ops --jsonl` that are operators."""
        listed = run_in(self.directory, self.dump, CLI, "ls", self.dump, "--ops", "--jsonl")
        return [json.loads(line) for line in listed.stdout.splitlines()]


@pytest.fixture(scope="module")
def compare(tmp_path_factory):
    """compare(source, **common): runs the program bare, then recorded; importing torch is dear, so once per module.

    `bare` adds to the environment of the bare run."""

    def run(source, sonde_settings=None, bare=None, **common):
        directory = tmp_path_factory.mktemp("compare", numbered=True)
        dump = directory / "dump"
        (directory / "train.py").write_text(textwrap.dedent(source))
        config = directory / "data_dump.json"
        config.write_text(json.dumps(settings_of(dump, None, sonde_settings, common)))
        first = run_in(directory, dump, sys.executable, "train.py", **(bare or {}))
        second = run_in(directory, dump, sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
        return Comparison(directory, first, second)

    return run


@pytest.fixture
def dump(tmp_path_factory):
    """A directory that does not exist yet, under a path that MindSpore's rules allow."""
    return tmp_path_factory.mktemp("run", numbered=True) / "dump"


@pytest.fixture
def config(tmp_path, dump):
    """config(**common): writes a configuration and returns its path. `sonde_settings` is Sonde's, beside
    MindSpore's."""

    def write(e2e=None, sonde_settings=None, **common):
        path = tmp_path / "data_dump.json"
        path.write_text(json.dumps(settings_of(dump, e2e, sonde_settings, common)))
        return path

    return write


@pytest.fixture
def execute(tmp_path, dump):
    """execute(command, **environment): runs it in a clean environment, outside the checkout."""

    def run(*command, timeout=120, **environment):
        return run_in(tmp_path, dump, *command, timeout=timeout, **environment)

    return run


@pytest.fixture
def script(tmp_path):
    """script(source): writes train.py and returns its path."""

    def write(source=SMALL_TRAINING, name="train.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


@pytest.fixture
def train(script, execute):
    """train(source, config): `MINDSPORE_DUMP_CONFIG=config python train.py`; no config: a bare run."""

    def run(source=SMALL_TRAINING, config=None, **environment):
        if config is not None:
            environment["MINDSPORE_DUMP_CONFIG"] = config
        return execute(sys.executable, script(source), **environment)

    return run


@pytest.fixture
def sonde(execute):
    """sonde(verb, ...): the command as users call it."""
    if not pathlib.Path(CLI).exists():
        pytest.fail(f"the command sonde is not in '{CLI}'; run scripts/setup, or set SONDE_CLI")
    return lambda *arguments, **environment: execute(CLI, *arguments, **environment)
