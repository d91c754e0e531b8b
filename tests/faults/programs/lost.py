"""Norms, sums and powers that overflow and divide: nothing is infinite behind the quotient, but everything is zero."""

import math

import torch
from cases import STATISTICS, TENSORS, Family
from torch import nn
from training import Small, batch, train

family = Family("zeros by overflow")
HUGE = 1e20


def clipped(clip, steps=3, net=None):
    net = net or nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        (net(torch.ones(6, 4)).mean() * (HUGE if step else 1.0)).backward()
        clip(list(net.parameters()))
        optimizer.step()


def fault(body, *ops, **what):
    """A program whose true line is in `body`."""

    def add(program):
        program.__wrapped__ = body
        return family.fault(*ops, **what)(program)

    return add


def plainly(parameters):
    nn.utils.clip_grad_norm_(parameters, 1.0, foreach=False)  # FAULT


def by_lists(parameters):
    nn.utils.clip_grad_norm_(parameters, 1.0)  # FAULT


def by_own_code(parameters):
    total = sum(p.grad.pow(2).sum() for p in parameters)  # FAULT
    scale = (1.0 / (total.sqrt() + 1e-6)).clamp(max=1.0)
    for p in parameters:
        p.grad.mul_(scale)


def by_a_number(parameters):
    total = torch.cat([p.grad.flatten() for p in parameters]).norm().item()  # FAULT
    if total > 1.0:
        for p in parameters:
            p.grad.mul_(1.0 / total)


def by_division(parameters):
    flat = torch.cat([p.grad.flatten() for p in parameters])
    flat = flat / (flat * flat).sum().sqrt()  # FAULT
    for p, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        p.grad.copy_(part.view_as(p))


def by_logarithms(parameters):
    squares = sum(p.grad.square().sum() for p in parameters)  # FAULT
    for p in parameters:
        p.grad = p.grad * torch.exp(-0.5 * torch.log(squares))


def adaptively(parameters):
    for p in parameters:
        norm = torch.linalg.vector_norm(p.grad, keepdim=True)  # FAULT
        limit = p.detach().norm() * 0.01
        p.grad = torch.where(norm > limit, p.grad * (limit / norm), p.grad)


def as_shards(parameters):
    """As of sharded training: squares of local norms, their sum over all ranks, one coefficient."""
    local = torch.stack([torch.linalg.vector_norm(p.grad, 2, dtype=torch.float32) for p in parameters])  # FAULT
    total = local.norm() ** 2
    scale = torch.clamp(1.0 / (total**0.5 + 1e-6), max=1.0)
    torch._foreach_mul_([p.grad for p in parameters], [scale] * len(parameters))


@fault(by_lists, "_foreach_norm", "linalg_vector_norm", verdicts=("overflow",), short=True)
def clip_by_norm():
    clipped(by_lists)


@fault(plainly, "linalg_vector_norm", "norm", verdicts=("overflow",))
def clip_by_norm_one_by_one():
    clipped(plainly)


@fault(by_own_code, "pow", "square")
def clip_by_own_code():
    clipped(by_own_code)


@fault(by_a_number, "linalg_vector_norm", "norm")
def clip_by_a_number():
    clipped(by_a_number)


@fault(by_division, "mul")
def clip_by_division():
    clipped(by_division)


@fault(by_logarithms, "square", "pow")
def clip_by_logarithms():
    clipped(by_logarithms)


@fault(adaptively, "linalg_vector_norm")
def clip_adaptively():
    clipped(adaptively)


@fault(as_shards, "linalg_vector_norm")
def clip_as_shards():
    clipped(as_shards)


def layerwise(parameters):
    for p in parameters:
        update = p.grad * 3
        ratio = p.detach().norm() / update.norm()  # FAULT
        p.grad.copy_(update * ratio)


@fault(layerwise, "linalg_vector_norm", "norm")
def trust_ratio_of_a_layer():
    clipped(layerwise)


@family.fault("sum")
def half_sum_of_magnitudes_divides():
    def body(y):
        x = (y * 0 + 400).repeat(1, 100).half()
        return (x / x.abs().sum(-1, keepdim=True)).float()[:, :4] + y  # FAULT

    train(Small(body))


@family.fault("sum", short=True)
def half_softmax_by_hand():
    def body(y):
        e = torch.exp((y * 0 + 11).half())
        return (e / e.sum(-1, keepdim=True)).float() + y  # FAULT

    train(Small(body))


@family.fault("square", "pow", evidence=(TENSORS, STATISTICS))
def one_row_of_a_normalisation():
    rows = torch.tensor([[1.0], [1.0], [300.0], [1.0], [1.0], [1.0]])

    def body(y):
        x = ((y * 0 + 1) * rows).half()
        return (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)).float() + y  # FAULT

    train(Small(body))


@family.fault("var", "pow", "square")
def deviation_from_the_mean():
    def body(y):
        x = (y * 0 + torch.tensor([0.0, 0, 0, 1000])).half()
        apart = x - x.mean(-1, keepdim=True)
        return (apart * (apart.square().mean(-1, keepdim=True) + 1e-5).pow(-0.5)).float() + y  # FAULT

    train(Small(body))


# --- nothing is wrong -------------------------------------------------------------------------------------------------


@family.healthy(short=True)
def weights_by_distance():
    """1 / (1 + d ** 2) of a far point is 0."""

    def body(y):
        apart = (y.detach() * 0 + 300).half()
        return y * (1 / (1 + apart * apart)).float() + y

    train(Small(body))


@family.healthy()
def gaussian_of_a_distance():
    def body(y):
        apart = (y.detach() * 0 + 300).half()
        return y * torch.exp(-(apart.square())).float() + y

    train(Small(body))


@family.healthy()
def gate_of_a_large_number():
    """x * sigmoid(-x), by hand."""
    train(Small(lambda y: (y.detach() * 0 + 200) / (1 + torch.exp(y.detach() * 0 + 200)) + y))


@family.healthy()
def clip_that_finds_nothing():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (net(batch()).relu() * 0).sum().backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        assert math.isfinite(norm.item())
        optimizer.step()


@family.healthy()
def masked_weights_of_rows():
    """Rows without any element have the weight exp(-inf)."""

    def body(y):
        keep = torch.tensor([1.0, 1, 0, 0])
        weight = torch.exp(torch.log(keep) - torch.log(keep).amax())
        return y * weight / weight.sum() + y

    train(Small(body))
