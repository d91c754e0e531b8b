"""examples/migration: a MindSpore training and its port to PyTorch, dumped with one file and compared."""

import json
import os
import pathlib
import re
import shutil
import sys

import pytest
from conftest import run_in

MIGRATION = pathlib.Path(__file__).parents[2] / "examples" / "migration"
ROOT = pathlib.Path(os.environ.get("SONDE_ROOT", MIGRATION.parents[1]))
MINDSPORE = pathlib.Path(os.environ.get("SONDE_MINDSPORE_PYTHON", ROOT / ".venv-mindspore" / "bin" / "python"))

needs_mindspore = pytest.mark.skipif(not MINDSPORE.exists(), reason=f"no {MINDSPORE}; run scripts/setup --mindspore")

# What LeNet computes in a step, in MindSpore's operators: forward, backward, updates of the parameters.
FORWARD, BACKWARD, UPDATES = 13, 24, 12

# Small dumps of one step, to compare with each other. `open` and `closed` differ by less than rounding explains, on
# both sides of 0: a ReLU lets one of them pass.
SMALL_DUMPS = """
    import sys
    import torch
    from torch import nn
    import sonde


    class Gate(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(size))

        def forward(self, x):
            return torch.relu(x * self.weight)


    def dump(name, first, size=2000, saved_data="tensor"):
        network = Gate(size)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        x = torch.linspace(-1, 1, size)
        x[7] = first
        with sonde.capture(out=f"{sys.argv[1]}/{name}", saved_data=saved_data):
            (network(x) * torch.arange(float(size))).sum().backward()
            optimizer.step()


    dump("open", 1e-9)
    dump("closed", -1e-9)
    dump("short", 1e-9, size=1000)
    dump("nan", float("nan"))
    dump("statistic", 1e-9, saved_data="statistic")
"""


