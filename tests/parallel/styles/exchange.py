"""Ranks exchange activations: parts of the sequence (context parallel), or tokens for their experts."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from loop import alone, summed, train
from nets import HIDDEN, WIDTH, Net, batch, error_of_tokens, middle
from planted import planted
from torch import nn
from torch.distributed._functional_collectives import all_gather_single_autograd, all_to_all_single_autograd

from styles import sgd, style


def train_exchanging(run, network, shared, parts_of):
    """`shared` parameters are on all ranks: their gradients are added. Each rank has the loss of its tokens."""
    only = alone()

    def gradients(step):
        x, goal, counts = parts_of(step)
        tokens = summed(counts.sum(), None, only)
        loss = error_of_tokens(network(x), goal, counts, tokens)
        loss.backward()
        for parameter in shared[1:] if planted("unreduced") else shared:
            dist.all_reduce(parameter.grad)
        return loss

    train(network.parameters(), sgd(network.parameters()), gradients, run.place)


class Attention(nn.Module):
    """Causal attention of this rank's queries to the keys and values of all ranks."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        k, v = (all_gather_single_autograd(part.contiguous(), 1, dist.group.WORLD) for part in (k, v))
        rows, columns = q.shape[1], k.shape[1]
        later = torch.ones(rows, columns, dtype=torch.bool).triu(1 + dist.get_rank() * rows)
        scores = (q @ k.transpose(1, 2) / math.sqrt(WIDTH)).masked_fill(later, -math.inf)
        return x + self.out(middle(scores.softmax(-1) @ v))


@style("CP", own=("unreduced",))
def cp(run):
    """Context parallel."""
    network = Net(block=Attention)
    rank = dist.get_rank()
    train_exchanging(
        run, network, list(network.parameters()), lambda step: [part.chunk(2, 1)[rank] for part in batch(step)]
    )


class Combine(torch.autograd.Function):
    """Sends results back where their tokens came from."""

    @staticmethod
    def forward(ctx, x, sent, received):
        ctx.sizes = sent, received
        return exchanged(x, sent, received)

    @staticmethod
    def backward(ctx, grad):
        sent, received = ctx.sizes
        return exchanged(grad, received, sent), None, None


def exchanged(x, sent, received):
    out = x.new_empty(sum(received), x.shape[1])
    dist.all_to_all_single(out, x.contiguous(), received, sent)
    return out


class Experts(nn.Module):
    """An expert on each rank; a token goes to one of them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate = nn.Linear(WIDTH, dist.get_world_size())
        torch.manual_seed(1 + dist.get_rank())
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)
        torch.manual_seed(0)

    def forward(self, x):
        flat = self.norm(x).flatten(0, 1)
        weights, expert = self.gate(flat).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        here = torch.bincount(expert, minlength=dist.get_world_size())
        there = torch.empty_like(here)
        dist.all_to_all_single(there, here)
        sent, received = here.tolist(), there.tolist()
        tokens = all_to_all_single_autograd(flat[order], received, sent, dist.group.WORLD)
        results = self.down(middle(F.gelu(self.up(tokens))))
        back = Combine.apply(results, received, sent)
        return x + (weights[order, None] * back)[order.argsort()].view_as(x)


@style("EP")
def ep(run):
    """Expert parallel."""
    network = Net(block=Experts)
    shared = [p for name, p in network.named_parameters() if ".up." not in name and ".down." not in name]
    train_exchanging(run, network, shared, lambda step: batch(step, dist.get_rank()))


@style("EP, an idle expert", lacks=("one_rank",))
def ep_idle(run):
    """No token goes to the expert of rank 1."""
    network = Net(block=Experts)
    for block in network.blocks:
        torch.nn.init.constant_(block.gate.bias[1:], -100.0)
    shared = [p for name, p in network.named_parameters() if ".up." not in name and ".down." not in name]
    train_exchanging(run, network, shared, lambda step: batch(step, dist.get_rank()))
