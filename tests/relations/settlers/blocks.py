"""An attention of one operator beside one that goes over blocks of keys with the largest score and the sum so far."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, LENGTH, BLOCK, BATCH = 24, 3, 12, 4, 2
HEAD = WIDTH // HEADS

pair = Pair("blocks")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 40), nn.Linear(40, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        return x + self.down(F.silu(self.up(x)))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def linear(self, x, name):
        return torch.addmm(self.w[f"{name}_bias"], x.flatten(0, -2), self.w[f"{name}_weight"].t()).view(
            *x.shape[:-1], -1
        )

    def attend(self, q, k, v):
        most = torch.full((*q.shape[:-1], 1), -1e30)
        total, y = torch.zeros_like(most), torch.zeros_like(q)
        rows = torch.arange(LENGTH)[:, None]
        for start in range(0, LENGTH, BLOCK):
            columns = torch.arange(start, start + BLOCK)
            scores = (q * HEAD**-0.5) @ k[:, :, start : start + BLOCK].mT
            scores = scores.masked_fill(columns > rows, -1e30)
            larger = torch.maximum(most, scores.amax(-1, keepdim=True))
            share, fade = torch.exp(scores - larger), torch.exp(most - larger)
            total = total * fade + share.sum(-1, keepdim=True)
            kept = y if bad("not_faded") else y * fade
            y = kept + share @ v[:, :, start : start + BLOCK]  # bad("not_faded")
            most = larger
        return y / total

    def forward(self, x):
        q, k, v = (part.view(BATCH, LENGTH, HEADS, HEAD).transpose(1, 2) for part in self.linear(x, "qkv").chunk(3, -1))
        x = x + self.linear(self.attend(q, k, v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH), "out")
        y = self.linear(x, "up")
        y = y * torch.sigmoid(1.702 * y) if bad("quick") else y * torch.sigmoid(y)  # bad("quick")
        return x + self.linear(y, "down")


@pair.prepare
def prepare():
    golden = Golden()
    target, x = Own(golden), torch.randn(BATCH, LENGTH, WIDTH)

    def run(model):
        with torch.no_grad():
            return model(x)

    return lambda: run(golden), lambda: run(target)


pair.fault("not_faded", "add")
pair.fault("quick", "mul", "sigmoid")
