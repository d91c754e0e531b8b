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
from page_dumps import WEB, browse, needs_chromium, needs_node, node, record, write_first_bad, write_ranks
from processes import CLI, clean_environment, python, run_in
from ranks import run_ranks
from serving import serving
from test_before_the_step import PROGRAM as BEFORE
from test_serving import write_engine

import sonde

pytestmark = needs_node
RELATIONS = pathlib.Path(__file__).parents[1] / "relations/run.py"


@pytest.fixture(scope="module")
def dumps(once_per_run):
    """The example whose loss becomes NaN, and the same one healthy."""
    return once_per_run("page-first-bad", write_first_bad)


GROWING = """
import time, torch
from torch import nn
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
print("begun", flush=True)
for step in range(10_000):
    x = torch.randn(2, 4)
    if step == 40:
        x[0, 0] = float("nan")
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.1)
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
    """A dump whose modules have names that are HTML, and one of 10 kB."""
    place = tmp_path_factory.mktemp("hostile")
    (place / "train.py").write_text(
        "import torch\nfrom torch import nn\n"
        "net = nn.Sequential()\nnet.add_module('<img src=x onerror=alert(1)>', nn.Linear(2, 2))\n"
        "net.add_module('<b>&amp;\"\\'<script>alert(2)<|script>', nn.ReLU())\n"
        "net.add_module('long_name_' * 1000 + 'end', nn.Linear(2, 2))\nnet(torch.ones(1, 2)).sum().backward()\n"
    )
    run = run_in(place, place / "dump", CLI, "run", "--out", "dump", "--", *python(), "train.py")
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
    node("scripts/api_types.mjs", "../src/face/server/openapi.json", str(tmp_path / "api.ts"))
    assert (tmp_path / "api.ts").read_text() == (WEB / "src/api.ts").read_text()


def test_nothing_makes_html_of_text_or_asks_another_server():
    for file in (WEB / "src").rglob("*.ts*"):
        text = file.read_text()
        assert not re.search(
            r"innerHTML|outerHTML|dangerouslySetInnerHTML|insertAdjacentHTML|document\.write|\beval\(", text
        ), file
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file


@needs_chromium
@pytest.mark.parametrize("name", ["questions", "save", "axe", "tabs"])
def test_the_questions_of_a_person_and_accessibility(dumps, name):
    difference = run_in(dumps, dumps, CLI, "compare", "sick", "healthy").stdout.splitlines()[0]
    with serving(dumps / "sick") as sick, serving(dumps / "sick", dumps / "healthy") as pair:
        addresses = {"SONDE_PAGE": sick.line, "SONDE_PAGE_PAIR": pair.line}
        browse(name, SONDE_FIRST_DIFFERENCE=difference, **addresses)


@pytest.fixture(scope="module")
def trees(once_per_run):
    """Dumps of two ranks, and of a run that was killed."""
    return once_per_run("page-ranks", write_ranks)


RANKS = """
import os, torch
from torch import nn
net = nn.Linear(4, 4)
for step in range(3):
    x = torch.ones(2, 4)
    if step == 1 and os.environ["RANK"] == "0":
        x = torch.log(x - 2)
    if step == 1 and os.environ["RANK"] == "2":
        x = torch.log(x - 1)
    net(x).pow(2).mean().backward()
""".lstrip()
GROW = """
import torch
from torch import nn
class Block(nn.Module):
    def forward(self, x, scale):
        return torch.tanh(x) * scale
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(8, 2)
    def forward(self, x, scale):
        return self.head(self.blocks[1](self.blocks[0](x, 1.0), scale))
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 1e-5)
for step in range(12):
    metric = torch.zeros(()) / 0.0 + step
    loss = (net(torch.randn(4, 8), 10.0 ** (4 * max(0, step - 5))) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""".lstrip()
PAIR = """
import sys, torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.GELU(approximate=sys.argv[1]))
for step in range(2):
    net(torch.randn(3, 4)).square().mean().backward()
""".lstrip()
MAPS = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x, shift):
        return torch.tanh(self.inner(x)) + torch.log(x.abs() + shift)
class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(4)])
    def forward(self, x, good, bad):
        for i, block in enumerate(self.blocks):
            x = block(x, bad if i == 2 else good)
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()
    def forward(self, x, good, bad):
        return self.body(x, good, bad)
torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 1e-15)
good = torch.ones(4)
bad = torch.tensor([1.0, 1.0, 1.0, -9.0])
lost = torch.ones(4)
for step in range(8):
    x = torch.randn(1, 4)
    for _ in range(27):
        x = x.to(torch.float64)
        x = x.to(torch.float32)
    for kind in (torch.sin, torch.cos, torch.tan, torch.sign, torch.ceil):
        lost = kind(lost)
    loss = net(x, good, bad if step == 5 else good).square().mean()
    optimizer.zero_grad()
    (loss * (1e9 if step == 2 else 1.0)).backward()
    optimizer.step()
""".lstrip()


