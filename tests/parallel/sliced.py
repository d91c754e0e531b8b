"""Slices of layers without DTensor, as Megatron has them: f before the first layer, g behind the second."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from loop import summed
from nets import HIDDEN, WIDTH, middle
from planted import planted
from torch import nn


class Spread(torch.autograd.Function):
    """f: each rank gets all; the gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class Join(torch.autograd.Function):
    """g: the sum of the ranks' results; each rank gets all of the gradient."""

    @staticmethod
    def forward(ctx, x, only):
        return summed(x.clone(), None, only)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class SlicedBlock(nn.Module):
    def __init__(self, only):
        super().__init__()
        up, down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Parameter(up.weight.detach().chunk(ranks, 0)[rank].clone())
        self.down = nn.Parameter(down.weight.detach().chunk(ranks, 1)[rank].clone())
        self.full_bias = down.bias.detach().clone()
        self.bias = nn.Parameter(self.full_bias * (rank == 0))  # the first rank adds it
        self.only = only

    def forward(self, x):
        hidden = F.gelu(F.linear(Spread.apply(self.norm(x)), self.up))
        is_first = dist.get_rank() == 0
        bias = self.bias * is_first
        if planted("bias") and not is_first:
            bias = bias + self.full_bias  # FAULT: bias
        part = F.linear(middle(hidden), self.down, bias)  # FAULT: bias
        return x + Join.apply(part, self.only)  # FAULT: whole_missing, whole_group
