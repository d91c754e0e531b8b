"""A residual block of a diffusion U-Net with a skip connection: norms of groups by hand, convolutions by unfold."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

CHANNELS, GROUPS, SIDE, TIME = 8, 4, 6, 16

pair = Pair("unet")


class Block(nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, inside), nn.GroupNorm(GROUPS, CHANNELS)
        self.conv1 = nn.Conv2d(inside, CHANNELS, 3, padding=1)
        self.conv2 = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.time = nn.Linear(TIME, CHANNELS)
        self.short = nn.Conv2d(inside, CHANNELS, 1)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(t))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.short(x)


def embedded(t, cos_first=True):
    rate = torch.exp(-math.log(10000) * torch.arange(TIME // 2) / (TIME // 2))
    angle = t[:, None] * rate
    parts = (angle.cos(), angle.sin()) if cos_first else (angle.sin(), angle.cos())
    return torch.cat(parts, -1)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.down, self.up = Block(CHANNELS), Block(2 * CHANNELS)

    def forward(self, x, t):
        t = embedded(t)
        x = self.first(x)
        h = self.down(F.avg_pool2d(x, 2), t)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        return self.up(torch.cat((h, x), 1), t)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({name.replace(".", "_"): w.detach().clone() for name, w in golden.named_parameters()})

    def conv(self, x, name):
        weight = self.w[f"{name}_weight"]
        columns = F.unfold(x, weight.shape[-1], padding=weight.shape[-1] // 2)
        y = weight.flatten(1) @ columns + self.w[f"{name}_bias"][:, None]
        return y.unflatten(-1, x.shape[2:])

    def norm(self, x, name):
        groups = 2 if bad("other_groups") else GROUPS
        y = x.reshape(x.shape[0], groups, -1)  # bad("other_groups")
        spread = y.var(-1, unbiased=bad("unbiased"), keepdim=True)
        y = (y - y.mean(-1, keepdim=True)) / torch.sqrt(spread + 1e-5)
        return y.view_as(x) * self.w[f"{name}_weight"][:, None, None] + self.w[f"{name}_bias"][:, None, None]

    def block(self, x, t, name):
        h = self.norm(x, f"{name}_norm1")
        h = self.conv(h * h.sigmoid(), f"{name}_conv1")
        t = F.silu(t)
        if bad("time_bent_twice"):
            t = F.silu(t)  # bad("time_bent_twice")
        h = h + F.linear(t, self.w[f"{name}_time_weight"], self.w[f"{name}_time_bias"])[..., None, None]
        h = self.norm(h, f"{name}_norm2")
        return self.conv(x, f"{name}_short") + self.conv(h * h.sigmoid(), f"{name}_conv2")

    def forward(self, x, t):
        t = embedded(t, not bad("sin_first"))
        x = self.conv(x, "first")
        small = x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).mean((3, 5))
        h = self.block(small, t, "down")
        if bad("smooth"):
            h = F.interpolate(h, scale_factor=2, mode="bilinear")  # bad("smooth")
        else:
            h = h.repeat_interleave(2, 2).repeat_interleave(2, 3)
        both = (x, h) if bad("skip_first") else (h, x)
        return self.block(torch.cat(both, 1), t, "up")  # bad("skip_first")


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, x, t = Own(golden), torch.randn(2, 3, SIDE, SIDE), torch.tensor([3.0, 41.0])
    return lambda: golden(x, t), lambda: target(x, t)


pair.fault("other_groups", "reshape", "view")
pair.fault("unbiased", "var")
pair.fault("time_bent_twice", "silu")
pair.fault("smooth", "interpolate", "upsample_bilinear2d")
pair.fault("skip_first", "cat")
