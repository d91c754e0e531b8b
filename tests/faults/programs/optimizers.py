"""Optimizers with bad settings, and with gradients that are zero."""

import torch
from cases import Family
from torch import nn
from training import batch

family = Family("optimizers")


def still(net):
    """A loss whose gradients are zero."""
    return (net(batch()) * 0).sum()


def step(net, optimizer, loss_of=still, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net).backward()
        optimizer.step()  # FAULT


def of_step(*ops, **what):
    """A fault in the line of step() above."""

    def add(program):
        program.__wrapped__ = step
        return family.fault(*ops, **what)(program)

    return add


def moving(net):
    return net(batch()).square().mean()


@of_step("addcdiv_", "_foreach_addcdiv_", short=True)
def adam_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adam(net.parameters(), eps=0))


@of_step("_foreach_addcdiv_")
def foreach_adam_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adam(net.parameters(), eps=0, foreach=True))


@of_step("_fused_adam_")
def fused_adam_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adam(net.parameters(), eps=0, fused=True))


@of_step("_fused_adamw_", "addcdiv_", "_foreach_addcdiv_")
def adamw_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.AdamW(net.parameters(), eps=0, foreach=False))


@of_step("addcdiv_", "_foreach_addcdiv_", "_foreach_div_", "_fused_adagrad_")
def adagrad_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adagrad(net.parameters(), eps=0))


@of_step("addcdiv_", "_foreach_addcdiv_")
def rmsprop_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.RMSprop(net.parameters(), eps=0))


@of_step("sqrt", "_foreach_sqrt", "sqrt_")
def rmsprop_with_alpha_above_one():
    net = nn.Linear(4, 4)
    step(net, torch.optim.RMSprop(net.parameters(), alpha=1.5), moving)


def huge(net):
    """Gradients that are finite, and whose squares are not."""
    return net(batch()).square().mean() * 1e22


# The infinite moment makes every later update zero: all other values stay finite.
@of_step("addcmul_", "_foreach_addcmul_", short=True)
def adam_whose_second_moment_overflows():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adam(net.parameters(), foreach=False), huge, steps=3)


@of_step("_foreach_addcmul_", "addcmul_")
def foreach_adam_whose_second_moment_overflows():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adam(net.parameters(), foreach=True), huge, steps=3)


@of_step("_fused_adamw_")
def fused_adamw_whose_second_moment_overflows():
    net = nn.Linear(4, 4)
    step(net, torch.optim.AdamW(net.parameters(), fused=True), huge, steps=3)


@of_step("addcmul_", "_foreach_addcmul_")
def rmsprop_whose_average_of_squares_overflows():
    net = nn.Linear(4, 4)
    step(net, torch.optim.RMSprop(net.parameters()), huge, steps=3)


@of_step("add_", "_foreach_add_")
def rate_is_nan():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for group in optimizer.param_groups:
        group["lr"] = float("nan")
    step(net, optimizer, moving)


@of_step("add_", "_foreach_add_")
def rate_is_infinite():
    net = nn.Linear(4, 4)
    step(net, torch.optim.SGD(net.parameters(), lr=float("inf"), foreach=True), moving)


@of_step("div_", "_foreach_div_", "addcdiv_", "div", "_foreach_div")
def adadelta_without_eps():
    net = nn.Linear(4, 4)
    step(net, torch.optim.Adadelta(net.parameters(), eps=0))


@family.fault("div", "div_")
def own_normalised_step():
    net = nn.Linear(4, 4)
    for _ in range(2):
        net.zero_grad()
        still(net).backward()
        with torch.no_grad():
            for p in net.parameters():
                p.sub_(0.1 * p.grad / p.grad.norm())  # FAULT


@family.fault("add_", "mul_")
def weight_decay_is_infinite():
    net = nn.Linear(4, 4)
    net(batch()).sum().backward()
    with torch.no_grad():
        for p in net.parameters():
            p.grad.add_(p, alpha=float("inf"))  # FAULT
    torch.optim.SGD(net.parameters(), lr=0.1).step()


@family.fault("lerp_", "mul_", "add_")
def moving_average_with_nan_decay():
    net, average = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (net(batch()) - average(batch())).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(net.parameters(), average.parameters(), strict=True):
                q.mul_(0.9).add_(p, alpha=float("nan"))  # FAULT


@family.fault("mul_", "_foreach_mul_", "linalg_vector_norm", "_foreach_norm", "pow", "square", "mul")
def clipped_by_an_infinite_norm():
    """The norm of finite gradients overflows, so they are scaled by 0."""
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    (net(batch()) * 1e30).sum().backward()
    total = sum(p.grad.pow(2).sum() for p in net.parameters()).sqrt()  # FAULT
    for p in net.parameters():
        p.grad.mul_(total / (total * 2))  # FAULT
    optimizer.step()


@family.fault("reciprocal")
def scale_of_zero():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scale = torch.zeros(())
    for _ in range(2):
        optimizer.zero_grad()
        (net(batch()).mean() * scale).backward()
        inverse = scale.reciprocal()  # FAULT
        for p in net.parameters():
            p.grad.mul_(inverse)
        optimizer.step()


@of_step("add_", "_foreach_add_")
def scheduler_gives_nan():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: float("nan"))
    step(net, optimizer, moving)


@family.fault("square", "mul_")
def weights_grow_by_a_huge_decay():
    net = nn.Linear(4, 4)
    for _ in range(3):
        net.zero_grad()
        net(batch()).square().mean().backward()  # FAULT
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(1e30)  # FAULT
