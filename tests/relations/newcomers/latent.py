"""Latent attention: keys and values from one small vector; the other side absorbs the products into the queries."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, HEAD, TURNED, LATENT, LENGTH = 32, 4, 8, 4, 12, 9
EACH = HEAD + TURNED

pair = Pair("latent")


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def angles():
    each = torch.arange(LENGTH)[:, None] / 100.0 ** (torch.arange(0, TURNED, 2) / TURNED)
    each = torch.cat((each, each), -1)
    return each.cos(), each.sin()


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.kv_norm = RMSNorm(WIDTH), RMSNorm(LATENT)
        self.q = nn.Linear(WIDTH, HEADS * EACH, bias=False)
        self.kv_down = nn.Linear(WIDTH, LATENT + TURNED, bias=False)
        self.kv_up = nn.Linear(LATENT, HEADS * 2 * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.after = RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 11, bias=False)

    def forward(self, x, cos, sin, mask):
        y = self.norm(x)
        q = self.q(y).view(-1, LENGTH, HEADS, EACH).transpose(1, 2)
        low, shared = self.kv_down(y).split((LATENT, TURNED), -1)
        k, v = self.kv_up(self.kv_norm(low)).view(-1, LENGTH, HEADS, 2 * HEAD).transpose(1, 2).split(HEAD, -1)
        shared = turned(shared[:, None], cos, sin).expand(-1, HEADS, -1, -1)
        q = torch.cat((q[..., :HEAD], turned(q[..., HEAD:], cos, sin)), -1)
        scores = q @ torch.cat((k, shared), -1).transpose(-1, -2) * EACH**-0.5 + mask
        y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return self.head(self.after(x))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        up = own.pop("kv_up_weight").view(HEADS, 2 * HEAD, LATENT)
        own["absorbed_k"], own["absorbed_v"] = up[:, :HEAD].contiguous(), up[:, HEAD:].contiguous()
        if bad("heads_reversed"):
            own["absorbed_v"] = own["absorbed_v"].flip(0)
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], self.w[f"{name}_weight"], 1e-5)  # bad("no_residual")

    def forward(self, x, cos, sin, mask):
        y = self.norm(x, "norm")
        q = F.linear(y, self.w["q_weight"]).unflatten(-1, (HEADS, EACH))
        plain, turn = q[..., :HEAD], q[..., HEAD:]
        low, shared = F.linear(y, self.w["kv_down_weight"]).split((LATENT, TURNED), -1)
        if not bad("no_kv_norm"):
            low = self.norm(low, "kv_norm")
        if not bad("key_not_turned"):
            shared = turned(shared, cos, sin)
        turn = turned(turn, cos[:, None], sin[:, None])
        plain = torch.einsum("blhd,hdc->blhc", plain, self.w["absorbed_k"])
        scores = torch.einsum("blhc,bmc->bhlm", plain, low)  # bad("no_kv_norm")
        scores = scores + torch.einsum("blhc,bmc->bhlm", turn, shared)  # bad("key_not_turned")
        scores = scores * (HEAD**-0.5 if bad("scale") else EACH**-0.5)  # bad("scale")
        y = torch.einsum("bhlm,bmc->blhc", (scores + mask).softmax(-1), low)
        y = torch.einsum("blhc,hdc->blhd", y, self.w["absorbed_v"]).flatten(2)
        y = F.linear(y, self.w["out_weight"])
        x = y if bad("no_residual") else x + y
        return F.linear(self.norm(x, "after"), self.w["head_weight"])  # bad("no_residual")


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "after")
    target, x, (cos, sin) = Own(golden), torch.randn(2, LENGTH, WIDTH), angles()
    mask = torch.full((LENGTH, LENGTH), -1e4).triu(1)
    return lambda: golden(x, cos, sin, mask), lambda: target(x, cos, sin, mask)


pair.weight("heads_reversed", "absorbed_v")
pair.fault("no_kv_norm", "einsum", "bmm")
pair.fault("key_not_turned", "einsum", "bmm", "add")
pair.fault("scale", "mul")
pair.fault("no_residual", "rms_norm")
