"""The training in the pairs of programs that compute the same in another way."""

import torch
from torch import nn

LOSSES = []  # (number, relative bound of rounding): rewrites_check.py compares those of both programs


def note(value, within=1e-4):
    """A loss that both programs of a pair must have, up to rounding."""
    LOSSES.append((value.item(), within))


def mean_square(y):
    return y.square().mean()


def sgd(network, **options):
    return torch.optim.SGD(network.parameters(), **({"lr": 0.1} | options))


def train(network, data, loss=mean_square, optimizer=None, *, steps=3, within=1e-4):
    """A plain training. `data` draws the tensors of a step from the global generator."""
    optimizer = optimizer or sgd(network)
    for step in range(steps):
        torch.manual_seed(100 + step)
        batch = data()
        optimizer.zero_grad()
        value = loss(network(*batch))
        value.backward()
        optimizer.step()
        note(value, within)


def predict(network, data, steps=2, within=1e-4):
    with torch.no_grad():
        for step in range(steps):
            torch.manual_seed(100 + step)
            note(network(*data()).square().sum(), within)


def rows(*shape):
    return lambda: (torch.randn(*shape),)


def tokens(many, *shape):
    return lambda: (torch.randint(0, many, shape),)


def same_weights(*layers):
    """Gives the layers the same weights, in whichever order they were made."""
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in (p for layer in layers for p in layer.parameters()):
            parameter.copy_(torch.randn(parameter.shape) * 0.3)


def lines(width, *names):
    return {name: nn.Linear(width, width) for name in names}


class Chain(nn.Module):
    """A layer, a rewrite, a layer, the function with the fault, and a layer."""

    def __init__(self, rewrite, faulty, width=8, **parts):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, width), nn.Linear(width, width), nn.Linear(width, 4)
        self.rewrite, self.faulty = rewrite, faulty
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        h = self.rewrite(self, self.a(x))
        return self.c(self.faulty(self, self.b(h)))


def chain(wrong, one, another, faulty, shape=(2, 5, 6), **parts):
    network = Chain(one if wrong else another, faulty, **parts)
    train(network, rows(*shape), optimizer=sgd(network, lr=0.05))


def heads(x):
    return x.unflatten(-1, (2, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)
