"""`sonde first-bad` follows a bad value to where it began: over steps, over ranks, and past its own echo."""

import itertools
import shutil

import pytest
from processes import CLI, python, run_in
from ranks import DISTRIBUTED, run_ranks
from test_first_bad import look, record

COUNTER = """
import torch
from torch import nn

torch.manual_seed(0)


class Cooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("heat", torch.tensor(2.0))
        self.gain = nn.Parameter(torch.tensor(0.15))

    def forward(self, x):
        y = self.linear(x)
        y = {expression}
        {countdown}
        return y


net = Cooling()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    loss = net(torch.ones(2, 4)).square().mean() + net.gain
    loss.backward()
    optimizer.step()
"""


# A buffer that reaches 0, read as a copy or as a view of one; a parameter that an update makes negative.
@pytest.mark.parametrize(
    ("expression", "countdown", "name"),
    [
        ("y / self.heat.clone()", "self.heat -= 1", "heat"),
        ("y / self.heat.clone().view(1)", "self.heat.sub_(1)", "heat"),
        ("y * self.gain.detach().log()", "pass", "gain"),
    ],
)
def test_the_operand_is_followed_to_the_step_that_wrote_it(tmp_path, expression, countdown, name):
    program = tmp_path / "train.py"
    program.write_text(COUNTER.format(expression=expression, countdown=countdown))
    dump = record(tmp_path, "dump", program, saved_data="statistic")
    first = look("first-bad", dump).first
    lines = program.read_text().splitlines()
    assert first["step"] == 2 and lines[first["code"]["source_line"] - 1].strip() == f"y = {expression}"
    (before,) = first["before"]
    writer, text = ("add_", "optimizer.step()") if name == "gain" else ("sub_", countdown)
    assert before["step"] == 1 and before["op_type"] == writer, before
    assert lines[before["source_line"] - 1].strip() == text
    assert any(f"is {name}, which " in line and "wrote in step 1" in line for line in first["evidence"])


def test_an_operand_of_this_step_has_no_writer_before(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(COUNTER.format(expression="y / (self.heat * 0)", countdown="pass"))
    dump = record(tmp_path, "dump", program, saved_data="statistic")
    first = look("first-bad", dump).first
    assert first["step"] == 0 and "before" not in first


PIPELINE = (
    DISTRIBUTED
    + """
    torch.manual_seed(rank)
    stage = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    for step in range(3):
        if rank == 0:
            y = stage(torch.ones(2, 4))
            if step == 1:
                y = y / (y - y)
            dist.send(y.detach(), 1)
            gradient = torch.empty(2, 4)
            dist.recv(gradient, 1)
            y.backward(gradient)
        else:
            x = torch.empty(2, 4)
            dist.recv(x, 0)
            x.requires_grad_()
            stage(x).square().mean().backward()
            dist.send(x.grad, 0)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
"""
)


def test_what_comes_back_from_the_next_stage_is_no_second_fault(tmp_path):
    run = run_ranks(tmp_path, PIPELINE, saved_data="statistic")
    assert run.status == 0, run.stderr
    answer = look("first-bad", run.dump)
    assert (answer.first["rank"], answer.first["step"], answer.first["op_type"]) == (0, 1, "div")
    assert [finding["op_type"] for finding in answer.findings] == ["div"]
    assert [finding["op_type"] for finding in answer.by_rank] == ["div"]


SHARDED = (
    DISTRIBUTED
    + """
    from torch.distributed.fsdp import fully_shard
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    fully_shard(net[2])
    fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, foreach=False)
    for step in range(3):
        y = net(torch.ones(2, 4))
        if step == 1 and rank == 1:
            y = (y - y).log() * 0
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
"""
)


def test_the_memory_that_a_collective_works_in_is_no_aside(tmp_path):
    run = run_ranks(tmp_path, SHARDED, saved_data="statistic")
    assert run.status == 0, run.stderr
    answer = look("first-bad", run.dump)
    assert (answer.first["rank"], answer.first["step"], answer.first["op_type"]) == (1, 1, "log")
    assert not answer.asides, answer.asides
    for rank in range(2, 13):
        shutil.copytree(run.dump / "rank_0", run.dump / f"rank_{rank}")
    answer = look("first-bad", run.dump)
    assert "ranks 0, 2-12 went wrong later, or in another operator" in answer.first["evidence"]


RATE = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach={foreach})
for step in range(9):
    optimizer.param_groups[0]["lr"] = 1e30 if step == 5 else 0.1
    optimizer.zero_grad()
    (net(torch.ones(4, 16)) - 1).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("foreach", [False, True])
def test_growth_of_a_parameter_is_followed_to_its_update(tmp_path, foreach):
    program = tmp_path / "train.py"
    program.write_text(RATE.format(foreach=foreach))
    dump = record(tmp_path, "dump", program, saved_data="statistic")
    growth = look("first-bad", dump).growth
    assert (growth["step"], growth["tensor"]["op_type"]) == (5, "_foreach_add_" if foreach else "add_"), growth
    assert growth["tensor"]["parameter"] == "0.weight"
    assert program.read_text().splitlines()[growth["code"]["source_line"] - 1].strip() == "optimizer.step()"


