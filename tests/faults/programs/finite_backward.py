"""A backward pass that only one of the two programs has."""

import torch
from cases import Family
from finite_training import network_of, repeat, slow
from torch import nn

family = Family("gradients")


def _penalised(gradients_of):
    network = network_of(lambda s, x: s.out(s.fc(x).tanh()), fc=nn.Linear(8, 8), out=nn.Linear(8, 1))
    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        x = torch.randn(4, 8, requires_grad=True)
        y = network(x)
        gradients = gradients_of(y, x)
        (y.mean() + (gradients.norm(dim=1) - 1).square().mean()).backward()
        optimizer.step()

    repeat(step)


@family.differs("ones_like", "expand", "mul", "tanh_backward", cause="no backward of", short=True)
def penalty_that_is_not_differentiated(wrong):
    _penalised(lambda y, x: torch.autograd.grad(y.sum(), x, create_graph=not wrong, retain_graph=True)[0])  # FAULT


@family.differs("ones_like", "expand", "mul", "tanh_backward", cause="no backward of")
def penalty_by_backward_that_is_not_differentiated(wrong):
    def gradients_of(y, x):
        y.sum().backward(inputs=[x], create_graph=not wrong, retain_graph=True)  # FAULT
        return x.grad

    _penalised(gradients_of)


@family.differs("div", "pow", "mul", "expand", "linear", "mm", "t", "addmm", cause="no backward of")
def part_without_gradients(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        with torch.set_grad_enabled(not wrong):
            h = h + s.mid(h)  # FAULT
        return s.out(h)

    network = network_of(forward, fc=nn.Linear(8, 8), mid=nn.Linear(8, 8), out=nn.Linear(8, 1))
    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        network(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()

    repeat(step)
