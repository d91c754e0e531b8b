"""The page of `sonde serve`: its units under Node, and the page itself in Debian's Chromium (web/tests)."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import mindspore_tree
import pytest
from processes import CLI, clean_environment, run_alone, run_in
from serving import serving

import sonde

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
CHROMIUM = shutil.which("chromium")
EXAMPLE = ROOT / "examples/first_bad/train.py"


def _missing():
    """The thing that the tests of the page need and this machine lacks; None: it has all."""
    if shutil.which("node") is None:
        return "Node 20.19 or later is not installed"
    if not (WEB / "node_modules").exists():
        return "web/node_modules is missing; scripts/setup fetches it where Node is new enough"
    return None


MISSING = _missing()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; scripts/setup --page does it")


def node(*arguments, **environment):
    return run_alone(WEB, "node", *arguments, timeout=240, **environment).stdout


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """The example whose loss becomes NaN, and the same one healthy."""
    place = tmp_path_factory.mktemp("page")
    for name, options in (("sick", []), ("healthy", ["--healthy"])):
        run = run_in(
            place,
            place / name,
            CLI,
            "run",
            "--out",
            name,
            "--saved-data",
            "full",
            "--",
            sys.executable,
            EXAMPLE,
            *options,
        )
        assert run.status == 0, run.stderr
    return place


GROWING = """
import time, torch
from torch import nn
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
print("begun", flush=True)
for step in range(1000):
    x = torch.randn(2, 4)
    if step == 40:
        x[0, 0] = float("nan")
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.2)
"""


@pytest.fixture
def training(tmp_path):
    """A process that trains, by its number, and the dump that it writes; step 40 makes NaN."""
    (tmp_path / "train.py").write_text(GROWING)
    command = [CLI, "run", "--out", "live", "--", sys.executable, "train.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment()
    ) as process:
        assert process.stdout.readline() == "begun\n"
        while not list(tmp_path.glob("live/rank_0/.dump_metadata/sonde/journal*")) and process.poll() is None:
            time.sleep(0.1)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        number = int(children[0]) if children else process.pid
        yield number, tmp_path / "live"
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A dump whose modules have names that are HTML."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "train.py").write_text(
        "import torch\nfrom torch import nn\n"
        "net = nn.Sequential()\nnet.add_module('<img src=x onerror=alert(1)>', nn.Linear(2, 2))\n"
        "net.add_module('<b>&amp;\"\\'<script>alert(2)<|script>', nn.ReLU())\nnet(torch.ones(1, 2)).sum().backward()\n"
    )
    run = run_in(place, place / "dump", CLI, "run", "--out", "dump", "--", sys.executable, "train.py")
    assert run.status == 0, run.stderr
    return place / "dump"


def test_units():
    node("node_modules/vite/bin/vite.js", "build", "--config", "vite.units.config.ts")
    out = node("--test", *sorted(str(file) for file in (WEB / "build-units").glob("*.test.js")))
    assert re.search(r"^# pass [1-9]\d", out, re.M), out


def test_two_builds_are_the_same_bytes(tmp_path):
    states = []
    for name in ("first", "second"):
        node("node_modules/vite/bin/vite.js", "build", "--outDir", str(tmp_path / name))
        files = sorted(file for file in (tmp_path / name).rglob("*") if file.is_file())
        states.append({str(file.relative_to(tmp_path / name)): file.read_bytes() for file in files})
    assert states[0] == states[1]
    assert len(states[0]) >= 4


def test_the_types_are_those_of_openapi(tmp_path):
    node("scripts/api_types.mjs", "../src/server/openapi.json", str(tmp_path / "api.ts"))
    assert (tmp_path / "api.ts").read_text() == (WEB / "src/api.ts").read_text()


def test_nothing_makes_html_of_text_or_asks_another_server():
    for file in (WEB / "src").rglob("*.ts*"):
        text = file.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write|\beval\(", text
        ), file
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file


def browse(*names, **environment):
    """Runs these files of web/tests/browser; none of their tests may be left out."""
    files = [f"tests/browser/{name}.test.mjs" for name in names]
    out = node("--test", "--test-concurrency=1", *files, SONDE_CHROMIUM=str(CHROMIUM), **environment)
    assert re.search(r"^# pass [1-9]", out, re.M) and re.search(r"^# skipped 0$", out, re.M), out


@needs_chromium
def test_the_questions_of_a_person_and_accessibility(dumps):
    difference = run_in(dumps, dumps, CLI, "compare", "sick", "healthy").stdout.splitlines()[0]
    with serving(dumps / "sick") as sick, serving(dumps / "sick", dumps / "healthy") as pair:
        addresses = {"SONDE_PAGE": sick.line, "SONDE_PAGE_PAIR": pair.line}
        browse("questions", "save", "axe", "tabs", SONDE_FIRST_DIFFERENCE=difference, **addresses)


TWO_RANKS = """
import glob, os, sys, time, torch
from torch import nn
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


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Dumps with less in them: {name: (its path, what the first screen says)}."""
    place = tmp_path_factory.mktemp("trees", numbered=True)
    (place / "train.py").write_text(TWO_RANKS)
    for name, rank, options in (("two", 0, []), ("two", 1, []), ("plain", 1, ["--plain"]), ("killed", 0, ["--kill"])):
        command = [CLI, "run", "--out", name, "--", sys.executable, "train.py", *options]
        run = run_in(place, None, *command, RANK=rank, WORLD_SIZE=2, LOCAL_RANK=rank)
        assert run.status == (137 if name == "killed" else 0), run.stderr
    return {
        "two ranks": (place / "two", "log-op0.*rank 1, step"),
        "a killed run": (place / "killed", "In what was recorded, .* The run was killed in step 2. 53 operators"),
        "MindSpore": (mindspore_tree.write(place / "mindspore"), "Nothing is wrong"),
    }


@needs_chromium
def test_every_screen_of_other_dumps(trees):
    with contextlib.ExitStack() as stack:
        pages = {
            name: {"address": stack.enter_context(serving(path)).line, "first": first}
            for name, (path, first) in trees.items()
        }
        two = trees["two ranks"][0]
        odd = stack.enter_context(serving(two, two.parent / "plain")).line
        browse("trees", "linked", SONDE_PAGES=json.dumps(pages), SONDE_PAGE_ODD=odd)


WIDE = """
import sys, torch
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = x * 1.01
        return x
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(350)])
    def forward(self, x):
        if "--big" in sys.argv:
            x = self.a(x)
            for block in self.blocks:
                x = block(x)
            return x
        if "--swapped" in sys.argv:
            other = torch.sigmoid(x)
            mask = torch.tanh(x)
        else:
            mask = torch.tanh(x)
            other = torch.sigmoid(x)
        y = self.a(x) + other
        for _ in range(130):
            y = y + mask
        return y
