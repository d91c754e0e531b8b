"""Attention of grouped queries written out with `where`, two layers, beside one that calls PyTorch's."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, GROUPS, LAYERS, TOKENS = 24, 6, 2, 2, 5
WIDTH = HIDDEN // HEADS
KEYS = GROUPS * WIDTH

pair = Pair("grouped")


def turned(x):
    angle = torch.arange(x.shape[-2])[:, None] * 100.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    one, two = x.chunk(2, -1)
    return torch.cat((one * angle.cos() - two * angle.sin(), two * angle.cos() + one * angle.sin()), -1)


def heads(x):
    return x.view(*x.shape[:2], -1, WIDTH).transpose(1, 2)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, KEYS), nn.Linear(HIDDEN, KEYS)
        self.out, self.gate, self.up = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 40), nn.Linear(HIDDEN, 40)
        self.down = nn.Linear(40, HIDDEN)

    def forward(self, x):
        q, k, v = turned(heads(self.q(x))), turned(heads(self.k(x))), heads(self.v(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Own(nn.Module):
    def __init__(self, golden, number):
        super().__init__()
        k, v = golden.k.weight.detach(), golden.v.weight.detach()
        if bad("value_heads") and number == 1:
            v = v.view(GROUPS, WIDTH, HIDDEN).flip(0).reshape(KEYS, HIDDEN)
        self.kv = nn.Parameter(torch.cat((k, v)))
        self.kv_bias = nn.Parameter(torch.cat((golden.k.bias.detach(), golden.v.bias.detach())))
        self.q, self.out, self.down = golden.q, golden.out, golden.down
        both = (golden.up, golden.gate) if bad("up_first") and number == 1 else (golden.gate, golden.up)
        self.both = nn.Parameter(torch.cat([one.weight.detach() for one in both]))
        self.both_bias = nn.Parameter(torch.cat([one.bias.detach() for one in (golden.gate, golden.up)]))

    def forward(self, x):
        k, v = F.linear(x, self.kv, self.kv_bias).chunk(2, -1)
        q, k, v = heads(self.q(x)), turned(heads(k)), heads(v)
        q = q if bad("query_not_turned") else turned(q)
        k = k.repeat_interleave(HEADS // GROUPS, 1)
        v = v.repeat(1, 3, 1, 1) if bad("values_in_turn") else v.repeat_interleave(HEADS // GROUPS, 1)
        scores = q @ k.transpose(-1, -2) / WIDTH**0.5  # bad("query_not_turned")
        if not bad("sees_all"):
            keep = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril(1 if bad("sees_next") else 0)
            scores = torch.where(keep, scores, float("-inf"))
        y = scores.softmax(-1) @ v  # bad("sees_all")
        y = y.permute(0, 2, 3, 1) if bad("axes") else y.permute(0, 2, 1, 3)
        x = x + self.out(y.reshape(x.shape))
        gate, up = F.linear(x, self.both, self.both_bias).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


@pair.prepare
def prepare():
    golden = nn.Sequential(*(Golden() for _ in range(LAYERS)))
    target = nn.Sequential(*(Own(layer, number) for number, layer in enumerate(golden)))
    x = torch.randn(3, TOKENS, HIDDEN)

    def runs(model):
        with torch.no_grad():
            return model(x)

    return lambda: runs(golden), lambda: runs(target)


pair.fault("query_not_turned", "view", "transpose", "matmul", "chunk")
pair.fault("values_in_turn", "repeat")
pair.fault("sees_all", "softmax")
pair.fault("sees_next", "tril")
pair.fault("axes", "permute", "reshape")
pair.weight("value_heads", "1.kv")
pair.weight("up_first", "1.both")
