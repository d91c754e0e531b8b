"""Blocks of diffusers' UNet, with the time, beside one's own: norms by hand, one down and one up."""

import math

import torch
import torch.nn.functional as F
from diffusers.models.embeddings import get_timestep_embedding
from diffusers.models.resnet import Downsample2D, ResnetBlock2D, Upsample2D  # before the forks: it takes seconds
from planted import Pair, bad, unsettle
from torch import nn

CHANNELS, WIDE, TIME, GROUPS, SIDE = 8, 12, 16, 4, 8

pair = Pair("stages")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_in = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(CHANNELS, TIME), nn.SiLU(), nn.Linear(TIME, TIME))
        self.first = ResnetBlock2D(in_channels=CHANNELS, out_channels=WIDE, temb_channels=TIME, groups=GROUPS)
        self.down = Downsample2D(WIDE, use_conv=True)
        self.mid = ResnetBlock2D(in_channels=WIDE, out_channels=WIDE, temb_channels=TIME, groups=GROUPS)
        self.up = Upsample2D(WIDE, use_conv=True)
        self.last = ResnetBlock2D(in_channels=2 * WIDE, out_channels=WIDE, temb_channels=TIME, groups=GROUPS)
        self.conv_out = nn.Conv2d(WIDE, 3, 3, padding=1)

    def forward(self, x, t):
        time = self.time(get_timestep_embedding(t, CHANNELS))
        skip = self.first(self.conv_in(x), time)
        x = self.up(self.mid(self.down(skip), time))
        return self.conv_out(self.last(torch.cat((x, skip), 1), time))


class GroupNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        y = x.reshape(x.shape[0], GROUPS, -1)
        variance = y.var(-1, unbiased=bad("ddof"), keepdim=True)  # bad("ddof")
        y = (y - y.mean(-1, keepdim=True)) / torch.sqrt(variance + 1e-6)
        return y.reshape(x.shape) * self.gamma[:, None, None] + self.beta[:, None, None]


class Block(nn.Module):
    def __init__(self, channels, wide):
        super().__init__()
        self.in_norm, self.out_norm = GroupNorm(channels), GroupNorm(wide)
        self.in_conv, self.out_conv = nn.Conv2d(channels, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
        self.emb = nn.Linear(TIME, wide)
        self.skip = nn.Conv2d(channels, wide, 1) if channels != wide else nn.Identity()

    def forward(self, x, time):
        h = self.in_conv(F.silu(self.in_norm(x)))
        emb = time if bad("time_as_it_is") else F.silu(time)
        emb = self.emb(emb)[:, :, None, None]  # bad("time_as_it_is")
        h = self.out_conv(F.silu(self.out_norm(h + emb)))
        return self.skip(x) + h


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.out = nn.Conv2d(3, CHANNELS, 3, padding=1), nn.Conv2d(WIDE, 3, 3, padding=1)
        self.mlp1, self.mlp2 = nn.Linear(CHANNELS, TIME), nn.Linear(TIME, TIME)
        self.enc, self.mid, self.dec = Block(CHANNELS, WIDE), Block(WIDE, WIDE), Block(2 * WIDE, WIDE)
        self.shrink, self.grow = nn.Conv2d(WIDE, WIDE, 3, 2, 1), nn.Conv2d(WIDE, WIDE, 3, padding=1)

    def embed(self, t):
        half = CHANNELS // 2
        speeds = torch.exp(-math.log(10000) * torch.arange(half) / (half - 1))
        angles = t.float()[:, None] * speeds
        parts = (angles.cos(), angles.sin()) if bad("cosines_first") else (angles.sin(), angles.cos())
        return torch.cat(parts, -1)  # bad("cosines_first")

    @torch.no_grad()
    def forward(self, x, t):
        time = self.mlp2(F.silu(self.mlp1(self.embed(t))))
        kept = self.enc(self.stem(x), time)
        x = self.mid(self.shrink(kept), time)
        if bad("bilinear"):
            x = F.interpolate(x, scale_factor=2.0, mode="bilinear")  # bad("bilinear")
        else:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        x = self.grow(x)
        parts = (kept, x) if bad("skip_first") else (x, kept)
        return self.out(self.dec(torch.cat(parts, 1), time))  # bad("skip_first")


def carried_over(golden):
    own = UNet()
    own.stem.load_state_dict(golden.conv_in.state_dict())
    own.out.load_state_dict(golden.conv_out.state_dict())
    own.mlp1.load_state_dict(golden.time[0].state_dict())
    own.mlp2.load_state_dict(golden.time[2].state_dict())
    own.shrink.load_state_dict(golden.down.conv.state_dict())
    own.grow.load_state_dict(golden.up.conv.state_dict())
    for block, of in ((own.enc, golden.first), (own.mid, golden.mid), (own.dec, golden.last)):
        for norm, its in ((block.in_norm, of.norm1), (block.out_norm, of.norm2)):
            norm.gamma.data.copy_(its.weight)
            norm.beta.data.copy_(its.bias)
        block.in_conv.load_state_dict(of.conv1.state_dict())
        if not bad("not_carried") or block is not own.mid:
            block.out_conv.load_state_dict(of.conv2.state_dict())  # bad("not_carried")
        block.emb.load_state_dict(of.time_emb_proj.state_dict())
        if of.conv_shortcut is not None:
            block.skip.load_state_dict(of.conv_shortcut.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    golden = Golden().eval()
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    x, t = torch.randn(2, 3, SIDE, SIDE), torch.tensor([3, 41])

    @torch.no_grad()
    def run():
        return golden(x, t)

    return run, lambda: own(x, t)


pair.fault("ddof", "var")
pair.fault("time_as_it_is", "linear")
pair.fault("cosines_first", "cat")
pair.fault("bilinear", "upsample_bilinear2d", "interpolate")
pair.fault("skip_first", "cat")
pair.weight("not_carried", "mid.out_conv.weight")
