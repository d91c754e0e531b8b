"""diffusers' UNet2DModel beside one's own: channels last, norms by einsum, nearest rows by an index."""

import math

import torch
import torch.nn.functional as F
from diffusers import UNet2DModel  # before the forks: it takes seconds
from planted import Pair, bad, unsettle
from torch import nn

WIDE, TIME, GROUPS, SIDE = (8, 16), 32, 4, 12

pair = Pair("ddpm")


class Group(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        y = x.unflatten(-1, (GROUPS, -1))
        y = y - y.mean((1, 2, 4), keepdim=True)
        eps = 1e-3 if bad("eps") else 1e-5
        y = y * torch.rsqrt(y.square().mean((1, 2, 4), keepdim=True) + eps)  # bad("eps")
        return y.flatten(-2) * self.gain + self.shift


class Conv(nn.Module):
    def __init__(self, channels, wide, size=3):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(wide, channels, size, size)), nn.Parameter(torch.zeros(wide))

    def forward(self, x, stride=1):
        around = self.weight.shape[-1] // 2
        return F.conv2d(x.permute(0, 3, 1, 2), self.weight, self.bias, stride, around).permute(0, 2, 3, 1)


class Res(nn.Module):
    def __init__(self, channels, wide):
        super().__init__()
        self.norm1, self.norm2 = Group(channels), Group(wide)
        self.conv1, self.conv2 = Conv(channels, wide), Conv(wide, wide)
        self.time = nn.Linear(TIME, wide)
        self.short = Conv(channels, wide, 1) if channels != wide else None

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(t if bad("time_not_activated") else F.silu(t))[:, None, None]  # bad("time_not_activated")
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.short is None else self.short(x))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        low, high = WIDE
        self.first, self.last, self.norm = Conv(3, low), Conv(low, 3), Group(low)
        self.time1, self.time2 = nn.Linear(low, TIME), nn.Linear(TIME, TIME)
        self.down = nn.ModuleList((Res(low, low), Res(low, high)))
        self.mid = nn.ModuleList((Res(high, high), Res(high, high)))
        self.up = nn.ModuleList((Res(2 * high, high), Res(high + low, high), Res(high + low, low), Res(2 * low, low)))
        self.shrink, self.grow = Conv(low, low), Conv(high, high)

    def when(self, steps):
        half = WIDE[0] // 2
        last = half - 1 if bad("shifted") else half
        speeds = torch.exp(-math.log(10000) * torch.arange(half).float() / last)  # bad("shifted")
        angles = steps[:, None].float() * speeds
        parts = (angles.sin(), angles.cos()) if bad("sin_first") else (angles.cos(), angles.sin())
        return self.time2(F.silu(self.time1(torch.cat(parts, -1))))  # bad("sin_first")

    @torch.no_grad()
    def forward(self, x, steps):
        t = self.when(steps)
        a = self.first(x.permute(0, 2, 3, 1))
        b = self.down[0](a, t)
        c = self.shrink(b, 2)
        d = self.down[1](c, t)
        x = self.mid[1](self.mid[0](d, t), t)
        x = self.up[0](torch.cat((x, d), -1), t)
        x = self.up[1](torch.cat((x, c), -1), t)
        rows = torch.arange(2 * x.shape[1]) // 2
        x = self.grow(x[:, rows][:, :, rows])
        x = self.up[2](torch.cat((x, b), -1), t)
        x = self.up[3](torch.cat((x, a), -1), t)
        return self.last(F.silu(self.norm(x)))


def carry(own, of):
    for mine, theirs in zip(own.parameters(), of.parameters(), strict=True):
        mine.data.copy_(theirs)


def carry_res(own, of):
    carry(own.norm1, of.norm1)
    carry(own.conv1, of.conv1)
    carry(own.time, of.time_emb_proj)
    carry(own.norm2, of.norm2)
    carry(own.conv2, of.conv2)
    if own.short is not None:
        carry(own.short, of.conv_shortcut)


def carried_over(golden):
    own = Own()
    carry(own.first, golden.conv_in)
    carry(own.time1, golden.time_embedding.linear_1)
    carry(own.time2, golden.time_embedding.linear_2)
    theirs = [block.resnets[0] for block in golden.down_blocks]
    theirs += [*golden.mid_block.resnets, *golden.up_blocks[0].resnets, *golden.up_blocks[1].resnets]
    for mine, its in zip((*own.down, *own.mid, *own.up), theirs, strict=True):
        carry_res(mine, its)
    carry(own.shrink, golden.down_blocks[0].downsamplers[0].conv)
    carry(own.grow, golden.up_blocks[0].upsamplers[0].conv)
    carry(own.norm, golden.conv_norm_out)
    carry(own.last, golden.conv_out)
    return own.eval()


@pair.prepare
def prepare():
    golden = UNet2DModel(
        sample_size=SIDE, block_out_channels=WIDE, layers_per_block=1, norm_num_groups=GROUPS, add_attention=False,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    ).eval()  # fmt: skip
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    images, steps = torch.randn(2, 3, SIDE, SIDE), torch.tensor([3, 741])

    @torch.no_grad()
    def original():
        golden(images, steps)

    return original, lambda: own(images, steps)


pair.fault("eps", "rsqrt", "add", "mul")
pair.fault("time_not_activated", "linear", "add")
pair.fault("shifted", "div", "exp")
pair.fault("sin_first", "cat", "linear")
