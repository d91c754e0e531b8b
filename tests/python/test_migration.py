"""examples/migration: a MindSpore training and its port to PyTorch, dumped with one file and compared."""

import json
import os
import pathlib
import re
import shutil
import sys

import pytest
from processes import CLI, run_in

MIGRATION = pathlib.Path(__file__).parents[2] / "examples" / "migration"
ROOT = pathlib.Path(os.environ.get("SONDE_ROOT", MIGRATION.parents[1]))
MINDSPORE = pathlib.Path(os.environ.get("SONDE_MINDSPORE_PYTHON", ROOT / ".venv-mindspore" / "bin" / "python"))

needs_mindspore = pytest.mark.skipif(not MINDSPORE.exists(), reason=f"no {MINDSPORE}; run scripts/setup --mindspore")

# MindSpore's operators that PyTorch does not have: `convolution_backward` corresponds to three of them, `add_` of an
# optimizer to a part of one.
ALONE_IN_THE_ORIGINAL = {
    "ApplyMomentum",
    "AssignAdd",
    "BiasAddGrad",
    "Conv2DBackpropFilter",
    "SparseSoftmaxCrossEntropyWithLogits",
}

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
    """The output and the files of run_migration.sh."""

    def __init__(self, output, directory):
        self.output = output
        self.directory = directory
        parts = re.split(r"^(mindspore|pytorch\w*)$\n", output, flags=re.M)[1:]
        self.printed = dict(zip(parts[::2], parts[1::2], strict=True))

    def losses(self, name):
        return [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)$", self.printed[name], re.M)]

    def report(self, name):
        """The lines about the first difference, or the one that reports none."""
        lines = self.printed[name].splitlines()
        return lines[3 : lines.index("")]


def run_story(directory):
    script, tools = MIGRATION / "run_migration.sh", {"PYTHON": sys.executable, "SONDE": CLI}
    run = run_in(directory, None, script, directory / "story", timeout=280, SONDE_MINDSPORE_PYTHON=MINDSPORE, **tools)
    assert run.status == 0, run.stdout + run.stderr
    (directory / "output").write_text(run.stdout)


@pytest.fixture(scope="module")
def story(once_per_run):
    directory = once_per_run("migration", run_story)
    return Story((directory / "output").read_text(), directory / "story")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """compared(target, golden, ...): the answer of `sonde compare`."""
    directory = tmp_path_factory.mktemp("compared", numbered=True)
    return lambda *arguments: run_in(directory, None, CLI, "compare", *arguments)


