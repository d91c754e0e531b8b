"""Gradients that are changed between backward and the optimizer, or on their way."""

import torch
from cases import STATISTICS, TENSORS, Family
from torch import nn
from training import Small, batch

family = Family("gradients")


def zero_gradients():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.zero_grad()
    (net(batch()) * 0).sum().backward()
    return net, optimizer


@family.fault("div_", short=True)
def divided_by_their_norm():
    net, optimizer = zero_gradients()
    for p in net.parameters():
        p.grad.div_(p.grad.norm())  # FAULT
    optimizer.step()


@family.fault("div_", "mul_")
def divided_by_no_samples():
    net, optimizer = zero_gradients()
    samples = torch.zeros(())
    for p in net.parameters():
        p.grad.div_(samples)  # FAULT
    optimizer.step()


@family.fault("div")
def hook_of_a_tensor():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        y = net(batch())
        y.register_hook(lambda g: g / (g - g))  # FAULT
        y.sum().backward()
        optimizer.step()


@family.fault("div", "mul")
def hook_of_a_parameter():
    net = nn.Linear(4, 4)
    net.weight.register_hook(lambda g: g / (g - g).norm())  # FAULT
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(batch()).sum().backward()
        optimizer.step()


@family.fault("div")
def full_backward_hook():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    net[1].register_full_backward_hook(lambda module, before, after: (before[0] / (after[0] * 0),))  # FAULT
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        net(batch()).sum().backward()
        optimizer.step()


@family.fault("mul_", "_foreach_mul_")
def unscaled_by_infinity():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (net(batch()) * 0).sum().backward()
        torch._foreach_mul_([p.grad for p in net.parameters()], float("inf"))  # FAULT
        optimizer.step()


@family.fault("copy_", "fill_", "add_", "full_like")
def replaced_by_nan():
    net, optimizer = zero_gradients()
    net.weight.grad.fill_(float("nan"))  # FAULT
    optimizer.step()


@family.fault("sqrt", "div", "mul")
def penalty_of_gradients():
    """The norm of a gradient that is zero, differentiated again."""
    net = Small(torch.relu)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        x = batch().requires_grad_()
        (grad,) = torch.autograd.grad((net(x) * 0).sum(), x, create_graph=True)
        penalty = (torch.sqrt((grad**2).sum(-1)) - 1).square().mean()  # FAULT
        penalty.backward()
        optimizer.step()


@family.fault("div_", "mul_", "div")
def accumulated_over_no_batches():
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = 0
    net(batch()).sum().backward()
    for p in net.parameters():
        p.grad = p.grad / torch.tensor(batches)  # FAULT
    optimizer.step()


@family.fault("_unpack_dual", evidence=(TENSORS, STATISTICS))
def derivative_of_forward_mode():
    """The derivative of sqrt at 0; it is computed out of sight, and seen where it is unpacked."""
    from torch.autograd import forward_ad

    net = nn.Linear(4, 4)
    with forward_ad.dual_level():
        root = torch.sqrt(forward_ad.make_dual(torch.zeros(3, 4), torch.ones(3, 4)))
        value, slope = forward_ad.unpack_dual(net(root * 0))  # FAULT
        print(value.sum().item(), slope.sum().item())
