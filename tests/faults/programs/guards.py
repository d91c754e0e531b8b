"""Losses that become bad while a guard keeps them from the gradients: the run continues without a message."""

import math

import torch
from cases import Family
from torch import nn
from training import Small, batch

family = Family("guards")


class Logs(Small):
    def __init__(self, from_step=1):
        super().__init__(self.logs)
        self.calls, self.from_step = 0, from_step

    def logs(self, y):
        self.calls += 1
        return torch.log(torch.relu(y) * 0 + (1 if self.calls <= self.from_step else 0)) + y  # FAULT


def guarded(is_bad, act="continue"):
    net = Logs()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(batch()).mean()
        if is_bad(loss):
            if act == "raise":
                raise FloatingPointError("the loss is not a number")
            continue
        loss.backward()
        optimizer.step()


def guard(*ops, **what):
    def add(program):
        program.__wrapped__ = Logs
        return family.fault(*ops, **what)(program)

    return add


@guard("log", short=True)
def isnan_then_continue():
    guarded(lambda loss: torch.isnan(loss) or torch.isinf(loss))


@guard("log")
def isfinite_then_raise():
    guarded(lambda loss: not torch.isfinite(loss), "raise")


@guard("log")
def loss_compared_with_itself():
    guarded(lambda loss: loss - loss != loss - loss)


@guard("log")
def item_then_continue():
    guarded(lambda loss: not math.isfinite(loss.item()))


@guard("log")
def isnan_any_then_raise():
    guarded(lambda loss: loss.sub(loss).isnan().any(), "raise")


@guard("log")
def loss_above_a_limit():
    guarded(lambda loss: loss.abs() > 1e6)


@family.fault("sqrt")
def nan_loss_by_isnan():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        y = net(batch())
        loss = torch.sqrt(y - 50 * (step > 0) + 10).mean()  # FAULT
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()


@family.fault("div", "sqrt", "pow", "mul")
def gradients_checked_before_the_step():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        y = net(batch())
        torch.sqrt(((y - y.detach()) ** 2).sum(-1)).mean().backward()  # FAULT
        if all(torch.isfinite(p.grad).all() for p in net.parameters()):
            optimizer.step()


@family.fault("div")
def nan_to_num_hides_the_loss():
    """The loss is 0 / 0, and the model is trained on the result of nan_to_num."""
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        y = torch.relu(net(batch()) - 50)
        loss = (y.sum() / y.sum()) + y.mean()  # FAULT
        if torch.isnan(loss):
            print("skipped")
            continue
        loss.backward()
        optimizer.step()


@family.fault("log")
def one_micro_batch_is_skipped():
    """In each step, one of three parts of a batch is bad; the others are trained on."""
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        for micro in range(3):
            y = net(batch())
            loss = torch.log(y.abs() * (micro != 1)).mean()  # FAULT
            if not torch.isfinite(loss):
                continue
            loss.backward()
        optimizer.step()


@family.fault("sqrt")
def first_loss_raises():
    net = nn.Linear(4, 4)
    for _ in range(2):
        loss = torch.sqrt(net(batch()) - 50).mean()  # FAULT
        if loss != loss:  # noqa: PLR0124
            raise FloatingPointError("NaN")
        loss.backward()