class Story:
    """What run_migration.sh printed and left."""

    def __init__(self, run, directory):
        self.output = run.stdout
        self.directory = directory
        parts = re.split(r"^(mindspore|pytorch\w*)$\n", run.stdout, flags=re.M)[1:]
        self.printed = dict(zip(parts[::2], parts[1::2], strict=True))

    def losses(self, name):
        return [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", self.printed[name], re.M)]

    def report(self, name):
        """The lines about the first difference, or the one that there is none."""
        lines = self.printed[name].splitlines()
        return lines[3 : lines.index("")]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    directory = tmp_path_factory.mktemp("migration", numbered=True)
    script, out = MIGRATION / "run_migration.sh", directory / "story"
    tools = {"PYTHON": sys.executable, "SONDE_MINDSPORE_PYTHON": MINDSPORE}
    run = run_in(directory, None, script, out, timeout=280, **tools)
    assert run.status == 0, run.stdout + run.stderr
    return Story(run, out)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """compared(target, golden, ...): what compare_dumps.py says."""
    directory = tmp_path_factory.mktemp("compared", numbered=True)
    return lambda *arguments: run_in(directory, None, sys.executable, MIGRATION / "compare_dumps.py", *arguments)


@pytest.fixture(scope="module")
def pairs(story, compared):
    run = compared(story.directory / "pytorch", story.directory / "mindspore", "--json")
    assert run.status == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A directory with the dumps that SMALL_DUMPS makes."""
    directory = tmp_path_factory.mktemp("small", numbered=True)
    (directory / "train.py").write_text("\n".join(line[4:] for line in SMALL_DUMPS.splitlines()))
    made = run_in(directory, None, sys.executable, "train.py", directory)
    assert made.status == 0, made.stderr
    return directory


def line_of(text):
    source = (MIGRATION / "lenet_pytorch.py").read_text().splitlines()
    return 1 + next(i for i, line in enumerate(source) if text in line)


@needs_mindspore
def test_both_frameworks_print_the_same_losses(story):
    assert len(story.losses("mindspore")) == 3
    assert story.losses("pytorch") == pytest.approx(story.losses("mindspore"), abs=1e-5)
    assert story.losses("pytorch_epsilon") != pytest.approx(story.losses("mindspore"), abs=1e-5)


@needs_mindspore
def test_the_original_is_dumped_by_sonde_where_it_is_installed_beside_mindspore(story, tmp_path):
    installed = run_in(tmp_path, None, MINDSPORE, "-c", "import sonde").status == 0
    if not installed:
        pytest.skip(f"{MINDSPORE} has no Sonde; the dump is MindSpore's own")
    assert list(story.directory.glob("mindspore/debug_dump/rank_0/.dump_metadata/sonde/journal*"))


@needs_mindspore
def test_every_operator_of_the_original_has_a_counterpart_in_the_port_that_computes_the_same(story, pairs):
    assert re.match(r"no difference: errors are at most 0\.\d+ of what rounding explains$", story.report("pytorch")[0])
    assert [pair["golden"] for pair in pairs if not pair["target"]] == []
    for step in range(3):
        phases = [pair["phase"] for pair in pairs if pair["step"] == step and pair["golden"]]
        assert [phases.count(p) for p in ("forward", "backward", "optimizer")] == [FORWARD, BACKWARD, UPDATES]
    assert {pair["target"]["op_type"] for pair in pairs if not pair["golden"]} == {"add_", "pad", "nll_loss_backward"}


@needs_mindspore
def test_what_is_compared_belongs_to_the_same_layer(pairs):
    layers = set()
    for pair in pairs:
        if pair["phase"] == "forward" and pair["golden"] and pair["golden"]["shape"]:
            target, golden = (pair[side]["full_name"].split("/")[-2].split("-")[0] for side in ("target", "golden"))
            assert target == golden, pair
            layers.add(target)
    assert layers == {"conv1", "bn1", "conv2", "fc1", "fc2", "fc3", "relu", "max_pool2d", "flatten"}


@needs_mindspore
def test_either_dump_may_be_the_golden_one(story, compared):
    run = compared(story.directory / "mindspore", story.directory / "pytorch")
    assert run.status == 0, run.stdout
    planted = compared(story.directory / "mindspore", story.directory / "pytorch_epsilon")
    assert planted.status == 1
    assert "bn1-BatchNorm2d/BatchNorm-op0" in planted.stdout.splitlines()[0]


@needs_mindspore
@pytest.mark.parametrize(
    ("plant", "place", "said"),
    [
        ("pad_mode", ("conv2-Conv2d/conv2d-op0", "conv2(self.pad"), r"pad=\[2, 2, 2, 2\].*pad_list=\[1, 2, 1, 2\]"),
        ("epsilon", ("bn1-BatchNorm2d/batch_norm-op0", "bn1(self.conv1"), r"eps=0\.001 .*input\.6=1e-05"),
        ("transposed_weight", ("fc2-Linear/linear-op0", "self.fc2(x)"), r"input.1 fc2.weight .*one TRANSPOSED"),
    ],
    ids=("pad_mode", "epsilon", "transposed_weight"),
)
def test_a_planted_difference_is_named_with_its_operator_and_line(story, plant, place, said):
    first, *more = story.report(f"pytorch_{plant}")
    operator, source = place
    assert first.startswith("first difference: step 0, ")
    assert f" Default/network-LeNet5/{operator}, lenet_pytorch.py:{line_of(source)}: max error " in first
    assert re.search(said, "\n".join(more), re.S), more
    assert sum(line.endswith(": the same") for line in more) >= 2


def test_a_gate_that_rounding_decides_is_no_difference_and_ends_the_comparison(small, compared):
    run = compared(small / "open", small / "closed")
    assert run.status == 0, run.stdout
    assert re.match(r"no difference up to step 0, .*threshold_backward-op0.*: 1 of 2000 elements are", run.stdout)
    same = compared(small / "open", small / "open")
    assert same.status == 0
    assert same.stdout.startswith("no difference: errors are at most 0 of")


def test_another_shape_and_a_nan_are_differences(small, compared):
    shape = compared(small / "short", small / "open")
    assert shape.status == 1
    assert re.match(r"first difference: step 0, mul .*: shape \(1000\), golden \(2000\)\n", shape.stdout)
    for dumps in (("nan", "open"), ("open", "nan")):
        nan = compared(*(small / name for name in dumps))
        assert nan.status == 1
        assert re.match(r"first difference: step 0, mul .*: max error inf.* 1 of 2000 elements", nan.stdout)
    assert json.loads(compared(small / "nan", small / "open", "--json").stdout.splitlines()[0])["error"] is None
    assert compared(small / "nan", small / "nan").status == 0


def test_dumps_that_cannot_be_compared_are_named(small, compared):
    statistic = compared(small / "statistic", small / "open")
    assert statistic.status == 3
    assert (
        "mul-op0:output.0 was dumped without its tensor; dump both with saved_data tensor or full" in statistic.stderr
    )
    missing = compared(small / "open", small / "nowhere")
    assert missing.status == 3
    assert f"cannot open dump '{small / 'nowhere'}'" in missing.stderr
    shutil.copytree(small / "open", small / "torn")
    torn = next((small / "torn").rglob("mul.Default_network-Gate_mul-op0.*.output.0.*.npy"))
    torn.chmod(0o600)
    torn.write_bytes(torn.read_bytes()[:200])
    unreadable = compared(small / "torn", small / "open")
    assert unreadable.status == 3
    assert f"cannot read '{torn}'" in unreadable.stderr
    assert compared(small / "open").status == 2
