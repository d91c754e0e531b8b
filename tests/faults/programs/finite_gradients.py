"""Gradients that change between backward and the optimizer, which takes small steps."""

import torch
from cases import Family
from finite_training import network_of, repeat, rows, slow, training, two_layers
from torch import nn

family = Family("changed gradients")


@family.differs("zero_", "add_", "_foreach_add_", short=True)
def gradient_zeroed(wrong):
    network = two_layers()

    def between(s):
        if wrong:
            s.fc.weight.grad.zero_()  # FAULT

    training(network, rows(6, 8), None, slow(network), between)


@family.differs("mul_", "add_")
def gradient_tripled(wrong):
    network = two_layers()

    def between(s):
        if wrong:
            for p in s.parameters():
                p.grad.mul_(3)  # FAULT

    training(network, rows(6, 8), None, slow(network), between)


@family.differs("mul_", "_foreach_mul_", "clamp", "mul", "add", "div")
def gradient_clipped_otherwise(wrong):
    network = two_layers()

    def between(s):
        nn.utils.clip_grad_norm_(s.parameters(), 0.01 if wrong else 0.02)  # FAULT

    training(network, rows(6, 8), None, slow(network), between)


@family.differs("mul_", "_foreach_mul_", "clamp", "mul", "linalg_vector_norm", "_foreach_norm")
def gradient_clip_forgotten(wrong):
    network = two_layers()

    def between(s):
        if not wrong:
            nn.utils.clip_grad_norm_(s.parameters(), 0.01)  # FAULT

    training(network, rows(6, 8), None, slow(network), between)


@family.differs("add_", short=True)
def gradient_written_through_numpy(wrong):
    network = two_layers()
    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        if wrong:
            network.out.weight.grad.numpy()[0] = 0
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("add_")
def gradient_dropped(wrong):
    network = two_layers()
    optimizer = slow(network)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        if wrong:
            network.fc.weight.grad = None
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("clamp_", "add_", "lerp_")
def gradient_value_clipped_adam(wrong):
    network = two_layers()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)

    def between(s):
        if wrong:
            s.out.bias.grad.clamp_(-1e-3, 1e-3)  # FAULT

    training(network, rows(6, 8), None, optimizer, between)


@family.differs("add_", "add", "addmm", "mm", "t", "sum", "tanh_backward")
def gradients_accumulate(wrong):
    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    optimizer = slow(network)

    def step():
        if not wrong:
            optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("mul_", "add_", "mul", "_foreach_mul_", "copy_")
def gradient_scaled_by_hook(wrong):
    def forward(s, x):
        h = s.fc(x).tanh()
        h.register_hook(lambda g: g * 0.5 if wrong else g * 1.0)  # FAULT
        return s.out(h)

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    training(network, rows(6, 8), None, slow(network))


@family.differs("add_", "_foreach_add_", "lerp_")
def gradient_noise(wrong):
    network = two_layers()

    def between(s):
        if wrong:
            s.fc.bias.grad.add_(1e-4)  # FAULT

    training(network, rows(6, 8), None, torch.optim.Adam(network.parameters(), lr=1e-5), between)


@family.differs("copy_", "add_", "zero_", "mul_", "detach", "neg", "neg_")
def gradient_sign(wrong):
    network = two_layers()

    def between(s):
        if wrong:
            s.fc.weight.grad = -s.fc.weight.grad  # FAULT

    training(network, rows(6, 8), None, slow(network), between)


@family.differs("add_", "mul_", "lerp_")
def parameters_left_out(wrong):
    network = two_layers()
    parameters = list(network.fc.parameters()) if wrong else list(network.parameters())
    optimizer = torch.optim.SGD(parameters, lr=1e-4)

    def step():
        network.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)


@family.differs("add_", "mm", "t", "detach", "sum", "linear")
def layer_frozen(wrong):
    def forward(s, x):
        return s.out(s.fc(x).tanh())  # FAULT

    network = network_of(forward, fc=nn.Linear(8, 16), out=nn.Linear(16, 4))
    if wrong:
        network.fc.weight.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=1e-4)

    def step():
        optimizer.zero_grad()
        network(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()  # FAULT

    repeat(step)
