"""BYOL with torch alone: an online network, a target of averaged weights given two views before it."""

import copy

import torch
from common import step
from torch import nn

online = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8))
target = copy.deepcopy(online)
predictor = nn.Linear(8, 8)
optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.1, momentum=0.9)
for number in range(4):
    one, two = torch.randn(4, 3, 8, 8), torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        wanted = target(one), target(two)
    loss = sum(
        2 - 2 * nn.functional.cosine_similarity(predictor(online(view)), other).mean()
        for view, other in zip((two, one), wanted, strict=True)
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.lerp_(fast, 0.1)
    step(number, loss)