net = Wide()
if "--big" in sys.argv:
    net(torch.ones(2, 4))
    sys.exit()
with torch.no_grad():
    for p in net.parameters():
        p.fill_(0.5)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for step in range(30):
    x = torch.ones(2, 4) * (step + 1)
    if step == 20:
        x[0, 0] = float("nan")
    optimizer.zero_grad()
    net(x).mean().backward()
    optimizer.step()
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Dumps with many steps, rows and readers: one, one with two operators in another order, and one of many boxes."""
    place = tmp_path_factory.mktemp("wide")
    (place / "train.py").write_text(WIDE)
    for name, options in (("wide", []), ("swapped", ["--swapped"]), ("big", ["--big"])):
        run = run_in(place, None, CLI, "run", "--out", name, "--", sys.executable, "train.py", *options)
        assert run.status == 0, run.stderr
    return place


@needs_chromium
def test_wide_maps_tables_and_graphs(wide, trees):
    with (
        serving(wide / "wide", wide / "swapped") as pair,
        serving(wide / "big") as big,
        serving(trees["two ranks"][0]) as two,
    ):
        browse("wide", SONDE_PAGE_WIDE=pair.line, SONDE_PAGE_BIG=big.line, SONDE_PAGE_RANKS=two.line)


@needs_chromium
def test_every_key_and_other_words(dumps, trees):
    with (
        serving(dumps / "sick") as sick,
        serving(dumps / "sick", dumps / "healthy") as pair,
        serving(trees["two ranks"][0]) as two,
    ):
        browse("keys", SONDE_PAGE=sick.line, SONDE_PAGE_PAIR=pair.line, SONDE_PAGE_RANKS=two.line)


@needs_chromium
def test_a_report_without_server_or_network(dumps):
    reports = {
        "SONDE_REPORT": [],
        "SONDE_REPORT_PAIR": ["--golden", "healthy"],
        "SONDE_REPORT_REDACTED": ["--golden", "healthy", "--redact"],
        "SONDE_REPORT_SMALL": ["--max-size", "350K"],
    }
    addresses = {}
    for name, options in reports.items():
        file = dumps / f"{name}.html"
        run = run_in(dumps, dumps, CLI, "report", "sick", "--html", file, *options)
        assert run.status == 0, run.stderr
        addresses[name] = file.as_uri()
    browse("report", **addresses)


@needs_chromium
def test_a_frame_of_an_allowed_origin(dumps):
    with sonde.open(dumps / "sick").serve() as framed, serving(dumps / "sick") as refused:
        browse("frame", SONDE_PAGE_FRAMED=framed.url, SONDE_PAGE_REFUSED=refused.line)


@needs_chromium
def test_a_hostile_dump(hostile):
    with serving(hostile) as server:
        browse("hostile", SONDE_PAGE_HOSTILE=server.line)


@needs_chromium
def test_a_live_run_that_is_killed_and_a_server_that_ends(training):
    number, live = training
    with serving(live) as server:
        numbers = {"SONDE_TRAINING": str(number), "SONDE_SERVER": str(server.process.pid)}
        browse("live", SONDE_PAGE_LIVE=server.line, **numbers)
