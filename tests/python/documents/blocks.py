import argparse

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.norm(self.conv(x))
        a = y.narrow(1, 0, 2)
        a.mul_(2.5)
        return y


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(4), Block(4))
        self.fc = nn.Linear(4 * 6 * 6, 3)

    def forward(self, x):
        return self.fc(self.blocks(x).flatten(1))


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
torch.manual_seed(0)
torch.set_num_threads(1)
network = Small()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
for _ in range(3 * parser.parse_args().epochs):
    optimizer.zero_grad()
    loss = network(torch.randn(2, 4, 6, 6)).square().mean()
    loss.backward()
    optimizer.step()
