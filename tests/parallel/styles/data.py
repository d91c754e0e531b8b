"""Each rank has a part of the batch; parameters, gradients or the optimizer's state may be sharded."""

import contextlib

import torch
import torch.distributed as dist
from loop import alone, of_all_ranks, summed, train
from nets import Net, batch, error_of_tokens, mean_error
from planted import planted
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

from styles import CPU, sgd, style

UNITS = (
    "FSDP unit: first.weight, first.bias, head.weight, head.bias",
    "FSDP unit blocks.1: norm.weight, norm.bias, up.weight, up.bias",
)


def train_data_parallel(run, network, optimizer, group=None, over=None):
    """The loss is divided by the number of tokens on all ranks."""
    forward = run.forward_of(network)
    rank, ranks, only = dist.get_rank(group), dist.get_world_size(group), alone()

    def gradients(step):
        x, goal, counts = batch(step, rank)
        tokens = summed(counts.sum(), group, only)
        loss = error_of_tokens(forward(x), goal, counts, tokens, ranks)
        loss.backward()
        return loss

    train(network.parameters(), optimizer, gradients, run.place, over=over)


def shard(network, mesh):
    for block in network.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(network, mesh=mesh)


@style("DDP", compiles=True, callers=("DDP bucket 0: first.weight",))
def ddp(run):
    network = nn.parallel.DistributedDataParallel(Net())
    train_data_parallel(run, network, sgd(network.parameters()))


def train_micro(run, network, optimizer, enter=lambda part: contextlib.nullcontext()):
    """Each rank adds up the gradients of two batches; `enter(part)` says when they are exchanged."""
    rank = dist.get_rank()

    def gradients(step):
        losses = []
        for part in range(2):
            x, goal, _counts = batch(step, 2 * rank + part)
            with enter(part):
                loss = mean_error(network(x), goal)
                if not planted("undivided"):
                    loss = loss / 2
                loss.backward()
            losses.append(loss)
        return sum(losses)

    train(network.parameters(), optimizer, gradients, run.place)


@style("DDP, micro-batches", own=("undivided",), lacks=("mean", "missing", "group"))
def ddp_micro(run):
    network = nn.parallel.DistributedDataParallel(Net())
    train_micro(
        run,
        network,
        sgd(network.parameters()),
        lambda part: network.no_sync() if part == 0 else contextlib.nullcontext(),
    )


@style("FSDP1", callers=UNITS)
def fsdp1(run):
    network = Net()
    network.blocks = nn.ModuleList(FullyShardedDataParallel(block, device_id=CPU) for block in network.blocks)
    network = FullyShardedDataParallel(network, device_id=CPU)
    train_data_parallel(run, network, sgd(network.parameters()), over=of_all_ranks)


@style("FSDP2", compiles=True, callers=UNITS)
def fsdp2(run):
    network = shard(Net(), init_device_mesh("cpu", (2,)))
    train_data_parallel(run, network, sgd(network.parameters()))


@style("FSDP2, micro-batches", own=("undivided",), lacks=("mean", "missing", "group"), callers=UNITS)
def fsdp2_micro(run):
    """The gradients are exchanged after each of them."""
    network = shard(Net(), init_device_mesh("cpu", (2,)))
    train_micro(run, network, sgd(network.parameters()))


@style("FSDP2, micro-batches, one exchange", own=("undivided",), lacks=("mean", "missing", "group"), callers=UNITS)
def fsdp2_last(run):
    network = shard(Net(), init_device_mesh("cpu", (2,)))

    def enter(part):
        network.set_requires_gradient_sync(part == 1)
        return contextlib.nullcontext()

    train_micro(run, network, sgd(network.parameters()), enter)


@style("FSDP1, micro-batches", own=("undivided",), lacks=("mean", "missing", "group", "clipping"), callers=UNITS)
def fsdp1_micro(run):
    network = Net()
    network.blocks = nn.ModuleList(FullyShardedDataParallel(block, device_id=CPU) for block in network.blocks)
    network = FullyShardedDataParallel(network, device_id=CPU)
    train_micro(
        run,
        network,
        sgd(network.parameters()),
        lambda part: network.no_sync() if part == 0 else contextlib.nullcontext(),
    )


@style("HSDP", ranks=4, callers=UNITS)
def hsdp(run):
    network = shard(Net(), init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))
    train_data_parallel(run, network, sgd(network.parameters()))


@style("ZeRO", callers=("DDP bucket 0: first.weight",), update=("addcdiv_",))
def zero(run):
    network = nn.parallel.DistributedDataParallel(Net())
    optimizer = ZeroRedundancyOptimizer(network.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    train_data_parallel(run, network, optimizer)