LOADED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        return torch.full((3,), float("nan") if i == 9 else 1.0)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(Samples(), batch_size=4, num_workers={workers}):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_sample_comes_with_the_batch_of_its_loader(tmp_path, workers):
    program = tmp_path / "train.py"
    program.write_text(LOADED.format(workers=workers))
    dump = record(tmp_path, "dump", program, saved_data="statistic")
    report = look("first-bad", dump)
    first = report.first
    assert all(one != after for one, after in itertools.pairwise(report.path)), report.path
    line = program.read_text().splitlines()[first["code"]["source_line"] - 1]
    wanted = 'torch.full((3,), float("nan")' if workers == 0 else "in DataLoader(Samples()"
    assert wanted in line, first
    assert first["step"] == 1  # the batch of step 2 is made at the end of step 1
    assert workers == 0 or (first["kind"], first["op_type"]) == ("bad_input", "set_")


DROWNED = """
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(20, 8), nn.Linear(4, 20)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 0.5)
for _ in range(3):
    x = torch.rand(32, 20) * 30
    mean, logvar = encoder(x).chunk(2, 1)
    z = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
    divergence = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(1).mean()
    loss = (decoder(z) - x).square().sum(1).mean() + divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_an_infinity_that_nan_hides_is_not_healthy(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(DROWNED)
    dump = record(tmp_path, "dump", program, saved_data="statistic")
    answer = look("first-bad", dump)
    assert answer.first["op_type"] == "exp"
    assert not answer.healthy, answer.healthy


BATCH_OF_A_LOADER = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        x = torch.full((8,), i / 64)
        if i == 40:
            x = x / x.std()
        return x, x[:1]


torch.manual_seed(0)
net = nn.Linear(8, 1)
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
for x, y in DataLoader(Samples(), batch_size=8):
    optimizer.zero_grad()
    (net(x) - y).square().mean().backward()
    optimizer.step()
"""


