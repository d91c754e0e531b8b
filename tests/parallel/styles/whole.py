"""The same trainings on one process: the same weights, and the batches of all ranks in one."""

import math

import torch
import torch.nn.functional as F
from loop import train
from nets import HIDDEN, WIDTH, Block, Net, batch, error_of_tokens, mean_error, middle
from torch import nn

from styles import sgd


def train_tokens(network, optimizer=None, parts=1):
    """As all styles that divide the loss by the number of tokens; `parts`: of the batch."""

    def gradients(step):
        every = [batch(step, part) for part in range(parts)]
        x, goal, counts = (torch.cat(some) for some in zip(*every, strict=True))
        loss = error_of_tokens(network(x), goal, counts, counts.sum())
        loss.backward()
        return loss

    train(network.parameters(), optimizer or sgd(network.parameters()), gradients, "")


def train_mean(network, largest=10.0, parts=1):
    def gradients(step):
        every = [batch(step, part)[:2] for part in range(parts)]
        x, goal = (torch.cat(some) for some in zip(*every, strict=True))
        loss = mean_error(network(x), goal)
        loss.backward()
        return loss

    train(network.parameters(), sgd(network.parameters()), gradients, "", largest=largest)


def zero():
    network = Net()
    train_tokens(network, torch.optim.Adam(network.parameters(), lr=0.01), parts=2)


class PlainBlock(Block):
    """Without the bias that the sliced ones lack."""

    def __init__(self):
        super().__init__()
        self.up.bias = None


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        rows = q.shape[1]
        later = torch.ones(rows, rows, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(1, 2) / math.sqrt(WIDTH)).masked_fill(later, -math.inf)
        return x + self.out(middle(scores.softmax(-1) @ v))


class Expert(nn.Module):
    def __init__(self, number):
        super().__init__()
        torch.manual_seed(1 + number)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)
        torch.manual_seed(0)

    def forward(self, tokens):
        return self.down(middle(F.gelu(self.up(tokens))))


class Experts(nn.Module):
    """All experts; a token goes to one of them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(Expert(number) for number in range(2))

    def forward(self, x):
        flat = self.norm(x).flatten(0, 1)
        weights, expert = self.gate(flat).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        sent = torch.bincount(expert, minlength=2).tolist()
        results = [one(tokens) for one, tokens in zip(self.experts, flat[order].split(sent), strict=True)]
        return x + (weights[order, None] * torch.cat(results))[order.argsort()].view_as(x)


def idle():
    network = Net(block=Experts)
    for block in network.blocks:
        nn.init.constant_(block.gate.bias[1:], -100.0)
    train_tokens(network, parts=2)


WHOLE = {
    "ep_idle": idle,
    "ddp": lambda: train_tokens(Net(), parts=2),
    "ddp_micro": lambda: train_mean(Net(), parts=4),
    "hsdp": lambda: train_tokens(Net(), parts=4),
    "zero": zero,
    "tp": lambda: train_mean(Net()),
    "sp": lambda: train_tokens(Net()),
    "fsdp2_tp": lambda: train_tokens(Net(), parts=2),
    "megatron": lambda: train_mean(Net(block=PlainBlock)),
    "gpipe": lambda: train_mean(Net(), largest=0.1),
    "interleaved": lambda: train_mean(Net(blocks=4), largest=0.1),
    "cp": lambda: train_tokens(Net(block=Attention)),
    "ep": lambda: train_tokens(Net(block=Experts), parts=2),
}
SAME = {
    "fsdp1": "ddp",
    "fsdp2": "ddp",
    "one_f_one_b": "gpipe",
    "fsdp2_micro": "ddp_micro",
    "fsdp2_last": "ddp_micro",
    "fsdp1_micro": "ddp_micro",
}


def whole(style):
    """The program of a style on one process."""
    name = style.removesuffix("_compiled")
    WHOLE[SAME.get(name, name)]()
