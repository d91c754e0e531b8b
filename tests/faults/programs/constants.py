"""Tensors that the step itself makes, from NaN and infinities."""

import numpy as np
import torch
from cases import STATISTICS, TENSORS, Family
from torch import nn
from training import Small, batch, train

family = Family("constants")
NAN, INF = float("nan"), float("inf")


@family.fault("mul", "lift_fresh", "detach_", "tensor", "_to_copy", verdicts=("bad_input",), short=True)
def tensor_of_nan():
    def body(y):
        weight = torch.tensor([1, NAN, 1, 1])  # FAULT
        return y * weight  # FAULT

    train(Small(body))


@family.fault("full", "mul", "add")
def full_of_nan():
    def body(y):
        bias = torch.full((4,), NAN)  # FAULT
        return y + bias

    train(Small(body))


@family.fault("mul", "add")
def number_that_is_nan():
    train(Small(lambda y: y * NAN))  # FAULT


@family.fault("mul")
def number_that_is_infinite():
    train(Small(lambda y: (y - y.detach()) * INF))  # FAULT


@family.fault("fill_", "full_like", "copy_")
def filled_with_nan():
    def body(y):
        bias = torch.zeros(4)
        bias.fill_(NAN)  # FAULT
        return y + bias

    train(Small(body))


@family.fault("log", "lift_fresh")
def logarithm_of_a_constant():
    def body(y):
        scale = torch.log(torch.tensor([1.0, 0, 1, 1]))  # FAULT
        return y * scale

    train(Small(body))


@family.fault("mul", "lift_fresh", "from_numpy", "_to_copy", "detach", "sub", verdicts=("bad_input",))
def constant_of_numpy():
    def body(y):
        with np.errstate(divide="ignore"):
            scale = torch.from_numpy(np.log(np.array([1, 0, 1, 1], np.float32)))  # FAULT
        return y * scale  # FAULT

    train(Small(body))


@family.fault("empty", verdicts=("bad_input",))
def memory_that_nobody_wrote():
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True  # it is filled with NaN

    def body(y):
        noise = torch.empty(6, 4)  # FAULT
        return y + y * noise

    train(Small(body))


@family.fault("div", "reciprocal")
def learned_temperature_begins_at_zero():
    class Temperature(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.temperature = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return torch.softmax(self.fc(x) / self.temperature, -1)  # FAULT

    train(Temperature())


@family.fault("index_put_", "fill_", "copy_", "lift_fresh", "_index_put_impl_")
def element_assigned():
    def body(y):
        mask = torch.ones(6, 4)
        mask[2, 1] = NAN  # FAULT
        return y * mask

    train(Small(body))


@family.fault("arange", "div", "pow")
def positions_divided_by_zero():
    def body(y):
        position = torch.arange(4) / 0  # FAULT
        return y + torch.sin(position)

    train(Small(body), batch())


def filled(body):
    """Memory without contents is filled with NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    train(Small(body))


@family.fault("empty", evidence=(TENSORS, STATISTICS))
def memory_that_is_written_in_part():
    def body(y):
        rows = torch.empty(6, 4)  # FAULT
        rows[:5] = y.detach()[:5]
        return y * rows

    filled(body)


@family.fault("empty", evidence=(TENSORS, STATISTICS))
def memory_that_is_read_by_slices():
    def body(y):
        rows = torch.empty(6, 4)  # FAULT
        return y * torch.stack([rows[i] for i in range(6)])

    filled(body)
