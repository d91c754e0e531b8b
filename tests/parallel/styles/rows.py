"""Data parallel trainings with the whole batch of another style: each rank has a part of its rows.

They are in no table of docs/parallel.md: tests/parallel/two.py compares them with the other styles.
"""

import torch
import torch.distributed as dist
from loop import train
from nets import Attention, Net, batch, error_of_tokens, mean_error
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from styles import Style, sgd
from styles.data import shard


def train_rows(run, network, largest=10.0, optimizer=sgd):
    """As the styles in which all ranks have the same batch."""
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def gradients(step):
        x, goal = (part.chunk(ranks)[rank] for part in batch(step)[:2])
        loss = mean_error(network(x), goal)
        loss.backward()
        return loss

    train(network.parameters(), optimizer(network.parameters()), gradients, run.place, largest=largest)


def ddp_rows(run):
    train_rows(run, nn.parallel.DistributedDataParallel(Net()))


def ddp_rows_clipped(run):
    train_rows(run, nn.parallel.DistributedDataParallel(Net()), largest=0.1)


def attention_rows(run):
    """With an optimizer that divides by what the gradients are."""
    network = nn.parallel.DistributedDataParallel(Net(block=Attention))
    train_rows(run, network, optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.01))


def fsdp2_rows(run):
    train_rows(run, shard(Net(), init_device_mesh("cpu", (dist.get_world_size(),))))


def ddp_of_two(run):
    """Each of two ranks has the batches of two of four."""
    network = nn.parallel.DistributedDataParallel(Net())
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def gradients(step):
        every = [batch(step, 2 * rank + part) for part in range(2)]
        x, goal, counts = (torch.cat(some) for some in zip(*every, strict=True))
        tokens = counts.sum()
        dist.all_reduce(tokens)
        loss = error_of_tokens(network(x), goal, counts, tokens, ranks)
        loss.backward()
        return loss

    train(network.parameters(), sgd(network.parameters()), gradients, run.place)


ROWS = {
    program.__name__: Style(program.__name__, program, program.__name__)
    for program in (ddp_rows, ddp_rows_clipped, attention_rows, fsdp2_rows, ddp_of_two)
}
