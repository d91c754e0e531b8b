"""A decoder with a cache, token by token, beside one forward pass over all tokens."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, LAYERS, WORDS, TOKENS = 32, 4, 2, 64, 6
WIDTH = HIDDEN // HEADS

pair = Pair("decoding")


def turned(x, cos, sin):
    one, two = x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(HIDDEN, eps=1e-6), nn.RMSNorm(HIDDEN, eps=1e-6)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 2 * HIDDEN), nn.Linear(2 * HIDDEN, HIDDEN)

    def qkv_of(self, x, places):
        angle = places[:, None] * 100.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        q, k, v = (y.view(*x.shape[:2], HEADS, WIDTH).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return turned(q, angle.cos(), angle.sin()), turned(k, angle.cos(), angle.sin()), v

    def rest(self, x, y):
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Whole(Block):
    def forward(self, x, places):
        q, k, v = self.qkv_of(self.norm1(x), places)
        return self.rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Cached(Block):
    def forward(self, x, places):
        t = int(places[0])
        old = self.cache if t > 0 else None
        q, k, v = self.qkv_of(self.norm1(x), places)
        if old is not None:
            k = torch.cat((old[0], k), 2)  # bad("stale_cache")
            v = torch.cat((old[1], old[1][:, :, -1:] if bad("stale_value") and t == 3 else v), 2)
        if not (bad("stale_cache") and t == 2):
            self.cache = (k, v)
        if bad("window"):
            k, v = k[:, :, -3:], v[:, :, -3:]  # bad("window")
        y = F.softmax(q @ k.transpose(-1, -2) / WIDTH**0.5, -1) @ v
        return self.rest(x, y)


class Model(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.blocks = nn.ModuleList(block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(HIDDEN, eps=1e-6), nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids, places):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x, places)
        return self.head(self.norm(x))


@pair.prepare
def prepare():
    golden, target = Model(Whole), Model(Cached)
    target.load_state_dict(golden.state_dict())
    if bad("old_weights"):
        with torch.no_grad():
            target.blocks[1].up.weight.mul_(0.9).add_(0.02)
    ids = torch.randint(0, WORDS, (2, TOKENS))

    def run_golden():
        with torch.no_grad():
            return golden(ids, torch.arange(TOKENS))

    def run_target():
        with torch.no_grad():
            for t in range(TOKENS):
                place = torch.tensor([t + (1 if bad("position_off") and t >= 3 else 0)])
                logits = target(ids[:, t : t + 1], place)
            return logits

    return run_golden, run_target


pair.fault("stale_value", "cat", "slice")
pair.fault("stale_cache", "cat")
pair.fault("window", "slice")
pair.fault("position_off", "tensor", "mul", "lift_fresh", "detach_", "_to_copy")
pair.weight("old_weights", "blocks.1.up")
