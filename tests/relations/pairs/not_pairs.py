"""Two models with other weights, and two that have nothing in common."""

import torch
from planted import Pair
from torch import nn

other_weights = Pair("other_weights", "other_weights")
unrelated = Pair("unrelated", "unrelated")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(12, 24), nn.Linear(24, 24), nn.Linear(24, 5)

    def forward(self, x):
        return self.three(torch.relu(self.two(torch.relu(self.one(x)))))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.ParameterList(torch.randn(a, b) * 0.3 for a, b in ((12, 24), (24, 24), (24, 5)))

    def forward(self, x):
        for w in self.w[:-1]:
            x = torch.relu(x @ w)
        return x @ self.w[-1]


def forwards(golden, target, x, y):
    def run_golden():
        with torch.no_grad():
            golden(x)

    def run_target():
        with torch.no_grad():
            target(y)

    return run_golden, run_target


@other_weights.prepare
def prepare_other_weights():
    x = torch.randn(4, 12)
    return forwards(Net(), Own(), x, x)


@unrelated.prepare
def prepare_unrelated():
    image = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 5))
    return forwards(image, Own(), torch.randn(4, 3, 10, 10), torch.randn(4, 12))