@pytest.fixture(scope="module")
def comparison(story, compared):
    """The document of the comparison with the right port."""
    run = compared(story.directory / "pytorch", story.directory / "mindspore", "--json")
    assert run.status == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A directory with the dumps of SMALL_DUMPS."""
    directory = tmp_path_factory.mktemp("small", numbered=True)
    (directory / "train.py").write_text("\n".join(line[4:] for line in SMALL_DUMPS.splitlines()))
    made = run_in(directory, None, sys.executable, "train.py", directory)
    assert made.status == 0, made.stderr
    return directory


def layers_of(names):
    """`conv1` of `Default/network-LeNet5/conv1-Conv2d/conv2d-op0`."""
    return {name.split("/")[-2].split("-")[0] for name in names}


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
def test_the_right_port_computes_what_the_original_computes(story, comparison):
    assert re.match(
        r"no difference that rounding does not explain in the ops that both dumps have: "
        r"relative errors are at most [\d.]+e-0[67]$",
        story.report("pytorch")[0],
    )
    assert comparison["findings"] == []
    assert comparison["problems"] == []


@needs_mindspore
def test_every_operator_of_the_forward_pass_has_a_counterpart(comparison):
    for step in range(3):
        ops = [op for op in comparison["ops"] if op["step"] == step]
        forward = [op for op in ops if op["target"] and op["golden"] and op["target"][0].startswith("Default/network")]
        assert len(forward) == 13
        assert not [name for op in ops if not op["target"] for name in op["golden"] if name.startswith("Default/net")]
        alone = {op["op_type"] for op in ops if not op["golden"] and op["target"][0].startswith("Default/network")}
        assert alone == {"add_", "pad"}
    assert {op["op_type"] for op in comparison["ops"] if not op["target"]} <= ALONE_IN_THE_ORIGINAL


@needs_mindspore
def test_what_is_compared_belongs_to_the_same_layer(comparison):
    layers = set()
    for op in comparison["ops"]:
        both = op["target"] and op["golden"] and op["target"][0].startswith("Default/network-")
        if both and op["outputs"][0]["shape"]:
            assert layers_of(op["target"]) == layers_of(op["golden"]), op
            layers |= layers_of(op["target"])
    assert layers == {"conv1", "bn1", "conv2", "fc1", "fc2", "fc3", "relu", "max_pool2d", "flatten"}


@needs_mindspore
def test_either_dump_may_be_the_golden_one(story, compared):
    run = compared(story.directory / "mindspore", story.directory / "pytorch")
    assert run.status == 0, run.stdout
    planted = compared(story.directory / "mindspore", story.directory / "pytorch_epsilon")
    assert planted.status == 1
    assert "bn1-BatchNorm2d/BatchNorm-op0" in planted.stdout.splitlines()[0]
    padded = compared(story.directory / "mindspore", story.directory / "pytorch_pad_mode")
    assert "conv2-Conv2d/Conv2D-op0" in padded.stdout.splitlines()[0]
    assert "\n  before the golden one, unmatched: pad Default/" in padded.stdout


@needs_mindspore
@pytest.mark.parametrize(
    ("plant", "place", "verdict", "said"),
    [
        (
            "pad_mode",
            ("step 0, conv2d", "conv2-Conv2d/conv2d-op0", "conv2(self.pad"),
            "introduces relative error ",
            r"pad=\[2, 2, 2, 2\].*pad_list=\[1, 2, 1, 2\]",
        ),
        (
            "epsilon",
            ("step 0, batch_norm", "bn1-BatchNorm2d/batch_norm-op0", "bn1(self.conv1"),
            "introduces relative error ",
            r"eps=0\.001 .*input\.6=1e-05",
        ),
        (
            "transposed_weight",
            ("step 0, parameter fc2.weight, input.1 of linear", "fc2-Linear/linear-op0", "self.fc2(x)"),
            "it is the golden one transposed ",
            r"golden .*fc2-Dense/MatMul-op0",
        ),
    ],
    ids=("pad_mode", "epsilon", "transposed_weight"),
)
def test_a_planted_difference_is_named_with_its_operator_and_line(story, plant, place, verdict, said):
    first, *more = story.report(f"pytorch_{plant}")
    subject, operator, source = place
    where = f"{subject} Default/network-LeNet5/{operator}, lenet_pytorch.py:{line_of(source)}"
    # Ops around the first one may have no counterpart in the other framework.
    assert first.replace(" (uncertain)", "").startswith(f"first difference: {where}: {verdict}")
    assert re.search(said, "\n".join(more), re.S), more
    assert not [line for line in more if line.startswith("also: ")]
    inputs = [line for line in more if line.startswith("  input.") and "fc2.weight" not in line]
    assert inputs
    for line in inputs:
        assert re.search(r": (identical|relative error [\d.]+e-(0[789]|\d\d),.*)$", line), line


def test_a_gate_that_rounding_decides_is_no_difference(small, compared):
    run = compared(small / "open", small / "closed", "--json")
    assert run.status == 0, run.stdout
    gate = next(op for op in json.loads(run.stdout)["ops"] if op["op_type"] == "threshold_backward")
    assert gate["verdict"] == "propagated"
    assert gate["outputs"][0]["mismatches"] == 1
    assert gate["outputs"][0]["max_error"] == 7
    same = compared(small / "open", small / "open")
    assert same.status == 0
    assert same.stdout.startswith("no difference\n")


def test_another_shape_and_a_nan_are_differences(small, compared):
    shape = compared(small / "short", small / "open")
    assert shape.status == 1
    assert re.match(r"first difference: step 0, mul .*: gives \(1000\), golden \(2000\)\n", shape.stdout)
    assert "also: step 0, sum" not in shape.stdout  # a sum of fewer elements is another one
    for dumps in (("nan", "open"), ("open", "nan")):
        nan = compared(*(small / name for name in dumps))
        assert nan.status == 1
        assert re.match(
            r"first difference: step 0, data data-0, input\.0 of mul .*: 1 of 2000 elements are NaN or infinite on one",
            nan.stdout,
        )
        assert "also: " not in nan.stdout
    assert compared(small / "nan", small / "nan").status == 0


def test_a_dump_of_statistics_is_compared_by_statistics(small, compared):
    run = compared(small / "statistic", small / "open", "--json")
    assert run.status == 0, run.stdout
    outputs = [output for op in json.loads(run.stdout)["ops"] for output in op["outputs"]]
    assert {output["compared_by"] for output in outputs} == {"statistics"}


def test_dumps_that_cannot_be_compared_are_named(small, compared):
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
