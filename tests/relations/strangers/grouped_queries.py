"""Qwen2: grouped queries with biases, the heads of keys and values repeated by hand, gate and up in one weight."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, GROUPS, INNER, LENGTH, LAYERS = 32, 4, 2, 48, 6, 3
HEAD = WIDTH // HEADS

pair = Pair("grouped_queries")


class GoldenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k, self.v = nn.Linear(WIDTH, GROUPS * HEAD), nn.Linear(WIDTH, GROUPS * HEAD)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (-1, HEAD)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class OwnLayer(nn.Module):
    def __init__(self, golden, index):
        super().__init__()
        own = {name: w.detach().clone() for name, w in golden.named_parameters()}
        self.wqkv = nn.Parameter(torch.cat([own[f"{n}.weight"] for n in "qkv"]))
        biases = [own[f"{n}.bias"] for n in "qkv"]
        if bad("value_bias_lost"):
            biases[2] = torch.zeros_like(biases[2])
        self.bqkv = nn.Parameter(torch.cat(biases))
        self.wo, self.w2 = nn.Parameter(own["o.weight"]), nn.Parameter(own["down.weight"])
        self.w13 = nn.Parameter(torch.cat([own["gate.weight"], own["up.weight"]]))
        self.n1, self.n2 = nn.Parameter(own["norm1.weight"]), nn.Parameter(own["norm2.weight"])
        if bad("norms_exchanged") and index == 1:
            self.n1, self.n2 = self.n2, self.n1

    @staticmethod
    def norm(x, weight):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight

    def forward(self, x):
        batch, length, _ = x.shape
        fused = F.linear(self.norm(x, self.n1), self.wqkv, self.bqkv).view(batch, length, -1, HEAD).transpose(1, 2)
        q, k, v = fused.split((HEADS, GROUPS, GROUPS), 1)
        times = HEADS // GROUPS
        if bad("repeated_in_turn"):
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)  # bad("repeated_in_turn")
        else:
            k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        scores = q.matmul(k.transpose(2, 3)) * HEAD**-0.5
        if not bad("sees_all"):
            scores = scores + torch.full((length, length), -1e9).triu(1)
        weights = scores.softmax(-1)  # bad("sees_all")
        y = weights.matmul(v)
        if not bad("heads_not_moved"):
            y = y.transpose(1, 2)
        y = y.reshape(batch, length, WIDTH)  # bad("heads_not_moved")
        x = x + F.linear(y, self.wo)
        one, two = F.linear(self.norm(x, self.n2), self.w13).chunk(2, -1)
        return x + F.linear(F.gelu(one) * two if bad("gelu") else F.silu(one) * two, self.w2)


@pair.prepare
def prepare():
    golden = nn.Sequential(*(GoldenLayer() for _ in range(LAYERS)))
    for name, weight in golden.named_parameters():
        if "norm" in name or "bias" in name:
            weight.data.add_(0.2 * torch.randn_like(weight))
    target = nn.Sequential(*(OwnLayer(layer, i) for i, layer in enumerate(golden)))
    x = torch.randn(2, LENGTH, WIDTH)
    return lambda: golden(x), lambda: target(x)


pair.weight("value_bias_lost", "0.bqkv")
pair.weight("norms_exchanged", "1.n1")
pair.fault("repeated_in_turn", "repeat")
pair.fault("sees_all", "softmax")
pair.fault("heads_not_moved", "reshape", "view", "linear")
pair.fault("gelu", "gelu")
