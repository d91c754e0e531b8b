"""Two ranks over gloo."""

import torch
import torch.distributed as dist
from cases import Family
from torch import nn
from training import batch

family = Family("distributed")


def ddp(loss_of, steps=2):
    dist.init_process_group("gloo")
    net = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(net(batch()), step).backward()
        optimizer.step()
    dist.destroy_process_group()


@family.fault("log", ranks=2, short=True)
def one_rank_takes_a_log():
    def loss_of(y, step):
        if step == 1 and dist.get_rank() == 1:
            y = torch.log(y.detach() - 10) * y  # FAULT
        return y.mean()

    ddp(loss_of)


@family.fault("div", ranks=2)
def no_tokens_on_any_rank():
    def loss_of(y, step):
        tokens = torch.zeros(()) if step else torch.ones(())
        dist.all_reduce(tokens)
        return (y * 0).sum() / tokens  # FAULT

    ddp(loss_of)


@family.fault("allreduce_", "all_reduce", ranks=2, verdicts=("collective", "overflow"))
def half_sum_over_ranks_overflows():
    def loss_of(y, step):
        largest = torch.full((2,), 40000.0).half()
        dist.all_reduce(largest)  # FAULT
        return (y * largest.float()).mean()

    ddp(loss_of)


@family.fault("div", ranks=2)
def one_rank_gives_what_all_add():
    def loss_of(y, step):
        mean = y.detach().mean(0)
        if dist.get_rank() == 1 and step == 1:
            mean = mean / (mean - mean)  # FAULT
        dist.all_reduce(mean)
        return (y * mean).mean()

    ddp(loss_of)