def write_findings(place):
    """Dumps `two`, of ranks 0 and 2 that both go wrong; `grew`; `maps`; `exact` and `tanh`, which only differ."""
    for name, text in (("train.py", RANKS), ("grow.py", GROW), ("pair.py", PAIR), ("maps.py", MAPS)):
        (place / name).write_text(text)
    for rank in (0, 2):
        record(place, "two", "train.py", saved_data="full", RANK=rank, WORLD_SIZE=3, LOCAL_RANK=rank)
    record(place, "grew", "grow.py", saved_data="full")
    record(place, "maps", "maps.py", saved_data="full")
    for name, kind in (("exact", "none"), ("tanh", "tanh")):
        record(place, name, "pair.py", kind, saved_data="full")


@needs_chromium
def test_no_face_says_less_than_the_verb(once_per_run):
    place = once_per_run("page-findings", write_findings)
    run = run_in(place, place, CLI, "report", "tanh", "--golden", "exact", "--html", place / "report.html")
    assert run.status == 0, run.stderr
    with contextlib.ExitStack() as stack:
        dumps = {"RANKS": ["two"], "GREW": ["grew"], "PAIR": ["tanh", "exact"], "EQUAL": ["exact", "exact"]}
        pages = {
            f"SONDE_PAGE_{name}": stack.enter_context(serving(*[place / dump for dump in given])).line
            for name, given in dumps.items()
        }
        browse("findings", SONDE_REPORT=(place / "report.html").as_uri(), **pages)


@needs_chromium
def test_maps_tables_and_graphs_point_at_the_finding(once_per_run):
    place = once_per_run("page-findings", write_findings)
    with serving(place / "maps") as maps, serving(place / "tanh", place / "exact") as pair:
        browse("maps", "palette", SONDE_PAGE_MAPS=maps.line, SONDE_PAGE_PAIR=pair.line)


@needs_chromium
def test_every_face_has_the_answer_card(once_per_run, tmp_path):
    pair = once_per_run("page-findings", write_findings)
    (tmp_path / "train.py").write_text(BEFORE)
    record(tmp_path, "before", "train.py", saved_data="full")
    run = run_in(tmp_path, tmp_path, CLI, "report", "before", "--html", tmp_path / "before.html")
    assert run.status == 0, run.stderr
    with serving(tmp_path / "before") as before, serving(pair / "tanh", pair / "exact") as differ:
        report = (tmp_path / "before.html").as_uri()
        browse("card", SONDE_PAGE_BEFORE=before.line, SONDE_PAGE_PAIR=differ.line, SONDE_REPORT_BEFORE=report)


LOOP = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(4), nn.Linear(4, 4)
    def forward(self, x):
        return self.fc(self.norm(x))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(3):
    if step == 1 and "--new" in sys.argv:
        net.norm.eps = 0.1
    for part in range(3):
        x = torch.rand(2, 4) + 0.5
        y = net(x)
        if step == 1 and part == 0 and "--bad" in sys.argv:
            y = torch.log(y - 9)
        y.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if "--bad" in sys.argv and not torch.isfinite(net.fc.weight).all():
        raise FloatingPointError("the weights are lost")
""".lstrip()


def write_loop(place):
    """Dumps `old` and `new` of a loop over parts of a batch, `failed` of one that raises, `gap` of ranks 0 and 2."""
    program = "the_training_of_a_small_network_with_a_log.py"
    (place / program).write_text(LOOP)
    record(place, "old", program, saved_data="full")
    record(place, "new", program, "--new", saved_data="full")
    record(place, "failed", program, "--bad", saved_data="full", status=1)
    for rank in (0, 2):
        record(place, "gap", program, RANK=rank, WORLD_SIZE=3, LOCAL_RANK=rank)


@needs_chromium
def test_no_screen_says_more_than_is_known(once_per_run):
    place = once_per_run("page-loop", write_loop)
    with contextlib.ExitStack() as stack:
        dumps = {"LOOP": ["new", "old"], "FAILED": ["failed"], "GAP": ["gap"]}
        pages = {
            f"SONDE_PAGE_{name}": stack.enter_context(serving(*[place / dump for dump in given])).line
            for name, given in dumps.items()
        }
        browse("newcomer", **pages)


SHARDED = """
import os, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=2)
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(distribute_tensor(torch.arange(128.0).reshape(16, 8), mesh, [Shard(0)]))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)


net = Net()
for _ in range(2):
    net(DTensor.from_local(torch.ones(2, 8), mesh, [Replicate()])).sum().full_tensor().backward()
    dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
