"""Latents that attend to inputs, and to themselves with a norm of queries and keys; one product of scores by einsum."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, LATENTS, INPUTS = 24, 4, 5, 9
HEAD = WIDTH // HEADS

pair = Pair("perceiver")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = nn.LayerNorm(HEAD), nn.LayerNorm(HEAD)

    def forward(self, x, y):
        q, k, v = (
            p(z).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
            for p, z in ((self.to_q, x), (self.to_k, y), (self.to_v, y))
        )
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.out(y.transpose(1, 2).flatten(2))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(LATENTS, WIDTH))
        self.cross, self.own = Attention(), Attention()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        z = self.latents.expand(x.shape[0], -1, -1)
        z = z + self.cross(self.norm1(z), x)
        y = self.norm2(z)
        z = z + self.own(y, y)
        return z + self.down(F.relu(self.up(self.norm3(z))).square())


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for part in ("cross", "own"):
            both = [own.pop(f"{part}_to_k_weight"), own.pop(f"{part}_to_v_weight")]
            if bad("kv_exchanged") and part == "own":
                both.reverse()
            own[f"{part}_kv"] = torch.cat(both)
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        x = x - x.mean(-1, keepdim=True)  # bad("no_residual")
        x = x / (x.var(-1, unbiased=bad("unbiased"), keepdim=True) + 1e-5).sqrt()  # bad("unbiased")
        return x * self.w[f"{name}_weight"] + self.w[f"{name}_bias"]

    def attend(self, x, y, name):
        q = (x @ self.w[f"{name}_to_q_weight"].t()).unflatten(-1, (HEADS, HEAD))
        k, v = (y @ self.w[f"{name}_kv"].t()).unflatten(-1, (2, HEADS, HEAD)).unbind(2)
        q = self.norm(q, f"{name}_q_norm")
        if not bad("keys_not_normed"):
            k = self.norm(k, f"{name}_k_norm")
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k)  # bad("keys_not_normed")
        scores = scores / WIDTH**0.5 if bad("scale_of_width") else scores / HEAD**0.5
        y = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)
        return y @ self.w[f"{name}_out_weight"].t()

    def forward(self, x):
        z = self.w["latents"].unsqueeze(0).repeat(x.shape[0], 1, 1)
        z = z + self.attend(self.norm(z, "norm1"), x, "cross")
        y = self.norm(z, "norm2")
        z = self.attend(y, y, "own") if bad("no_residual") else z + self.attend(y, y, "own")
        y = F.linear(self.norm(z, "norm3"), self.w["up_weight"], self.w["up_bias"])  # bad("no_residual")
        y = y.relu() if bad("not_squared") else y.relu().pow(2)
        return z + F.linear(y, self.w["down_weight"], self.w["down_bias"])  # bad("not_squared")


@pair.prepare
def prepare():
    golden = Golden()
    for name, weight in golden.named_parameters():
        if "norm" in name:
            weight.data.add_(0.2 * torch.randn_like(weight))
    target, x = Own(golden), torch.randn(3, INPUTS, WIDTH)
    return lambda: golden(x), lambda: target(x)


pair.weight("kv_exchanged", "own_kv")
pair.fault("unbiased", "var")
pair.fault("keys_not_normed", "einsum")
pair.fault("scale_of_width", "div")
pair.fault("no_residual", "matmul", "linear", "sub", "mean")
pair.fault("not_squared", "relu", "linear")
