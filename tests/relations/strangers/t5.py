"""A T5 encoder with relative positions, written out, beside one with the fused attention and a mask of biases."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, HIDDEN, LENGTH, BUCKETS, LAYERS = 24, 3, 40, 7, 8, 2
HEAD = WIDTH // HEADS

pair = Pair("t5")


def buckets(length):
    distance = torch.arange(length)[None, :] - torch.arange(length)[:, None]
    side = (distance > 0).long() * (BUCKETS // 2)
    return side + distance.abs().clamp(max=BUCKETS // 2 - 1)


class GoldenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(WIDTH, eps=1e-5)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.wi_0, self.wi_1, self.wo = (
            nn.Linear(WIDTH, HIDDEN, bias=False),
            nn.Linear(WIDTH, HIDDEN, bias=False),
            nn.Linear(HIDDEN, WIDTH, bias=False),
        )

    def forward(self, x, bias):
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for p in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.wo(F.gelu(self.wi_0(y), approximate="tanh") * self.wi_1(y))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.bias = nn.Embedding(BUCKETS, HEADS)
        self.layers = nn.ModuleList(GoldenLayer() for _ in range(LAYERS))
        self.final = nn.RMSNorm(WIDTH, eps=1e-5)

    def forward(self, ids):
        bias = self.bias(buckets(ids.shape[1])).permute(2, 0, 1)[None]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, bias)
        return self.final(x)


def norm(x, weight):
    eps = 1e-3 if bad("eps") else 1e-5
    size = x.square().mean(-1, keepdim=True)
    return x * torch.rsqrt(size + eps) * weight  # bad("eps")


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {name: weight.detach().clone() for name, weight in golden.named_parameters()}
        self.embed = nn.Parameter(own["embed.weight"])
        bias = own["bias.weight"]
        if bad("bias_rows"):
            bias = bias.flip(0)
        self.bias = nn.Parameter(bias)
        self.final = nn.Parameter(own["final.weight"])
        self.layers = nn.ModuleList()
        for i in range(LAYERS):
            part = {name.removeprefix(f"layers.{i}."): w for name, w in own.items() if name.startswith(f"layers.{i}.")}
            layer = nn.Module()
            layer.qkv = nn.Parameter(torch.cat([part[f"{n}.weight"] for n in "qkv"]))
            layer.o, layer.n1, layer.n2 = (nn.Parameter(part[n]) for n in ("o.weight", "norm1.weight", "norm2.weight"))
            up = torch.cat([part["wi_0.weight"], part["wi_1.weight"]])
            if bad("gate_up_swapped") and i == 1:
                up = torch.cat([part["wi_1.weight"], part["wi_0.weight"]])
            layer.up, layer.down = nn.Parameter(up), nn.Parameter(part["wo.weight"])
            self.layers.append(layer)

    def attention(self, layer, x, bias):
        batch, length, _ = x.shape
        q, k, v = F.linear(x, layer.qkv).view(batch, length, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        if bad("scaled"):
            q = q / math.sqrt(HEAD)  # bad("scaled")
        scores = q @ k.transpose(-1, -2)
        if not bad("no_bias"):
            scores = scores + (bias.transpose(-1, -2) if bad("bias_transposed") else bias)
        weights = scores.softmax(-2) if bad("axis") else scores.softmax(-1)  # bad("no_bias")
        return F.linear((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH), layer.o)

    def forward(self, ids):
        bias = self.bias[buckets(ids.shape[1])].permute(2, 0, 1)
        x = self.embed[ids]
        for layer in self.layers:
            x = x + self.attention(layer, norm(x, layer.n1), bias)
            gate, up = F.linear(norm(x, layer.n2), layer.up).chunk(2, -1)
            gate = F.gelu(gate) if bad("gelu") else F.gelu(gate, approximate="tanh")
            h = gate + up if bad("plus") else gate * up
            x = norm(x, layer.n2) + F.linear(h, layer.down) if bad("residual") else x + F.linear(h, layer.down)
        return x * self.final if bad("no_final") else norm(x, self.final)


@pair.prepare
def prepare():
    golden = Golden()
    target = Own(golden)
    ids = torch.randint(0, 50, (2, LENGTH))
    return lambda: golden(ids), lambda: target(ids)


pair.fault("eps", "add", "rsqrt")
pair.weight("bias_rows", "bias")
pair.weight("gate_up_swapped", "up")
pair.fault("scaled", "div")
pair.fault("no_bias", "softmax")
pair.fault("bias_transposed", "transpose", "add")
pair.fault("axis", "softmax")
pair.fault("gelu", "gelu")
pair.fault("plus", "add")
pair.fault("residual", "add")
pair.fault("no_final", "mul")
