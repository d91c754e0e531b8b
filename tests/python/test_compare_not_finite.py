"""`sonde compare` of a run whose values became NaN or infinite through ops that have counterparts of other types."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

# A gate with a backward pass of its own. Each fault is an op too many, behind which something is not finite.
GATE = """
import sys, torch
from torch import nn

fault = sys.argv[1]
torch.manual_seed(0)


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * torch.sigmoid(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        s = torch.sigmoid(b)
        if fault == "floor":
            return g * s, g * a * s / (1 - s).floor()  # floor
        if fault == "round":
            return g * s, g * a * s * (1 - s).sub(1).log()  # round
        return g * s, g * a * s * (1 - s)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(16, 8)

    def forward(self, x):
        a, b = self.up(x).chunk(2, -1)
        if fault == "forward":
            a = a / b.abs().floor().clamp(max=0)  # forward
        return self.down(Gate.apply(a, b))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    x = torch.randn(6, 8)
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
OPS = {"floor": "floor", "round": "log", "forward": "div"}


def first_of(directory, fault):
    done = run_in(directory, directory, CLI, "compare", fault, "none", "--json")
    return done.status, json.loads(done.stdout)["findings"]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("not_finite")
    (directory / "train.py").write_text(GATE)
    for fault in ("none", *OPS):
        record(directory, fault, directory / "train.py", fault, saved_data="full")
    return directory


@pytest.mark.parametrize("fault", OPS)
def test_an_op_too_many_is_named_although_its_reader_has_a_counterpart_of_another_type(dumps, fault):
    status, findings = first_of(dumps, fault)
    line = next(n for n, text in enumerate(GATE.splitlines(), 1) if text.endswith(f"# {fault}"))
    assert status == 1 and findings, fault
    code = findings[0].get("code", findings[0])
    assert (findings[0]["step"], findings[0]["op_type"]) == (0, OPS[fault]), findings[0]["text"]
    assert code["source_line"] == line, findings[0]["text"]