"""


def write_answers(place):
    """Dumps `rel/vit/tensors/` of two implementations, `sharded/dump` of two ranks, and `served` of an engine."""
    for fault in ("pooled",):
        run = [sys.executable, RELATIONS, "--json", "--keep", place / "rel", "--pair", "vit", "--fault", fault]
        subprocess.run(run, capture_output=True, timeout=300, check=True)
    (place / "sharded").mkdir()
    ranks = run_ranks(place / "sharded", SHARDED, saved_data="full")
    assert ranks.status == 0, ranks.stderr
    write_engine(place)
    command = [CLI, "run", "--out", "served", "--", *python(), "serve.py"]
    run = run_in(place, None, *command, PYTHONPATH=place / "packages")
    assert run.status == 0, run.stderr


@needs_chromium
def test_screens_of_the_newer_answers(once_per_run):
    place = once_per_run("page-answers", write_answers)
    pair = [place / "rel/vit/tensors/pooled", place / "rel/vit/tensors/golden"]
    report = [CLI, "report", pair[0], "--golden", pair[1], "--html", place / "related.html"]
    run = run_in(place, place, *report)
    assert run.status == 0, run.stderr
    with contextlib.ExitStack() as stack:
        dumps = {"RELATED": pair, "SHARDED": [place / "sharded/dump"], "REQUESTS": [place / "served"]}
        pages = {f"SONDE_PAGE_{name}": stack.enter_context(serving(*given)).line for name, given in dumps.items()}
        browse("answers", SONDE_REPORT_RELATED=(place / "related.html").as_uri(), **pages)


PARTS = """
import sys
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 4)
    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class OwnNet(Net):
    bend = staticmethod(torch.tanh)
    def forward(self, x):
        return self.bend(x @ self.up.weight.T + self.up.bias) @ self.down.weight.T + self.down.bias


torch.manual_seed(0)
x, in_parts = torch.randn(6, 6), "parts" in sys.argv
net = OwnNet() if in_parts else Net()
with torch.no_grad():
    for part in x.split(3) if in_parts else [x]:
        net(part)
        OwnNet.bend = staticmethod(torch.sigmoid)  # from the second step on
""".lstrip()


def in_parts(place):
    """Two implementations, of which the target needs two steps for the golden one."""
    (place / "parts.py").write_text(PARTS)
    return record(place, "parts", "parts.py", "parts", saved_data="full"), record(
        place, "whole", "parts.py", saved_data="full"
    )


@needs_chromium
def test_every_screen_of_other_dumps(trees, tmp_path):
    shown = {
        "two ranks": (trees / "two", "log-op0.*rank 1, step"),
        "a killed run": (trees / "killed", "In what was recorded, .* The run was killed in step 2. .* 53 operators"),
        "MindSpore": (mindspore_tree.write(tmp_path / "mindspore"), "Nothing is wrong"),
    }
    with contextlib.ExitStack() as stack:
        pages = {
            name: {"address": stack.enter_context(serving(path)).line, "first": first}
            for name, (path, first) in shown.items()
        }
        odd = stack.enter_context(serving(trees / "two", trees / "plain")).line
        parts = stack.enter_context(serving(*in_parts(tmp_path))).line
        browse("trees", "linked", SONDE_PAGES=json.dumps(pages), SONDE_PAGE_ODD=odd, SONDE_PAGE_PARTS=parts)


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
        run = run_in(place, None, CLI, "run", "--out", name, "--", *python(), "train.py", *options)
        assert run.status == 0, run.stderr
    return place


@needs_chromium
def test_wide_maps_tables_and_graphs(wide, trees):
    with (
        serving(wide / "wide", wide / "swapped") as pair,
        serving(wide / "big") as big,
        serving(trees / "two") as two,
    ):
        browse("wide", SONDE_PAGE_WIDE=pair.line, SONDE_PAGE_BIG=big.line, SONDE_PAGE_RANKS=two.line)


@needs_chromium
def test_every_key_and_other_words(dumps, trees):
    with (
        serving(dumps / "sick") as sick,
        serving(dumps / "sick", dumps / "healthy") as pair,
        serving(trees / "two") as two,
    ):
        browse("keys", SONDE_PAGE=sick.line, SONDE_PAGE_PAIR=pair.line, SONDE_PAGE_RANKS=two.line)


@needs_chromium
def test_a_report_without_server_or_network(dumps):
    reports = {
        "SONDE_REPORT": [],
        "SONDE_REPORT_PAIR": ["--golden", "healthy"],
        "SONDE_REPORT_REDACTED": ["--golden", "healthy", "--redact"],
        "SONDE_REPORT_SMALL": ["--max-size", "410K"],
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
def test_a_live_run_that_is_killed_a_server_that_ends_and_a_rank_that_comes_later(training, once_per_run, tmp_path):
    number, live = training
    shutil.copytree(once_per_run("page-ranks", write_ranks) / "two", tmp_path / "grows")
    place, later = tmp_path / "grows" / "rank_1", tmp_path / "later"
    place.rename(later)
    with serving(live) as server, serving(tmp_path / "grows") as growing:
        numbers = {"SONDE_TRAINING": str(number), "SONDE_SERVER": str(server.process.pid)}
        moved = {"SONDE_PAGE_GROWS": growing.line, "SONDE_LATER": str(later), "SONDE_PLACE": str(place)}
        browse("live", SONDE_PAGE_LIVE=server.line, **numbers, **moved)
