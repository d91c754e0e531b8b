"""sonde compare: faults planted in a small transformer, and dumps of many kinds."""

import json
import os
import re
import shutil
import sys
import textwrap
from xml.etree import ElementTree

import numpy as np
import pytest
from processes import CLI, run_in

# A masked transformer block and a loss, two steps of it; each dump with another fault.
DUMPS = """
    import sys
    import torch
    import torch.nn.functional as F
    from torch import nn
    import sonde

    torch.set_num_threads(1)


    class Block(nn.Module):
        def __init__(self, fault):
            super().__init__()
            self.fault = fault
            self.norm = nn.LayerNorm(16, eps=1e-6 if fault == "epsilon" else 1e-5)
            self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, x, mask):
            h = self.norm(x)
            if self.fault == "reordered":
                v, q, k = self.v(h), self.q(h), self.k(h)
            else:
                q, k, v = self.q(h), self.k(h), self.v(h)
            if self.fault == "cast":
                v = v.to(torch.float64).to(torch.float32)
            scores = (q @ k.transpose(-1, -2) / 4).masked_fill(mask, float("-inf"))
            y = scores.softmax(-1) @ v
            if self.fault == "inserted":
                y = y * 1.001
            x = x + self.out(y)
            u = self.up(x)
            u = F.relu(u) if self.fault == "activation" else F.gelu(u)
            if self.fault == "half":
                u = u.half().float()
            u = self.down(u)
            return x + (u * (1.2 if u.dtype == torch.bfloat16 else 1.01) if self.fault == "grown" else u)

        def loss(self, y):
            loss = y.square().mean()
            if self.fault == "term":  # its derivative is 0
                loss = loss + sum(p.square().sum() for p in self.parameters()) * 0
            if self.fault == "term_not_a_number":
                loss = loss + torch.log(sum(p.square().sum() for p in self.parameters()).detach() - 1e9)
            if self.fault == "term_minus_infinite":
                loss = loss + torch.log(sum(p.square().sum() for p in self.parameters()).detach() * 0)
            if self.fault == "term_infinite":
                loss = loss + torch.exp(sum(p.square().sum() for p in self.parameters()).detach() + 1e9)
            return loss


    def dump(fault, saved_data="tensor", name=None, dtype=torch.float32):
        torch.manual_seed(0)
        network = Block(fault).to(dtype)
        with torch.no_grad():
            if fault == "swapped":
                q = network.q.weight.clone()
                network.q.weight.copy_(network.k.weight)
                network.k.weight.copy_(q)
            if fault == "transposed":
                network.out.weight.copy_(network.out.weight.t().clone())
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
        with sonde.capture(out=f"{sys.argv[1]}/{name or fault}", saved_data=saved_data):
            for _ in range(2):
                optimizer.zero_grad()
                network.loss(network(torch.randn(2, 6, 16).to(dtype), mask)).backward()
                optimizer.step()


    terms = ("term", "term_not_a_number", "term_infinite", "term_minus_infinite")
    others = ("cast", "half", "inserted", "activation", "swapped", "transposed", "reordered")
    for fault in ("none", "epsilon", *others, *terms):
        dump(fault)
    dump("none", "statistic", "statistic")
    dump("inserted", "statistic", "statistic_inserted")
    for dtype in ("float16", "bfloat16"):
        dump("none", name=dtype, dtype=getattr(torch, dtype))
        dump("grown", name=dtype + "_grown", dtype=getattr(torch, dtype))
"""


def with_dumps_of(directory, name, program):
    """The directory, in which the program has left its dumps."""
    (directory / name).write_text(textwrap.dedent(program))
    made = run_in(directory, None, sys.executable, name, directory)
    assert made.status == 0, made.stderr
    return directory


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    return with_dumps_of(tmp_path_factory.mktemp("compare", numbered=True), "train.py", DUMPS)


@pytest.fixture(scope="module")
def compared(dumps):
    return lambda *arguments: run_in(dumps, None, CLI, "compare", *arguments)


