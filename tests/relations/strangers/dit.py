"""DiT: norms without weights whose shift and scale come from the step, with a step of training."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, TOKENS = 24, 3, 9
HEAD = WIDTH // HEADS

pair = Pair("dit")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.ada = nn.Linear(WIDTH, 6 * WIDTH)
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, t):
        rate = torch.exp(-math.log(10000) * torch.arange(WIDTH // 2) / (WIDTH // 2))
        angle = t[:, None] * rate
        c = self.time(torch.cat((angle.cos(), angle.sin()), -1))
        parts = self.ada(F.silu(c))[:, None].chunk(6, -1)
        shift1, scale1, gate1, shift2, scale2, gate2 = parts
        y = self.norm1(x) * (1 + scale1) + shift1
        q, k, v = self.qkv(y).unflatten(-1, (3, HEADS, HEAD)).permute(2, 0, 3, 1, 4)
        x = x + gate1 * self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        y = self.norm2(x) * (1 + scale2) + shift2
        return x + gate2 * self.fc2(F.gelu(self.fc1(y), approximate="tanh"))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def linear(self, x, name):
        return torch.matmul(x, self.w[f"{name}_weight"].t()) + self.w[f"{name}_bias"]  # bad("no_silu")

    def modulated(self, x, shift, scale):
        x = x - x.mean(-1, keepdim=True)
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        if bad("no_one"):
            return x * scale + shift  # bad("no_one")
        return torch.addcmul(x, x, scale) + shift  # bad("scale_first")

    def forward(self, x, t):
        rate = 10000 ** (-torch.arange(WIDTH // 2) / (WIDTH // 2))
        angle = t[:, None] * rate
        parts = (angle.sin(), angle.cos()) if bad("sin_first") else (angle.cos(), angle.sin())
        c = torch.cat(parts, -1)  # bad("sin_first")
        c = self.linear(F.silu(self.linear(c, "time_0")), "time_2")
        if not bad("no_silu"):
            c = F.silu(c)
        six = self.linear(c, "ada").unflatten(-1, (6, WIDTH)).transpose(0, 1)[..., None, :]  # bad("no_silu")
        shift1, scale1, gate1, shift2, scale2, gate2 = six
        if bad("scale_first"):
            shift2, scale2 = scale2, shift2
        q, k, v = self.linear(self.modulated(x, shift1, scale1), "qkv").chunk(3, -1)
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (q, k, v))
        y = (q @ k.transpose(-1, -2) / math.sqrt(HEAD)).softmax(-1) @ v
        y = self.linear(y.transpose(1, 2).flatten(2), "proj")
        x = x + y if bad("no_gate") else x + gate1 * y
        y = self.modulated(x, shift2, scale2)  # bad("scale_first")
        y = F.gelu(self.linear(y, "fc1")) if bad("exact_gelu") else F.gelu(self.linear(y, "fc1"), approximate="tanh")
        return x + gate2 * self.linear(y, "fc2")


@pair.prepare
def prepare():
    golden = Golden()
    target, x, noise = Own(golden), torch.randn(2, TOKENS, WIDTH), torch.randn(2, TOKENS, WIDTH)
    t = torch.tensor([7.0, 300.0])

    def golden_step():
        F.mse_loss(golden(x, t), noise).backward()

    def target_step():
        apart = target(x, t) - noise
        (apart.square().sum() if bad("sum_for_mean") else apart.square().mean()).backward()

    return golden_step, target_step


pair.fault("no_one", "mul")
pair.fault("sin_first", "cat")
pair.fault("no_silu", "matmul", "linear")
pair.fault("scale_first", "addcmul", "add", "mul")
pair.fault("no_gate", "add")
pair.fault("exact_gelu", "gelu")
pair.fault("sum_for_mean", "sum")
