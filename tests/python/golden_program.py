"""The program behind tests/golden/: a network whose every number is a small integer or a power of two, so that the
tables hold the same digits on every machine."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 2)
        for parameter in self.parameters():
            nn.init.ones_(parameter)

    def forward(self, x):
        return torch.relu(self.conv(x))


def _network_and_batch():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return Net(), torch.arange(9.0).reshape(1, 1, 3, 3)


def _train(network, batch, prepare=lambda logits: logits):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.125)
    for _ in range(2):
        optimizer.zero_grad()
        prepare(network(batch)).sum().backward()
        optimizer.step()


def train():
    """Two steps of training."""
    _train(*_network_and_batch())


def overflow():
    """Two steps; in each, one operator outside the network makes infinities of zeros."""
    _train(*_network_and_batch(), prepare=lambda logits: (logits * 0).log())


def exception():
    """One operator is called with an argument that it cannot take."""
    network, batch = _network_and_batch()
    network(batch)
    try:
        network(batch.reshape(1, 1, 1, 9))
    except RuntimeError:
        return
    raise AssertionError("the convolution took an image smaller than its kernel")


def channels_last():
    """As train(), with channels-last memory."""
    network, batch = _network_and_batch()
    _train(network.to(memory_format=torch.channels_last), batch.to(memory_format=torch.channels_last))


def flagged():
    """As train(), with the convolution flagged by set_dump."""
    import sonde

    network, batch = _network_and_batch()
    sonde.set_dump(network.conv)
    try:
        _train(network, batch)
    finally:
        sonde.set_dump(network.conv, False)


def run(name):
    {f.__name__: f for f in (train, overflow, exception, channels_last, flagged)}[name]()
