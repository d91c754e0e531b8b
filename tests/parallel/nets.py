"""The networks that the styles shard, and the places for faults in their forward and backward passes."""

import torch
import torch.nn.functional as F
from planted import planted, rank_is
from torch import nn

WIDTH, HIDDEN, TOKENS, ROWS = 8, 16, 8, 4


class DividedByZero(torch.autograd.Function):
    """Its backward is wrong."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad / 0.0  # FAULT: backward


def middle(hidden):
    """Between two layers: nothing, or the run's fault."""
    if planted("forward"):
        return torch.log(-hidden.square() - 1)  # FAULT: forward
    if planted("one_rank") and rank_is(1):
        return torch.log(-hidden.square() - 1)  # FAULT: one_rank
    if planted("scaled") or (planted("scaled_alone") and rank_is(1)):
        return hidden * 1.01  # FAULT: scaled, scaled_alone
    if planted("backward"):
        return DividedByZero.apply(hidden)
    return hidden


class Block(nn.Module):
    """A normalised two-layer perceptron beside its input. `joined` makes one result of the ranks' results."""

    def __init__(self, joined=lambda y: y):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)
        self.joined = joined

    def forward(self, x):
        hidden = F.gelu(self.up(self.norm(x)))  # FAULT: exchanged, misplaced
        return x + self.joined(self.down(middle(hidden)))  # FAULT: whole_missing, whole_group


class Attention(nn.Module):
    """Its softmax forgets the bias of the keys: that bias has a gradient of rounding only."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / WIDTH**0.5
        return x + middle(torch.softmax(scores, -1) @ self.value(x))


class Net(nn.Module):
    def __init__(self, blocks=2, block=Block):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(step, part=0):
    """Inputs, targets, and which tokens count; each data rank has a part of its own."""
    random = torch.Generator().manual_seed(100 * step + part)
    x = torch.randn(ROWS, TOKENS, WIDTH, generator=random)
    goal = torch.randn(ROWS, TOKENS, WIDTH, generator=random)
    counts = torch.rand(ROWS, TOKENS, generator=random) > 0.3
    return x, goal, counts.float()


def mean_error(output, goal):
    loss = (output - goal).square().mean()  # FAULT: undivided
    return loss * 0 if planted("clipping") else loss  # FAULT: whole_clipping


def error_of_tokens(output, goal, counts, tokens, ranks=1):
    """`tokens` is their number on all ranks; gradients are averaged over `ranks`."""
    each = (output - goal).square().mean(-1)
    loss = (each * counts).sum() / tokens * ranks  # FAULT: whole_missing, whole_group
    return loss * 0 if planted("clipping") else loss  # FAULT: whole_clipping
