"""The training in the programs: a network with a place for the fault, and the plainest loop."""

import torch
from torch import nn


class Small(nn.Module):
    """`body`, applied to the result of a linear layer."""

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


_kept = []


def parallel(net):
    """For the ranks. It is kept: in PyTorch 2.13 a process may hang, without Sonde too, where its gloo threads wait for
    the interpreter while the network is destroyed."""
    net = nn.parallel.DistributedDataParallel(net)
    _kept.append(net)
    return net