def test_a_batch_that_is_made_after_the_optimizer_says_so(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(BATCH_OF_A_LOADER)
    run = run_in(tmp_path, None, CLI, "run", "--out", "dump", "--", *python(), program)
    answer = look("first-bad", tmp_path / "dump")
    assert (answer.first["op_type"], answer.first["step"], answer.first["tags"]) == ("div", 4, ["after_optimizer"])
    said = "it ran after the optimizer of step 4: the program may count it as the next step"
    assert said in answer.first["evidence"]
    assert not answer.growth, "of exp_avg_sq, which grows from 0"
    later = answer.goes_on
    assert (later["step"], answer.path[later["first"]].endswith("linear-op0")) == (5, True), "the model reads the batch"
    assert look("first-bad", tmp_path / "dump", "--step", "5").path == answer.path
    assert " -> linear-op0 of step 5 -> " in run_in(tmp_path, None, CLI, "first-bad", "dump").stdout
    assert "first bad value in step 4, after its optimizer: Default/div" in run.stderr
    loss = look("first-bad", record(tmp_path, "log", loss_of_a_log(tmp_path), saved_data="statistic")).first
    assert (loss["op_type"], loss["tags"]) == ("log", []), "the loss comes before the optimizer"


def loss_of_a_log(directory):
    program = directory / "log.py"
    program.write_text(BATCH_OF_A_LOADER.replace("i == 40", "i < 0").replace("- y).square()", "- net(x)).log()"))
    return program


BETA = """
import torch
from torch import nn

torch.manual_seed(0)
query, key = nn.Linear(16, 16).half(), nn.Linear(16, 16).half()
optimizer = torch.optim.SGD([*query.parameters(), *key.parameters()], 0.01)
for step in range(2):
    x = torch.randn(8, 16).half() * (600 if step == 1 else 1)
    q, k = query(x), key(x)
    memory = torch.full(({shape}), float("nan")).half() if {filled} else torch.empty(({shape}), dtype=q.dtype)
    scores = {product}
    loss = scores.float().softmax(-1).square().mean()
    loss.backward()
    optimizer.step()
"""
PRODUCTS = {
    "addmm": ("8, 8", "torch.addmm(memory, q, k.t(), beta=0)"),
    "baddbmm": ("2, 8, 8", "torch.baddbmm(memory, q.view(2, 8, 8), k.view(2, 8, 8), beta=0, alpha=0.5)"),
    "addbmm": ("8, 8", "torch.addbmm(memory, q.view(2, 8, 8), k.view(2, 8, 8), beta=0)"),
    "addmv": ("8,", "torch.addmv(memory, q, k[0], beta=0)"),
    "in place": ("8, 8", "memory.addmm_(q, k.t(), beta=0)"),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("filled", [False, True], ids=["unwritten", "NaN"])
def test_an_operand_times_a_beta_of_0_is_not_read(tmp_path, name, filled):
    shape, product = PRODUCTS[name]
    program = tmp_path / "train.py"
    program.write_text(BETA.format(shape=shape, product=product, filled=filled))
    report = look("first-bad", record(tmp_path, "dump", program, saved_data="full"))
    lines = program.read_text().splitlines()
    first = report.first
    assert first["step"] == 1 and product in lines[first["code"]["source_line"] - 1], report
    assert first["kind"] in ("overflow", "operator") and "65504" in first["why"], first


SCALED = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 8).half()
net.bias.data.fill_({bias})
optimizer = torch.optim.SGD(net.parameters(), 1e-9)
for step in range(2):
    x = torch.randn(2, 4, 8).half() * (30 if step else 1)
    memory = torch.full((2, 4, 4), {added}).half()
    y = net(x)
    scores = {product}
    loss = scores.float().softmax(-1).square().mean()
    loss.backward()
    optimizer.step()
"""


# An overflow may come from the factor of a sum of products, or from what is added to it.
@pytest.mark.parametrize("saved_data", ["full", "statistic"])
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            {
                "bias": 0,
                "added": 0.0,
                "product": "torch.baddbmm(memory, y, x.transpose(1, 2), alpha=200.0 if step else 1.0)",
            },
            ", times 200",
        ),
        (
            {
                "bias": 0,
                "added": 3e4,
                "product": "torch.baddbmm(memory, y, x.transpose(1, 2), beta=2.5 if step else 1)",
            },
            ", with 2.5 times the bias",
        ),
        ({"bias": 6e4, "added": 0.0, "product": "net(x * (200 if step else 1)) / 65504"}, ", with the bias"),
    ],
    ids=["alpha", "beta", "bias"],
)
def test_a_factor_and_a_bias_explain_an_overflow(tmp_path, saved_data, program, words):
    file = tmp_path / "train.py"
    file.write_text(SCALED.format(**program))
    first = look("first-bad", record(tmp_path, "dump", file, saved_data=saved_data)).first
    assert first["kind"] == "overflow" and words in first["why"], first


SAMPLER = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
optimizer = torch.optim.SGD(net.parameters(), 0.1)
image = torch.randn(2, 4)
left = torch.tensor(2.0)
for step in range(3):
    if {trains}:
        net(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        noise = net(image)
        left = left - 1
        image = (image - noise) * left.clamp(min=0).sqrt() / left.clamp(min=0)  # the last image
        if step == 1:
            break
print(image.mean().item())
"""


# The last result of a sampler reaches no model. Beside a training it may be a metric.
@pytest.mark.parametrize("trains", [False, True])
def test_the_result_of_a_program_that_trains_nothing_matters(tmp_path, trains):
    program = tmp_path / "train.py"
    program.write_text(SAMPLER.format(trains=trains))
    report = look("first-bad", record(tmp_path, "dump", program, saved_data="full"))
    found = report.asides[0] if trains else report.first
    assert program.read_text().splitlines()[found["code"]["source_line"] - 1].endswith("# the last image")
    assert bool(report.findings) != trains


LOST = """
import torch
from torch import nn

torch.manual_seed(0)
weight = nn.Parameter(torch.ones(4).half())
optimizer = torch.optim.{optimizer}
for step in range(2):
    y = weight * (1 - step)
    loss = ({expression}).float().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


# An eps of 1e-8 is 0 in float16.
@pytest.mark.parametrize(
    ("expression", "optimizer", "number"),
    [
        ("y / (y.abs() + 1e-8)", "SGD([weight], 0.1)", "1e-08"),
        ("y / y.abs().clamp(min=1e-9)", "SGD([weight], 0.1)", "1e-09"),
        ("y.clamp_min(1e-9).log()", "SGD([weight], 0.1)", "1e-09"),
        ("y * 0", "Adam([weight], 0.1, foreach=False)", "1e-08"),
    ],
)
def test_a_number_that_the_type_does_not_hold_is_named(tmp_path, expression, optimizer, number):
    program = tmp_path / "train.py"
    program.write_text(LOST.format(expression=expression, optimizer=optimizer))
    first = look("first-bad", record(tmp_path, "dump", program, saved_data="full")).first
    lost = f"is called with {number}, which is 0 in float16: its smallest number above 0 is 5.96046e-08"
    assert any(lost in line for line in first["evidence"]), first


REFERENCE = """
import torch
from torch import nn

torch.manual_seed(0)
policy, reference = nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD(policy.parameters(), 0.1)
for step in range(3):
    counts = torch.tensor([1.0, 2.0, 0.0 if step == 1 else 3.0, 4.0])
    x = torch.randn(4, 4) * counts.sign()[:, None]
    mine = policy(x).sum(1)
    with torch.no_grad():
        theirs = (reference(x) - reference.bias).sum(1) / counts  # the reference
    loss = (mine - theirs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_model_without_gradients_made_in_the_middle_of_a_step_is_named_there(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(REFERENCE)
    first = look("first-bad", record(tmp_path, "dump", program, saved_data="full")).first
    line = program.read_text().splitlines()[first["code"]["source_line"] - 1]
    assert (first["op_type"], first["graph"], first["step"]) == ("div", 1, 1) and line.endswith("# the reference"), (
        first
    )
