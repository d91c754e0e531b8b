"""The training in the programs with finite faults, and in the pairs that differ by rounding only."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def network_of(forward, **modules):
    """A module with these parts, whose forward is a function of it and the data."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            for name, module in modules.items():
                setattr(self, name, module)

        def forward(self, *data):
            return forward(self, *data)

    return Network()


def repeat(step, steps=2):
    torch.manual_seed(1)
    for _ in range(steps):
        step()


def training(network, data, loss=None, optimizer=None, between=None):
    """Two steps of a plain training; `between` is called between backward and the optimizer."""
    optimizer = optimizer or torch.optim.SGD(network.parameters(), lr=0.1)
    loss = loss or (lambda y: y.square().mean())

    def step():
        optimizer.zero_grad()
        loss(network(*data())).backward()
        if between:
            between(network)
        optimizer.step()

    repeat(step)


def rows(*shape):
    return lambda: (torch.randn(*shape),)


def two_layers():
    return network_of(lambda s, x: s.out(s.fc(x).tanh()), fc=nn.Linear(8, 16), out=nn.Linear(16, 4))


def slow(network):
    return torch.optim.SGD(network.parameters(), lr=1e-4)


class Attention(nn.Module):
    def __init__(self, fused=True):
        super().__init__()
        self.qkv, self.out, self.fused = nn.Linear(32, 96), nn.Linear(32, 32), fused

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (h.view(b, t, 4, 8).transpose(1, 2) for h in self.qkv(x).chunk(3, -1))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = ((q @ k.transpose(-1, -2)) / math.sqrt(8)).masked_fill(mask, float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, 32))


class Transformer(nn.Module):
    def __init__(self, fused=True, layers=2):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2 * layers))
        self.attentions = nn.ModuleList(Attention(fused) for _ in range(layers))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(layers))
        self.head = nn.Linear(32, 50)

    def forward(self, ids):
        x = self.embed(ids)
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            x = x + attention(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.head(x)


def language_step(network, optimizer, parts=1, cast=None):
    def step():
        ids = torch.randint(0, 50, (4, 12))
        optimizer.zero_grad()
        for some in ids.chunk(parts):
            with torch.autocast("cpu", torch.bfloat16, enabled=cast is not None):
                logits = network(some[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1).float(), some[:, 1:].flatten()) / parts
            loss.backward()
        optimizer.step()

    return step


def language(network, optimizer, parts=1, cast=None, steps=2):
    repeat(language_step(network, optimizer, parts, cast), steps)


def adam(network, **options):
    return torch.optim.AdamW(network.parameters(), lr=1e-3, **options)