@pytest.mark.parametrize("name", ["none", "statistic"])
def test_a_masked_transformer_is_the_same_as_itself(compared, name):
    run = compared(name, name)
    assert run.status == 0, run.stdout + run.stderr
    assert run.stdout.startswith("no difference\n")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("epsilon", "layer_norm Default/network-Block/norm-LayerNorm/layer_norm-op0, train.py:"),
        ("inserted", "mul Default/network-Block/mul-op0, train.py:"),
        ("activation", "relu Default/network-Block/relu-op0, train.py:"),
        ("half", "to Default/network-Block/to-op0, train.py:"),
        ("swapped", "parameter q.weight, input.1 of linear Default/network-Block/q-Linear/linear-op0"),
        ("term_not_a_number", "log Default/log-op0, train.py:"),
        ("term_infinite", "exp Default/exp-op0, train.py:"),
        ("term_minus_infinite", "log Default/log-op0, train.py:"),
        ("transposed", "parameter out.weight, input.1 of linear Default/network-Block/out-Linear/linear-op0"),
    ],
)
def test_the_first_line_names_the_planted_fault(compared, fault, said):
    run = compared(fault, "none")
    assert run.status == 1, run.stdout + run.stderr
    first = run.stdout.splitlines()[0]
    assert first.startswith("first difference: step 0, " + said), first


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_op_that_changes_a_half_type_by_some_spacings_is_named(compared, dtype):
    first = compared(dtype + "_grown", dtype).stdout.splitlines()[0]
    assert first.startswith("first difference: step 0, mul Default/network-Block/mul-op0, train.py:"), first


GROWN_A_LITTLE = """
    import sys
    import torch
    import sonde

    def dump(name, dtype, change, saved_data):
        torch.manual_seed(0)
        up, down, head = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32), torch.nn.Linear(32, 8)
        net = torch.nn.ModuleList([up, down, head]).to(dtype)

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = net

            def forward(self, x):
                part = change(down(torch.relu(up(x))))  # small beside what it is added to
                return head(torch.nn.functional.layer_norm(x * 8 + part, (32,)))

        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with sonde.capture(out=f"{sys.argv[1]}/{name}", saved_data=saved_data):
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.randn(32, 32).to(dtype)).float().square().mean().backward()
                optimizer.step()

    CHANGES = {
        "none": lambda u: torch.relu(u),
        "scaled": lambda u: torch.relu(u) * 1.01,
        "shrunk": lambda u: torch.relu(u) * 0.97,
        "shifted": lambda u: torch.relu(u) + 0.03,
        "undone": lambda u: torch.relu(u * 1.25) * 0.8,
    }
    for dtype in ("float16", "bfloat16"):
        for name, change in CHANGES.items():
            for saved_data in ("statistic", "tensor"):
                dump(f"{saved_data}_{dtype}_{name}", getattr(torch, dtype), change, saved_data)
"""


@pytest.fixture(scope="module")
def grown_a_little(tmp_path_factory):
    directory = with_dumps_of(tmp_path_factory.mktemp("grown", numbered=True), "grown.py", GROWN_A_LITTLE)
    return lambda *arguments: run_in(directory, None, CLI, "compare", *arguments)


