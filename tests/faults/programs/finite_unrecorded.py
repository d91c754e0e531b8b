"""Faults in ops whose tensors are not recorded, and wrong choices after a difference of rounding."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import network_of, rows, training
from torch import nn

family = Family("what was not recorded")
rounding = Family("rounding")


def through(function):
    """A network whose hidden layer goes through the function."""
    network = network_of(lambda s, x: s.out(s.mid(function(s.fc(x))).relu()), **layers())
    training(network, rows(6, 8))


def layers():
    return {"fc": nn.Linear(8, 6), "mid": nn.Linear(6, 16), "out": nn.Linear(16, 4)}


# The operators that vmap wraps call movedim, which is recorded.
@family.differs("cumsum", "mean", "sub", "square", "movedim", short=True)
def vmap_over_the_other_dimension(wrong):
    def one(row):
        return (row.cumsum(0) - row.mean()).square()  # FAULT

    through(torch.func.vmap(one, in_dims=1 if wrong else 0))


@family.differs("cos")
def an_operator_more_under_vmap(wrong):
    def one(row):
        h = row.sin()
        return (h.cos() if wrong else h).exp()  # FAULT

    through(torch.func.vmap(one))


@family.differs("softmax", "_softmax")
def another_dimension_under_vmap(wrong):
    def one(rows):
        return rows.softmax(0 if wrong else 1) * 2  # FAULT

    through(lambda y: torch.func.vmap(one)(y.view(3, 2, 6)).reshape(6, 6))


@family.differs("tanh", "sin", "square", "sum", "cos", "mul", "pow")
def another_function_under_grad(wrong):
    def energy(row):
        return (row.tanh() if wrong else row.sin()).square().sum()  # FAULT

    through(lambda y: y + torch.func.grad(energy)(y.detach()))


@family.differs("pow", "sum")
def another_exponent_under_vmap_of_grad(wrong):
    def energy(row):
        return row.pow(3 if wrong else 2).sum()  # FAULT

    through(lambda y: y + torch.func.vmap(torch.func.grad(energy))(y.detach()))


@family.differs("tanh", "sin", "_make_dual", "mul", "cos")
def another_function_under_jvp(wrong):
    def function(row):
        return row.tanh() if wrong else row.sin()  # FAULT

    through(lambda y: y + torch.func.jvp(function, (y.detach(),), (torch.ones_like(y),))[1])  # FAULT


@family.differs("topk", evidence=("tensors",))
def the_smallest_after_rounding(wrong):
    def choose(y):
        y = y * 3 / 3 if wrong else y
        chosen = y.topk(3, 1, largest=not wrong)[1]  # FAULT
        return y * torch.zeros_like(y).scatter(1, chosen, 1.0)

    through(choose)


@family.differs("sort")
def the_other_order_after_rounding(wrong):
    def order(y):
        y = y * 3 / 3 if wrong else y
        return y.sort(1, descending=wrong)[0]  # FAULT

    through(order)


@family.differs("dropout", short=True)
def more_dropout_after_rounding(wrong):
    def drop(y):
        y = y * 3 / 3 if wrong else y
        return F.dropout(y, 0.5 if wrong else 0.1)  # FAULT

    through(drop)


@rounding.rounding(short=True)
def vmap_with_another_order_of_sums(other):
    def one(row):
        h = (row * 3).exp()
        return h / (h.flip(0).sum() if other else h.sum())

    through(torch.func.vmap(one))


@rounding.rounding()
def vmap_after_rounding(other):
    def one(row):
        return (row - row.mean()) / (row.var() + 1e-5).sqrt()

    through(lambda y: torch.func.vmap(one)(y * 3 / 3 if other else y))


@rounding.rounding()
def vmap_or_a_loop(other):
    def one(row):
        return (row * 2).softmax(0).cumsum(0)

    through(torch.func.vmap(one) if other else lambda y: torch.stack([one(row) for row in y]))


@rounding.rounding()
def vmap_or_a_batched_call(other):
    def one(row):
        return (row * 2).softmax(-1).cumsum(-1)

    through(torch.func.vmap(one) if other else one)
