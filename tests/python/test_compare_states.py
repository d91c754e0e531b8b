"""`sonde compare` of what one step leaves to the next: states of the optimizer, buffers, an average of the network."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

PROGRAM = """
import sys, torch
from torch import nn

fault, foreach = sys.argv[1], sys.argv[2] == "foreach"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, foreach=foreach)
for step in range(3):
    net(torch.randn(6, 8)).square().mean().backward()
    if step == 1:
        state = optimizer.state[net[2].weight]
        if fault == "mul_":
            state["exp_avg"].mul_(30)  # mul_
        if fault == "div_":
            state["exp_avg_sq"].div_(0)  # div_
        if fault == "neg_":
            state["exp_avg"].neg_()  # neg_
    optimizer.step()
    optimizer.zero_grad()
"""
FAULTS = ("mul_", "div_", "neg_")


@pytest.mark.parametrize("kind", ["foreach", "single"])
@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_the_op_that_writes_a_state_is_named(tmp_path, kind, saved_data):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    for fault in ("none", *FAULTS):
        record(tmp_path, fault, program, fault, kind, saved_data=saved_data)
    for fault in FAULTS:
        done = run_in(tmp_path, tmp_path, CLI, "compare", fault, "none", "--json")
        first = json.loads(done.stdout)["findings"][0]
        line = next(n for n, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"# {fault}"))
        found = first["step"], first["op_type"], first.get("code", first)["source_line"]
        assert found == (1, fault, line), first["text"]


ROUNDED = """
import sys, torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1),
                    nn.GroupNorm(4, 32), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10))
if "last" in sys.argv:  # sums are rounded otherwise
    net = net.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
for step in range(3):
    x, y = torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))
    if "last" in sys.argv:
        x = x.to(memory_format=torch.channels_last)
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    if "wrong" in sys.argv and step == 1:
        optimizer.state[net[4].weight]["momentum_buffer"].mul_(1.01)
    optimizer.step()
"""


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_rounding_that_a_step_leaves_in_a_state_is_healthy(tmp_path, saved_data):
    """The gradient of a bias before a norm is nothing but rounding, and so is its momentum; the running mean is written
    by an operator that gives something else."""
    program = tmp_path / "train.py"
    program.write_text(ROUNDED)
    for name, words in (("plain", []), ("last", ["last"]), ("wrong", ["last", "wrong"])):
        record(tmp_path, name, program, *words, saved_data=saved_data)
    done = run_in(tmp_path, tmp_path, CLI, "compare", "last", "plain")
    assert done.status == 0, done.stdout
    done = run_in(tmp_path, tmp_path, CLI, "compare", "wrong", "plain", "--json")
    first = json.loads(done.stdout)["findings"][0]
    assert (first["step"], first["op_type"]) == (1, "mul_"), first["text"]


AVERAGE = """
import copy, sys, torch
from torch import nn
from torch.nn import functional as F

fault, weight = sys.argv[1], float(sys.argv[2])
torch.manual_seed(0)
student = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
teacher = copy.deepcopy(student).eval()
for parameter in teacher.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), 0.1)
for step in range(3):
    x, y = torch.randn(8, 6) * 2 + 1, torch.randint(0, 4, (8,))
    with torch.no_grad():
        aim = teacher(x).softmax(-1)
    guess = student(x)
    loss = F.cross_entropy(guess, y) + weight * (guess.softmax(-1) - aim).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(teacher.parameters(), student.parameters()):
            old.mul_(0.9).add_(new, alpha=0.1)
        if fault == "other":
            for old, new in zip(student.buffers(), teacher.buffers()):
                old.copy_(new)  # other
        if fault == "none":
            for old, new in zip(teacher.buffers(), student.buffers()):
                old.copy_(new)  # none
"""


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
@pytest.mark.parametrize("weight", ["0.01", "1"])
@pytest.mark.parametrize("fault", ["missing", "other"])
def test_buffers_that_an_average_leaves_out_are_named(tmp_path, fault, weight, saved_data):
    """However little of them reaches the loss."""
    program = tmp_path / "train.py"
    program.write_text(AVERAGE)
    for name in ("none", fault):
        record(tmp_path, name, program, name, weight, saved_data=saved_data)
    done = run_in(tmp_path, tmp_path, CLI, "compare", fault, "none", "--json")
    found = json.loads(done.stdout)["findings"]
    assert done.status == 1 and found, done.stdout
    first = found[0]
    lines = [n for n, text in enumerate(AVERAGE.splitlines(), 1) if text.endswith(("# other", "# none"))]
    assert (first["step"], first["op_type"]) == (0, "copy_"), first["text"]
    assert first["source_line"] in lines, first["text"]


NOISE = """
import sys, torch
from torch import nn

torch.manual_seed(0)
inner, outer = nn.Linear(8, 16), nn.Linear(16, 4)
parameters = [*inner.parameters(), *outer.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=1e-3, amsgrad=True, foreach=False)
for step in range(4):
    hidden = inner(torch.randn(6, 8))
    hidden = hidden - hidden.mean(0)  # the gradient of the inner bias is nothing but rounding
    if sys.argv[1] == "scaled" and step == 1:
        hidden = hidden / 12
    outer(hidden / hidden.norm(dim=-1, keepdim=True)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_state_that_is_made_of_rounding_is_not_blamed(tmp_path):
    """AMSGrad writes its largest square with `out=`: what it left in the step before is known there, too."""
    program = tmp_path / "train.py"
    program.write_text(NOISE)
    for run in ("plain", "scaled"):
        record(tmp_path, run, program, run, saved_data="full")
    for pair in (("scaled", "plain"), ("plain", "scaled")):
        done = run_in(tmp_path, tmp_path, CLI, "compare", *pair)
        assert done.status == 0 and done.stdout.startswith("no difference"), done.stdout


MOMENTUM = """
import sys, torch
from torch import nn

torch.manual_seed(0)
norm = nn.BatchNorm1d(8, momentum=float(sys.argv[1]))
net = nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(2):
    net.train()
    for step in range(2):
        loss = net(torch.randn(8, 6) + 1).square().mean()  # training
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        print(net(torch.randn(8, 6)).square().mean().item())
"""


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_the_momentum_of_a_norm_is_named_where_it_writes(tmp_path, saved_data):
    """It shows in the validation alone."""
    program = tmp_path / "train.py"
    program.write_text(MOMENTUM)
    for name, momentum in (("quick", "0.99"), ("slow", "0.01")):
        record(tmp_path, name, program, momentum, saved_data=saved_data)
    done = run_in(tmp_path, tmp_path, CLI, "compare", "quick", "slow")
    first = " ".join(done.stdout.partition("\n  source")[0].split())
    line = next(n for n, text in enumerate(MOMENTUM.splitlines(), 1) if text.endswith("# training"))
    assert f"train.py:{line}: is called with momentum=0.99, golden 0.01, and writes 1.running_mean" in first, first
    assert "of graph 1" in first and "cancel" not in done.stderr, done.stderr
