"""Memory that is written without notice."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, training
from torch import nn

family = Family("aliasing that changes values")


@family.differs("add_", "add", short=True)
def residual_written_in_place(wrong):
    def forward(s, x):
        h = s.fc(x)
        y = h.add_(1) if wrong else h + 1  # FAULT
        return s.out(y.tanh() + h)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("mul_", "zero_", "fill_", "copy_", "select", "add", "linear")
def view_written(wrong):
    def forward(s, x):
        h = s.fc(x)
        first = h.detach()[0]
        if wrong:
            first.mul_(2)  # FAULT
        return s.out(h)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("linear", "tanh", "add_", "addmm")
def weight_written_through_numpy(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        if wrong:
            s.out.weight.detach().numpy()[0] *= 1.5
        return s.out(h)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("tanh", "linear", short=True)
def activation_written_through_numpy(wrong):
    def forward(s, x):
        h = s.fc(x)
        if wrong:
            h.detach().numpy()[:, 0] = 0
        return s.out(h.tanh())  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("fill_", "zero_", "mul_", "add_", "select", "copy_", "index_put_", "_index_put_impl_")
def first_row_zeroed(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        g = h.clone()
        if wrong:
            g[0] = 0  # FAULT
        return s.out(g)

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("copy_", "add_", "mul_", "linear", "clone", "sub", "lerp_", "mul", "add")
def moving_average_is_an_alias(wrong):
    def forward(s, x):
        y = s.out(s.fc(x).tanh())
        return y - s.mean  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    network.register_buffer("mean", torch.zeros(4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        y = network(torch.randn(6, 8))
        y.square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            network.mean.mul_(0.9).add_(y.mean(0), alpha=0.2 if wrong else 0.1)  # FAULT

    repeat(step)
