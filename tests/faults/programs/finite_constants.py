"""Numbers and tensors that the step makes itself, with other values."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import (
    network_of,
    rows,
    training,
)
from torch import nn

family = Family("constants of the step")


@family.differs("lift_fresh", "mul", "empty", "tensor", "_to_copy", "detach_", "detach", short=True)
def scale_tensor(wrong):
    def forward(s, x):
        h = s.fc(x)
        h = h * torch.tensor(0.9 if not wrong else 0.5)  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("lift_fresh", "cross_entropy_loss", short=True)
def class_weights(wrong):
    target = torch.tensor([0, 1, 2, 1, 0, 2])

    def loss(y):
        weight = torch.tensor([1.0, 2.0, 0.5] if wrong else [1.0, 2.0, 3.0])  # FAULT
        return F.cross_entropy(y, target, weight)  # FAULT

    training(network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 3)), rows(6, 8), loss)


@family.differs("lift_fresh", "index", "detach_", "detach")
def list_of_indices(wrong):
    def forward(s, x):
        h = s.fc(x)
        return s.out(h[:, [2, 0, 1, 3] if wrong else [2, 1, 0, 3]])  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(4, 4)), rows(6, 8))


@family.differs("mul")
def number_of_the_program(wrong):
    def forward(s, x):
        h = s.fc(x)
        h = h * (0.5 if wrong else 0.9)  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("lift_fresh", "add", "mul", "detach_", "detach")
def table_of_positions(wrong):
    def forward(s, x):
        h = s.fc(x)
        base = 100 if wrong else 10
        angles = [[math.sin(i / base ** (j / 8)) for j in range(8)] for i in range(5)]
        table = torch.tensor(angles)  # FAULT
        return s.out(h + table)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("arange", "mul", "add")
def positions_begin_at_one(wrong):
    def forward(s, x):
        h = s.fc(x)
        position = torch.arange(1.0, 6.0) if wrong else torch.arange(5.0)  # FAULT
        return s.out(h + 0.1 * position.unsqueeze(1))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("full", "ones", "zeros", "fill_", "lstm", "mul")
def first_state(wrong):
    def forward(s, x):
        h = torch.full((1, 3, 8), 0.5 if wrong else 0.1)  # FAULT
        y, _ = s.rnn(x, h)
        return s.out(y)

    training(network_of(forward, rnn=nn.GRU(6, 8, batch_first=True), out=nn.Linear(8, 4)), rows(3, 5, 6))


@family.differs("mul", "lift_fresh", "add", "detach_", "detach", "from_numpy", "_to_copy", "to")
def from_numpy(wrong):
    import numpy as np

    def forward(s, x):
        h = s.fc(x)
        scale = torch.from_numpy(np.linspace(0.1, 2.0 if wrong else 1.0, 8, dtype=np.float32))  # FAULT
        return s.out(h * scale)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("lift_fresh", "where", "to", "detach_", "detach")
def filler_of_where(wrong):
    def forward(s, x):
        h = s.fc(x)
        h = torch.where(h > 0, h, torch.tensor(-0.2 if wrong else -0.1))  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("lift_fresh", "linspace", "mul", "pow")
def frequencies(wrong):
    def forward(s, x):
        f = 1.0 / (1000.0 if wrong else 10000.0) ** (torch.arange(0, 8, 2).float() / 8)  # FAULT
        t = torch.outer(torch.arange(5).float(), f)
        return s.out(s.fc(x) * torch.cat([t.cos(), t.sin()], -1))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(2, 5, 8))


@family.differs("binary_cross_entropy_with_logits", "lift_fresh", "detach_", "detach")
def weight_of_positives(wrong):
    goal = torch.tensor([[0.0], [1.0], [1.0], [0.0], [1.0], [0.0]])

    def loss(y):
        return F.binary_cross_entropy_with_logits(y, goal, pos_weight=torch.tensor([4.0 if wrong else 3.0]))  # FAULT

    training(network_of(lambda s, x: s.fc(x), fc=nn.Linear(8, 1)), rows(6, 8), loss)
