"""`sonde compare` where one run computes on a line in several operators what the other computes in one."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

# A lambda has the line of its call: both ways to compute are on one line.
PROGRAM = """
import sys, torch
from torch import nn
from torch.nn import functional as F

by_hand, fault = sys.argv[1] == "by_hand", sys.argv[2]
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.gate = (nn.Linear(12, 12) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 5)
        self.register_buffer("shift", torch.zeros(12))

    def forward(self, x):
        q, k, v = (f(x).view(8, 3, 4) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(1, 2)
        scores = scores if fault == "scale" else scores / 2.0  # scale
        p = (lambda s: (s - 9).exp() / (s - 9).exp().sum(-1, True))(scores) if by_hand else scores.softmax(-1)
        h = (p @ v).flatten(1)
        with torch.set_grad_enabled(fault != "gate"):
            g = (lambda z: 1 / (1 + torch.exp(-z)))(self.gate(x)) if by_hand else torch.sigmoid(self.gate(x))  # gate
        with torch.no_grad():
            self.shift.add_(h.mean(0), alpha=0.5 if fault == "shift" else 0.1)  # shift
        y = ((lambda z: 0.5 * z * (1 + torch.erf(z * 0.5 ** 0.5)))(h) if by_hand else F.gelu(h)) + self.shift
        return self.head(self.norm(y * (g if fault == "gate" else g + 0)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
for step in range(2):
    x, labels = torch.randn(8, 12), torch.randint(0, 5, (8,))
    optimizer.zero_grad()
    F.cross_entropy(net(x), labels).backward()
    optimizer.step()
"""
LINES = PROGRAM.lstrip().splitlines()


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("blocks", numbered=True)
    (directory / "train.py").write_text(PROGRAM.lstrip())
    for way in ("by_hand", "whole"):
        for fault in ("none", "scale", "gate", "shift"):
            record(directory, f"{way}_{fault}", directory / "train.py", way, fault, saved_data="full")
    return directory


def other(way):
    return "whole" if way == "by_hand" else "by_hand"


@pytest.mark.parametrize("way", ["by_hand", "whole"])
def test_two_ways_on_one_line_are_no_difference(dumps, way):
    done = run_in(dumps, None, CLI, "compare", f"{way}_none", f"{other(way)}_none")
    assert done.status == 0, done.stdout


@pytest.mark.parametrize("way", ["by_hand", "whole"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("scale", ("golden op div ", "has no counterpart in the target, which changes input.0 of ")),
        ("gate", ("golden op ", "the target has no backward of ")),
        ("shift", ("add_ ", "called with alpha=0.5, golden 0.1")),
    ],
)
def test_what_differs_before_it_is_named_and_none_of_its_parts(dumps, way, fault, words):
    done = run_in(dumps, None, CLI, "compare", f"{way}_{fault}", f"{other(way)}_none", "--json")
    (first, *_) = json.loads(done.stdout)["findings"]
    assert done.status == 1 and not first.get("tags"), first
    assert LINES[first["source_line"] - 1].endswith(f"# {fault}"), first
    text = run_in(dumps, None, CLI, "compare", f"{way}_{fault}", f"{other(way)}_none").stdout
    assert all(part in " ".join(text.split()) for part in words), text
