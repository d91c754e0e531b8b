"""Each rank has slices of the layers."""

import planted as faults
import torch
import torch.distributed as dist
from loop import alone, of_all_ranks, summed, train
from nets import Block, Net, batch, error_of_tokens, mean_error
from planted import planted
from sliced import SlicedBlock
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from styles import sgd, style
from styles.data import UNITS, shard, train_data_parallel


def train_replicated(run, network, over=None):
    """All ranks have the same batch."""
    forward = run.forward_of(network)

    def gradients(step):
        x, goal, _counts = batch(step)
        loss = mean_error(forward(x), goal)
        loss.backward()
        return loss

    train(network.parameters(), sgd(network.parameters()), gradients, run.place, over=over)


def join_over(mesh, only):
    """A function that adds up the ranks' parts of a result. `only` is a mesh of this rank."""

    def join(part):
        if planted("missing"):
            return part.to_local()
        if planted("group"):
            part = DTensor.from_local(part.to_local(), only, [Partial()])
        whole = part.redistribute(placements=[Replicate()])  # FAULT: missing, group
        if planted("mean"):
            whole = whole / mesh.size()  # FAULT: mean
        return whole.to_local()

    return join


def load_another_shard(weight):
    """Ranks exchange their rows, or all have those of rank 0."""
    rows = weight.full_tensor().detach().chunk(dist.get_world_size())
    with torch.no_grad():
        weight.to_local().copy_(rows[1 - dist.get_rank() if faults.has("exchanged") else 0])


TP_FILES = ("nets.py", "loop.py", "tensor.py")


@style("TP", compiles=True, joins=("all_reduce", "redistribute"), files=TP_FILES, own=("exchanged", "misplaced"))
def tp(run):
    """DTensors are between the two layers of a block, and leave it as parts of a sum."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("tp", "alone"))
    join = join_over(mesh["tp"], mesh["alone"])
    network = Net(block=lambda: Block(join))
    plan = {
        "blocks.*.up": ColwiseParallel(use_local_output=False),
        "blocks.*.down": RowwiseParallel(output_layouts=Partial(), use_local_output=False),
    }
    network = parallelize_module(network, mesh["tp"], plan)
    if faults.has("exchanged") or faults.has("misplaced"):
        load_another_shard(network.blocks[0].up.weight)
    train_replicated(run, network)


SEQUENCE = {
    "first": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "blocks.*.norm": SequenceParallel(),
    "blocks.*.up": ColwiseParallel(input_layouts=Shard(1)),
    "blocks.*.down": RowwiseParallel(output_layouts=Shard(1)),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(1)),
}


@style("TP + SP")
def sp(run):
    """Between the blocks each rank has a part of the sequence, and the loss of it."""
    mesh = init_device_mesh("cpu", (2,))
    network = parallelize_module(Net(), mesh, SEQUENCE)
    rank, only = dist.get_rank(), alone()

    def gradients(step):
        x, *parts = batch(step)
        goal, counts = (part.chunk(2, 1)[rank] for part in parts)
        tokens = summed(counts.sum(), None, only)
        loss = error_of_tokens(network(x), goal, counts, tokens)
        loss.backward()
        return loss

    train(network.parameters(), sgd(network.parameters()), gradients, run.place)


WITH_DATA = SEQUENCE | {"head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())}


@style("FSDP2 + TP", ranks=4, callers=UNITS)
def fsdp2_tp(run):
    """Two by two: slices of layers within a pair, parts of the batch over the pairs."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    network = parallelize_module(Net(), mesh["tensor"], WITH_DATA)
    network = shard(network, mesh["data"])
    train_data_parallel(run, network, sgd(network.parameters()), mesh["data"].get_group())


@style("Megatron", files=("nets.py", "loop.py", "sliced.py"), own=("bias",))
def megatron(run):
    """Slices are plain tensors; functions of the program's own add up results and gradients."""
    only = alone()
    network = Net(block=lambda: SlicedBlock(only))
    train_replicated(run, network, of_all_ranks)
