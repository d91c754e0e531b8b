"""`sonde compare` of a run whose program writes into a state of the optimizer before an update."""

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
