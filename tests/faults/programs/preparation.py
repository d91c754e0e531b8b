"""Faults in the preparation of data, before the network reads them: their operator is named, not the data."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import slow, two_layers

family = Family("preparation")


def loop(prepare, loss=None):
    """Three steps; `prepare` makes the network's input and the labels from a raw batch."""
    network = two_layers()
    optimizer = slow(network)
    torch.manual_seed(1)
    for _ in range(3):
        x, y = prepare(torch.rand(6, 8), torch.randint(0, 4, (6,)))
        optimizer.zero_grad()
        (loss or F.cross_entropy)(network(x), y).backward()
        optimizer.step()


@family.differs("div", "sub", short=True)
def normalised_twice(wrong):
    mean, std = torch.linspace(0.3, 0.6, 8), torch.linspace(0.2, 0.3, 8)

    def prepare(raw, labels):
        x = (raw - mean) / std
        if wrong:
            x = (x - mean) / std  # FAULT
        return x, labels

    loop(prepare)


@family.differs("div")
def normalised_by_another_number(wrong):
    loop(lambda raw, labels: ((raw - 0.5) / (0.25 if wrong else 0.3), labels))  # FAULT


@family.differs("add", "remainder")
def shifted_labels(wrong):
    def prepare(raw, labels):
        if wrong:
            labels = (labels + 1) % 4  # FAULT
        return raw, labels

    loop(prepare)


@family.differs("mul", evidence=("tensors",))
def scaled_noise(wrong):
    def prepare(raw, labels):
        noise = torch.randn(6, 8) * (0.5 if wrong else 0.1)  # FAULT
        return raw + noise, labels

    loop(prepare)


@family.differs("relu", "clamp")
def a_clamp_that_is_missing(wrong):
    def prepare(raw, labels):
        x = raw * 4 - 2
        if not wrong:
            x = x.clamp(-1, 1)  # FAULT
        return x.exp(), labels

    loop(prepare)
