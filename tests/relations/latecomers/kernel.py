"""Attention of kernels: a running state for each token beside masked products of all tokens at once."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, HEAD, LENGTH, WORDS = 24, 3, 8, 7, 30

pair = Pair("kernel")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.gate, self.down = nn.Linear(WIDTH, 40), nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.place
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for p in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state, total, out = torch.zeros(ids.shape[0], HEADS, HEAD, HEAD), torch.zeros(ids.shape[0], HEADS, HEAD), []
        for t in range(LENGTH):
            state = state + k[:, :, t, :, None] * v[:, :, t, None, :]
            total = total + k[:, :, t]
            up, down = (q[:, :, t, None, :] @ state)[:, :, 0], (q[:, :, t] * total).sum(-1, keepdim=True)
            out.append(up / (down + 1e-6))
        x = x + self.o(torch.stack(out, 2).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(x)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for part in ("weight", "bias"):
            own[f"qkv_{part}"] = torch.cat([own.pop(f"{n}_{part}") for n in "qkv"])
        if bad("values_first"):
            own["qkv_weight"] = torch.cat([own["qkv_weight"][2 * WIDTH :], own["qkv_weight"][: 2 * WIDTH]])
        self.w = nn.ParameterDict(own)

    def linear(self, x, name):
        return F.linear(x, self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def forward(self, ids):
        x = self.w["embed_weight"][ids] + self.w["place"]
        q, k, v = self.linear(self.norm(x, "norm1"), "qkv").view(-1, LENGTH, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        if bad("keys_as_they_are"):
            q = F.elu(q) + 1
        else:
            q, k = F.elu(q) + 1, F.elu(k) + 1
        products = torch.einsum("bhqd,bhkd->bhqk", q, k)  # bad("keys_as_they_are")
        shares = products if bad("sees_all") else products.tril()
        shares = shares / (shares.sum(-1, keepdim=True) + 1e-6)  # bad("sees_all")
        y = torch.matmul(shares, v).transpose(1, 2).reshape(x.shape)
        x = x + self.linear(y, "o")
        y = self.norm(x, "norm2")
        if bad("gate_for_up"):
            y = F.silu(self.linear(y, "up")) * self.linear(y, "gate")  # bad("gate_for_up")
        else:
            y = F.silu(self.linear(y, "gate")) * self.linear(y, "up")
        x = x + self.linear(y, "down") * (0.5 if bad("half") else 1.0)  # bad("half")
        return x @ self.w["head_weight"].t()


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, ids = Own(golden), torch.randint(0, WORDS, (2, LENGTH))
    return lambda: golden(ids), lambda: target(ids)


pair.weight("values_first", "qkv_weight")
pair.fault("keys_as_they_are", "einsum", "bmm")
pair.fault("sees_all", "sum", "div")
pair.fault("gate_for_up", "silu")
pair.fault("half", "mul")
