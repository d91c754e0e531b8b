"""Loss scaling: infinities that a smaller scale removes, and those that no scale does."""

import torch
from cases import Family
from torch import nn
from training import batch

family = Family("loss scaling")


def scaled(body, steps=3, scale=65536.0):
    net = nn.Linear(4, 4)
    gain = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([*net.parameters(), gain], lr=0.001)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for _ in range(steps):
        optimizer.zero_grad()
        scaler.scale(body(net(batch()), gain)).backward()
        scaler.step(optimizer)
        scaler.update()


@family.fault("div", short=True)
def root_of_zero_at_every_scale():
    scaled(lambda y, gain: (y * (1 + gain.sqrt())).mean())  # FAULT


@family.fault("pow")
def power_of_zero_at_every_scale():
    scaled(lambda y, gain: (y * (1 + gain**0.5)).mean())  # FAULT


@family.fault("div", "reciprocal", "log")
def logarithm_of_zero_behind_a_minimum():
    """The loss is finite, its derivative is not."""
    scaled(lambda y, gain: (y * torch.maximum(torch.log(gain.abs()), y.detach() - 100)).mean())  # FAULT


@family.fault("exp")
def factor_of_the_forward():
    """An infinite factor that the loss does not contain, since it is divided by; its derivative does."""

    def body(y, gain):
        high = torch.exp(y.detach() * 0 + 100)  # FAULT
        return (y + gain / high).sum() + (gain.detach() + gain - gain.detach()).mul(high).clamp(max=1).sum()

    scaled(body)


@family.fault("pow", report="pytorch/pytorch#40497", cause="should not be")
def square_of_a_norm_while_the_scaler_skips():
    """The root of the infinity makes zeros of it, and the scale that is too large at first hides them."""

    def body(y, gain):
        half = (y * 3000).half()
        size = half.pow(2).mean(-1, keepdim=True)  # FAULT
        return (half * torch.rsqrt(size) * (1 + gain.half())).float().square().mean() + y.square().mean() * 1e3

    scaled(body, scale=2.0**127)


@family.fault("mul")
def gradient_beyond_its_type():
    """In float16 it is 80000 at the scale 1."""

    def body(y, gain):
        half = (y * 0.001 + gain).half()
        return (half * 80000.0).float().sum()  # FAULT

    scaled(body, scale=1.0)


@family.healthy(short=True)
def the_first_steps_are_skipped():
    scaled(lambda y, gain: (y + gain).square().mean() * 100, steps=5, scale=2.0**126)


@family.healthy()
def half_gradients_at_a_high_scale():
    scaled(lambda y, gain: ((y + gain).half() * 8).float().mean(), steps=4, scale=2.0**20)
