"""Each rank has some of the layers, and micro-batches go through all ranks."""

import functools

import torch.distributed as dist
from loop import alone, summed, train
from nets import Net, batch, mean_error
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from styles import CPU, sgd, style

MICRO_BATCHES = 4
EXCHANGES = (
    "pipeline stage 0, forward of micro-batch 3, to stage 1",
    "pipeline stage 1, forward of micro-batch 2, from stage 0",
    "pipeline stage 1, backward of micro-batch 0, to stage 0",
    "pipeline stage 0, backward of micro-batch 1, from stage 1",
)


def stages(count):
    """A block each; the first has the first layer too, the last one the head."""
    network = Net(blocks=count)
    parts = [[block] for block in network.blocks]
    parts[0].insert(0, network.first)
    parts[-1].append(network.head)
    mine = range(dist.get_rank(), count, dist.get_world_size())
    return [PipelineStage(nn.Sequential(*parts[i]), i, count, CPU) for i in mine]


def train_pipeline(run, mine, schedule):
    """The norm of the gradients is that of all stages, and larger than is allowed."""
    parameters = [p for stage in mine for p in stage.submod.parameters()]
    over = functools.partial(summed, alone=alone())
    rank, last = dist.get_rank(), dist.get_world_size() - 1

    def gradients(step):
        x, goal, _counts = batch(step)
        losses = []
        schedule.step(*([x] if rank == 0 else []), **({"target": goal, "losses": losses} if rank == last else {}))
        return sum(losses) if losses else None

    train(parameters, sgd(parameters), gradients, run.place, over=over, largest=0.1)


@style("GPipe", in_order=True, callers=EXCHANGES)
def gpipe(run):
    mine = stages(2)
    train_pipeline(run, mine, ScheduleGPipe(mine[0], MICRO_BATCHES, mean_error))


@style("1F1B", in_order=True, callers=EXCHANGES)
def one_f_one_b(run):
    mine = stages(2)
    train_pipeline(run, mine, Schedule1F1B(mine[0], MICRO_BATCHES, mean_error))


@style("interleaved 1F1B", in_order=True, callers=EXCHANGES)
def interleaved(run):
    """Each rank has two stages: a micro-batch comes to it twice."""
    mine = stages(4)
    train_pipeline(run, mine, ScheduleInterleaved1F1B(mine, MICRO_BATCHES, mean_error))
