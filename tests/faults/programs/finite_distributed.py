"""Two ranks over gloo, one of which computes something else."""

import torch
import torch.distributed as dist
from cases import TENSORS, Family
from finite_training import repeat
from torch import nn
from training import parallel

family = Family("one bad rank")


def on_two_ranks(wrong, loss=None, between=None):
    """Data parallel by hand: gradients are summed over ranks and divided by their number."""
    dist.init_process_group("gloo")
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    bad = wrong and dist.get_rank() == 1
    loss = loss or (lambda y, bad: y.square().mean())

    def step():
        optimizer.zero_grad()
        loss(network(torch.randn(4, 6)), bad).backward()
        for p in network.parameters():
            if between:
                between(p, bad)
            dist.all_reduce(p.grad)
            p.grad.div_(2)
        optimizer.step()

    repeat(step)
    dist.destroy_process_group()


@family.differs("mul", ranks=2, short=True)
def loss_of_one_rank_scaled(wrong):
    def loss(y, bad):
        return y.square().mean() * (3.0 if bad else 1.0)  # FAULT

    on_two_ranks(wrong, loss)


@family.differs("mul_", ranks=2)
def gradient_of_one_rank_scaled(wrong):
    def between(p, bad):
        if bad:
            p.grad.mul_(0.5)  # FAULT

    on_two_ranks(wrong, between=between)


@family.differs("zero_", ranks=2)
def gradient_of_one_rank_zeroed(wrong):
    def between(p, bad):
        if bad:
            p.grad.zero_()  # FAULT

    on_two_ranks(wrong, between=between)


@family.differs("flip", ranks=2)
def outputs_of_one_rank_flipped(wrong):
    def loss(y, bad):
        goal = torch.linspace(-1.0, 2.0, 3)
        return ((y.flip(1) if bad else y) - goal).square().mean()  # FAULT

    on_two_ranks(wrong, loss)


@family.differs("clamp", ranks=2)
def activations_of_one_rank_clamped(wrong):
    def loss(y, bad):
        return y.clamp(-1.0, 0.1 if bad else 1.0).square().mean()  # FAULT

    on_two_ranks(wrong, loss)


@family.differs("abs", "square", ranks=2)
def loss_of_one_rank_is_another(wrong):
    def loss(y, bad):
        return (y.abs() if bad else y.square()).mean()  # FAULT

    on_two_ranks(wrong, loss)


@family.rounding(ranks=2)
def two_ranks_twice(other):
    on_two_ranks(False)


@family.rounding(ranks=2)
def two_ranks_with_buckets(other):
    """Uninitialised memory of the buckets does not count as a difference."""
    dist.init_process_group("gloo")
    network = parallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    junk = torch.full((5000,), 3.0 if other else -7.0)  # fills what malloc gives again
    del junk

    def step():
        optimizer.zero_grad()
        network(torch.randn(4, 6)).square().mean().backward()
        optimizer.step()

    repeat(step)
    dist.destroy_process_group()


def halves_or_whole(other, hook=None, backward=lambda loss: loss.backward(), update=lambda optimizer: optimizer.step()):
    """DDP, each rank with its half of the rows; or each with all of them."""
    dist.init_process_group("gloo")
    network = parallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    if hook and other:
        network.register_comm_hook(None, hook)

    def step():
        x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
        if other:
            x, y = (rows.chunk(2)[dist.get_rank()] for rows in (x, y))
        optimizer.zero_grad()
        backward(nn.functional.cross_entropy(network(x), y))
        update(optimizer)

    repeat(step)
    dist.destroy_process_group()


@family.rounding(ranks=2, short=True)
def batch_over_two_ranks_or_whole(other):
    """The loss of a rank is that of its rows: another number, and no fault."""
    halves_or_whole(other)


@family.differs("copy_", "detach", "add_", ranks=2, cause="2.000 times the golden gradient", evidence=(TENSORS,))
def gradients_over_two_ranks_are_added(wrong):
    """A communication hook adds the gradients of the ranks and does not divide them."""

    def hook(_, bucket):
        added = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return added.then(lambda sums: sums.value()[0])

    halves_or_whole(
        wrong,
        hook,
        backward=lambda loss: loss.backward(),  # FAULT
        update=lambda optimizer: optimizer.step(),  # FAULT
    )
