"""A small causal transformer whose loss becomes NaN in step 2, beside masks that are full of healthy -inf.

    MINDSPORE_DUMP_CONFIG=$PWD/data_dump.json MS_DIAGNOSTIC_DATA_PATH=/data/nan python train.py
    sonde first-bad /data/nan

With --healthy it trains as it should: the golden dump of `sonde compare`.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask):
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        weights = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, time, width))


class Network(nn.Module):
    def __init__(self, words=50, width=32, heads=4):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.head = nn.Linear(width, words)

    def forward(self, words, margin):
        x = self.embedding(words)
        mask = torch.tril(torch.ones(words.shape[1], words.shape[1]))
        x = x + self.attention(self.norm(x), mask)
        certainty = x.softmax(-1).amax(-1, keepdim=True)
        x = x * (1 + torch.log(certainty - margin).tanh() / 100)
        return self.head(x)


parser = argparse.ArgumentParser()
parser.add_argument("--healthy", action="store_true")
arguments = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
network = Network()
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
for step in range(3):
    words = torch.randint(0, 50, (4, 12))
    optimizer.zero_grad()
    margin = 0.2 if step == 2 and not arguments.healthy else 0.0
    logits = network(words, margin)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 50), words[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