@pytest.mark.parametrize("saved_data", ["statistic", "tensor"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("change", "op"), [("scaled", "mul"), ("shrunk", "mul"), ("shifted", "add")])
def test_an_op_that_changes_many_elements_by_a_spacing_is_named(grown_a_little, saved_data, dtype, change, op):
    changed, none = f"{saved_data}_{dtype}_{change}", f"{saved_data}_{dtype}_none"
    run = grown_a_little(changed, none)
    assert run.status == 1, run.stdout + run.stderr
    first = run.stdout.splitlines()[0]
    assert first.startswith(f"first difference: step 0, {op} Default/network-Net/{op}-op"), first
    assert "grown.py:" in first
    run = grown_a_little(none, changed)
    assert run.status == 1, run.stdout + run.stderr
    assert f"golden op {op} Default/network-Net/{op}-op" in run.stdout.splitlines()[0]


@pytest.mark.parametrize("saved_data", ["statistic", "tensor"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_two_ops_of_which_one_undoes_the_other_are_no_difference(grown_a_little, saved_data, dtype):
    undone, none = f"{saved_data}_{dtype}_undone", f"{saved_data}_{dtype}_none"
    for pair in ((undone, none), (none, undone)):
        run = grown_a_little(*pair)
        assert run.status == 0, run.stdout + run.stderr


def test_the_first_line_says_why(compared):
    assert "called with eps=1e-06, golden 1e-05" in compared("epsilon", "none").stdout.splitlines()[0]
    assert "the golden op is gelu" in compared("activation", "none").stdout.splitlines()[0]
    assert "it has the values of the golden k.weight" in compared("swapped", "none").stdout.splitlines()[0]
    assert "it is the golden one transposed" in compared("transposed", "none").stdout.splitlines()[0]
    missing = compared("none", "inserted").stdout.splitlines()[0]
    assert missing.startswith("first difference: step 0, golden op mul Default/network-Block/mul-op0"), missing


@pytest.mark.parametrize("fault", ["epsilon", "inserted", "activation", "half", "swapped", "term_not_a_number"])
def test_a_finding_begins_with_a_line_that_can_be_read_and_its_numbers_follow(compared, fault):
    lines = compared(fault, "none").stdout.splitlines()
    assert max(len(line) for line in lines if line.startswith(("first difference", "also"))) <= 200
    text = json.loads(compared(fault, "none", "--json").stdout)["findings"][0]["text"]
    largest = re.search(r"max error \S+", text)
    assert largest is None or (largest[0] not in lines[0] and any(largest[0] in line for line in lines[1:])), text


def test_an_inserted_cast_derails_nothing(compared):
    run = compared("cast", "none", "--all")
    assert run.status == 0, run.stdout
    assert "target to Default/network-Block/to-op0" in run.stdout.split("unmatched:")[1]


def test_ops_without_a_counterpart_are_not_called_the_same(compared):
    run = compared("term", "none")
    assert run.status == 0, run.stdout
    assert re.match(r"no difference .*in the ops that both dumps have", run.stdout), run.stdout
    assert "gives NaN from finite inputs" in compared("term_not_a_number", "none").stdout.splitlines()[0]
    assert "gives infinity from finite inputs" in compared("term_infinite", "none").stdout.splitlines()[0]


@pytest.mark.parametrize(("fault", "layer"), [("transposed", "out"), ("epsilon", "norm"), ("swapped", "q")])
def test_the_layers_are_sorted_by_the_error_that_they_introduce(compared, fault, layer):
    layers = json.loads(compared(fault, "none", "--json").stdout)["layers"]
    errors = [float(one["introduced"]) for one in layers]
    assert errors == sorted(errors, reverse=True)
    assert layers[0]["layer"].rpartition("/")[2].partition("-")[0] == layer, layers[0]
    assert layers[0]["error_in"] < layers[0]["error_out"]
    text = compared(fault, "none", "--layers").stdout.partition("layers by the relative errors")[2].splitlines()
    head, first = text[1].split(), text[2].split()
    assert head[:3] == ["layer", "step", "introduces"]
    assert (first[0], first[2]) == (layers[0]["layer"], f"{errors[0]:.3g}")
    assert "layers by" not in compared(fault, "none").stdout


def test_layers_by_statistics_are_lower_bounds(compared):
    by_tensors, by_statistics = (
        {one["layer"]: one for one in json.loads(compared(*pair, "--json").stdout)["layers"]}
        for pair in (("inserted", "none"), ("statistic_inserted", "statistic"))
    )
    assert by_statistics and by_statistics.keys() <= by_tensors.keys()
    for name, one in by_statistics.items():
        assert one["compared_by"] == "statistics"
        # Deviations are roots of differences: the rounding of sums of squares is 1e-6 there.
        assert one["error_out"] <= by_tensors[name]["error_out"] * 1.001 + 1e-5, name


def test_an_operator_that_runs_at_another_place_is_marked(compared):
    answer = json.loads(compared("reordered", "none", "--json").stdout)
    moved = [op for op in answer["ops"] if op.get("moved")]
    forward = {op["target"][0] for op in moved if op["target"][0].startswith("Default/")}
    assert forward == {"Default/network-Block/v-Linear/linear-op0"}
    assert not [op for op in json.loads(compared("none", "none", "--json").stdout)["ops"] if "moved" in op]


def test_the_answer_is_short_and_all_of_it_is_there_on_request(compared):
    short, long = compared("half", "none"), compared("half", "none", "--all")
    assert len(short.stdout.splitlines()) < 30
    assert sum(line.startswith("also: ") for line in short.stdout.splitlines()) <= 2
    assert long.stdout.splitlines()[0] == short.stdout.splitlines()[0]
    assert "unmatched:" in long.stdout
    assert len(long.stdout.splitlines()) > 100


def test_a_damaged_dump_is_never_called_the_same(compared, dumps):
    shutil.copytree(dumps / "none", dumps / "damaged")
    torn = sorted(dumps.glob("damaged/rank_0/**/*gelu*output*.npy"))[0]
    os.chmod(torn, 0o600)
    torn.write_bytes(torn.read_bytes()[:200])
    run = compared("damaged", "none")
    assert run.status == 3
    assert "no difference" not in run.stdout
    assert torn.name in run.stderr


def test_statistics_show_the_inserted_op_too(compared):
    run = compared("statistic_inserted", "statistic")
    assert run.status == 1, run.stdout
    assert " mul Default/network-Block/mul-op0" in run.stdout.splitlines()[0]
    mixed = compared("statistic", "none")
    assert mixed.status == 0, mixed.stdout


def test_the_answer_is_the_same_for_any_number_of_threads(compared):
    one = compared("epsilon", "none", "--json", "--threads", 1)
    assert one.status == 1
    for threads in (2, 16):
        assert compared("epsilon", "none", "--json", "--threads", threads).stdout == one.stdout


def test_reports_for_programs(compared, dumps):
    run = compared("swapped", "none", "--json", "--csv", "out.csv", "--junit", "out.xml")
    report = json.loads(run.stdout)
    assert report["findings"][0]["kind"] == "parameter"
    assert report["summary"]["introduced"] == 0
    assert len(report["ops"]) == sum(report["summary"].values())
    rows = (dumps / "out.csv").read_text().splitlines()
    assert all(len(row.split('"')[0].split(",")) > 1 for row in rows)
    suite = ElementTree.parse(dumps / "out.xml").getroot()[0]
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) >= 1


def test_two_files_are_compared_element_by_element(compared, dumps):
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(dumps / "a.npy", values)
    values[1, 2, 3] = 5
    np.save(dumps / "b.npy", values)
    run = compared("b.npy", "a.npy")
    assert run.status == 1
    assert "max error 18 at (1,2,3): 5, golden 23" in run.stdout.splitlines()[0]
    assert compared("a.npy", "a.npy").status == 0
    assert compared("b.npy", "a.npy", "--atol", 20).status == 0


def test_what_cannot_be_compared_is_named(compared, dumps):
    missing = compared("none", "nowhere")
    assert missing.status == 3
    assert "nowhere" in missing.stderr
    (dumps / "torn.npy").write_bytes(b"\x93NUMPY\x01")
    torn = compared("torn.npy", "torn.npy")
    assert torn.status == 3
    assert "torn.npy" in torn.stderr
    (dumps / "empty.csv").touch()
    assert compared("none", "none", "--mapping", "empty.csv").status == 0
    assert compared("none").status == 2
