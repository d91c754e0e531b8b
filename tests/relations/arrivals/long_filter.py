"""Hyena: gated convolutions as long as the sequence, by a Fourier transform beside a matrix of shifted filters."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, LENGTH, PLACES, ORDER, WORDS, BATCH = 16, 12, 9, 16, 30, 2

pair = Pair("long_filter")


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(PLACES, ORDER), nn.GELU(), nn.Linear(ORDER, WIDTH, bias=False))
        self.register_buffer("deltas", torch.linspace(0.3, 1.5, WIDTH))

    def forward(self):
        t = torch.linspace(0, 1, LENGTH)[:, None]
        bands = (
            torch.linspace(1e-4, PLACES // 2 - 1, PLACES // 2) * 2 * torch.pi * torch.arange(LENGTH)[:, None] / LENGTH
        )
        z = torch.cat([t, bands.cos(), -bands.sin()], -1)
        return self.mlp(z) * torch.exp(-t * self.deltas)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.in_proj, self.out_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.short = nn.Conv1d(3 * WIDTH, 3 * WIDTH, 3, groups=3 * WIDTH, padding=2)
        self.filter, self.bias = Filter(), nn.Parameter(torch.randn(WIDTH))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        u = self.in_proj(self.norm(x)).transpose(1, 2)
        x0, x1, v = self.short(u)[..., :LENGTH].split(WIDTH, 1)
        u = v * x1
        k_f = torch.fft.rfft(self.filter().t(), n=2 * LENGTH) / (2 * LENGTH)
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * LENGTH) * k_f, n=2 * LENGTH, norm="forward")[..., :LENGTH]
        y = (y + u * self.bias[:, None]) * x0
        return self.head(x + self.out_proj(y.transpose(1, 2)))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.state_dict().items()}
        own["short_weight"] = own["short_weight"].squeeze(1).t().contiguous()
        self.w = nn.ParameterDict(own)

    def filter(self):
        t = torch.arange(LENGTH)[:, None] / (LENGTH - 1)
        rates = torch.arange(PLACES // 2) / (PLACES // 2 - 1) * (PLACES // 2 - 1 - 1e-4) + 1e-4
        angles = 2 * torch.pi / LENGTH * torch.arange(LENGTH)[:, None] * rates
        sign = 1 if bad("sine_turned") else -1
        z = torch.cat((t, angles.cos(), angles.sin() * sign), -1)  # bad("sine_turned")
        h = F.gelu(F.linear(z, self.w["filter_mlp_0_weight"], self.w["filter_mlp_0_bias"]))
        return F.linear(h, self.w["filter_mlp_2_weight"]) * torch.pow(torch.e, -t * self.w["filter_deltas"])

    def shorts(self, u):
        ahead = 1 if bad("centred") else 0
        u = F.pad(u, (0, 0, 2 - ahead, ahead))  # bad("centred")
        shifted = torch.stack([u[:, i : i + LENGTH] * self.w["short_weight"][i] for i in range(3)])  # bad("centred")
        return shifted.sum(0) + self.w["short_bias"]

    def forward(self, ids):
        x = F.embedding(ids, self.w["embed_weight"])
        u = F.layer_norm(x, (WIDTH,), self.w["norm_weight"], self.w["norm_bias"])
        u = self.shorts(F.linear(u, self.w["in_proj_weight"], self.w["in_proj_bias"]))
        gate, other, v = u.split(WIDTH, -1)
        u = v * other
        places = torch.arange(LENGTH)
        distance = places[:, None] - places
        if bad("circular"):
            shifts = self.filter()[distance % LENGTH]  # bad("circular")
        else:
            shifts = self.filter()[distance.clamp(min=0)] * (distance >= 0)[..., None]
        y = torch.einsum("tsc,bsc->btc", shifts, u)  # bad("circular")
        if not bad("no_skip"):
            y = torch.addcmul(y, u, self.w["bias"])
        y = y * gate  # bad("no_skip")
        return (x + F.linear(y, self.w["out_proj_weight"], self.w["out_proj_bias"])) @ self.w["head_weight"].t()


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, ids = Own(golden), torch.randint(0, WORDS, (BATCH, LENGTH))
    return lambda: golden(ids), lambda: target(ids)


pair.fault("sine_turned", "mul", "cat")
pair.fault("centred", "pad", "constant_pad_nd", "slice", "mul")
pair.fault("circular", "index", "einsum", "remainder")
pair.fault("no_skip", "mul")
