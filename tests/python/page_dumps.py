"""Runs web/tests/browser, and the dumps that its tests look at."""

import pathlib
import re
import shutil

import pytest
from processes import CLI, python, run_alone, run_in

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
CHROMIUM = shutil.which("chromium")
FIRST_BAD = ROOT / "examples/first_bad/train.py"
MOST_SECONDS = 900  # of a slow machine; each wait of a browser test has its own limit (browser.mjs)


def _missing():
    """The thing that the tests of the page need and this machine lacks; None: it has all."""
    if shutil.which("node") is None:
        return "Node 20.19 or later is not installed"
    if not (WEB / "node_modules").exists():
        return "web/node_modules is missing; scripts/setup fetches it where Node is new enough"
    return None


MISSING = _missing()
needs_node = [pytest.mark.skipif(MISSING is not None, reason=str(MISSING)), pytest.mark.timeout(MOST_SECONDS + 60)]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; scripts/setup --page does it")


def node(*arguments, **environment):
    return run_alone(WEB, "node", *arguments, timeout=MOST_SECONDS, **environment).stdout


def browse(*names, **environment):
    """Runs these files of web/tests/browser; none of their tests may be left out."""
    files = [f"tests/browser/{name}.test.mjs" for name in names]
    out = node("--test", "--test-concurrency=1", *files, SONDE_CHROMIUM=str(CHROMIUM), **environment)
    assert re.search(r"^# pass [1-9]", out, re.M) and re.search(r"^# skipped 0$", out, re.M), out


def record(place, name, program, *options, saved_data="statistic", status=0, **environment):
    """The dump `name` in `place` of a program of Python."""
    command = [CLI, "run", "--out", name, "--saved-data", saved_data, "--", *python(), program, *options]
    run = run_in(place, None, *command, **environment)
    assert run.status == status, run.stderr
    return place / name


def write_first_bad(place):
    """The example whose loss becomes NaN, and the same one healthy."""
    record(place, "sick", FIRST_BAD, saved_data="full")
    record(place, "healthy", FIRST_BAD, "--healthy", saved_data="full")


TWO_RANKS = """
import glob, os, sys, time, torch
from torch import nn
torch.manual_seed(len(sys.argv))  # another option, other weights
net = nn.Linear(4, 4)
for step in range(3):
    x = torch.ones(2, 4)
    if os.environ["RANK"] == "1" and step == 1 and "--plain" not in sys.argv:
        x = torch.log(x - 2)
    net(x).pow(2).mean().backward()
    if step == 2 and "--kill" in sys.argv:
        while not glob.glob("killed/rank_0/.dump_metadata/sonde/journal*"):
            time.sleep(0.05)  # the writer has a thread of its own
        time.sleep(0.5)
        os.kill(os.getpid(), 9)
"""


def write_ranks(place):
    """Dumps `two`, of two ranks of which one becomes NaN, `plain`, of its second rank without, and `killed`."""
    (place / "train.py").write_text(TWO_RANKS)
    for name, rank, *options in (("two", 0), ("two", 1), ("plain", 1, "--plain"), ("killed", 0, "--kill")):
        ranks = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank}
        record(place, name, "train.py", *options, status=137 if name == "killed" else 0, **ranks)
