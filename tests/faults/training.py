"""What the programs train: a network with a hole for the fault, and the plainest of loops."""

import torch
from torch import nn


class Small(nn.Module):
    """`body` of what a linear layer gives."""

    def __init__(self, body, features=4, out=4):
        super().__init__()
        self.fc = nn.Linear(features, out)
        self.body = body

    def forward(self, *inputs):
        return self.body(self.fc(inputs[0]), *inputs[1:])


def batch(rows=6, columns=4):
    return torch.randn(rows, columns)


def train(net, *inputs, loss_of=lambda out: out.mean(), steps=3, optimizer=None):
    inputs = inputs or (batch(),)
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(net(*inputs))
        loss.backward()
        optimizer.step()
    return loss
