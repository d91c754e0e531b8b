"""A decoder that reads two tokens first and then one at a time, with learned positions, beside a whole pass."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, WORDS, TOKENS, FIRST = 24, 3, 40, 7, 2
WIDTH = HIDDEN // HEADS

pair = Pair("cached")


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, HIDDEN), nn.Embedding(TOKENS + 2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.q, self.k, self.v, self.out = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.head = nn.Linear(HIDDEN, WORDS)

    def heads(self, x):
        return x.view(*x.shape[:2], HEADS, WIDTH).transpose(1, 2)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        y = self.norm(x)
        y = F.scaled_dot_product_attention(*(self.heads(one(y)) for one in (self.q, self.k, self.v)), is_causal=True)
        return self.head(x + self.out(y.transpose(1, 2).reshape(x.shape)))


class Cached(Whole):
    def begin(self):
        self.keys, self.values = [], []

    def forward(self, ids, places):
        x = self.words(ids) + self.places(places)
        y = self.norm(x)
        if bad("louder") and places[0] == 4:
            y = y * 1.1  # bad("louder")
        q, k, v = self.heads(self.q(y)), self.heads(self.k(y)), self.heads(self.v(y))
        if not (bad("key_lost") and places[0] == 3):
            self.keys.append(k)
        self.values.append(v)
        k = torch.cat(self.keys, 2)  # bad("key_lost")
        v = torch.cat(self.values[:-1] if bad("key_lost") and places[0] >= 3 else self.values, 2)  # bad("key_lost")
        if bad("last_four"):
            k, v = k.narrow(2, max(0, k.shape[2] - 4), min(4, k.shape[2])), v[:, :, -4:]  # bad("last_four")
        scores = q @ k.mT * WIDTH**-0.5
        if ids.shape[1] > 1:
            hidden = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        return self.head(x + self.out(y))


@pair.prepare
def prepare():
    golden, target = Whole(), Cached()
    target.load_state_dict(golden.state_dict())
    if bad("other_out"):
        with torch.no_grad():
            target.out.weight.mul_(0.8).add_(0.01)
    ids = torch.randint(0, WORDS, (3, TOKENS))

    def run_golden():
        with torch.no_grad():
            return golden(ids)

    def run_target():
        target.begin()
        with torch.no_grad():
            target(ids[:, :FIRST], torch.arange(FIRST))
            for t in range(FIRST, TOKENS):
                target(ids[:, t : t + 1], torch.tensor([t + 1 if bad("place_left_out") and t > 4 else t]))

    return run_golden, run_target


pair.fault("louder", "mul")
pair.fault("key_lost", "cat")
pair.fault("last_four", "slice", "narrow")
pair.fault("place_left_out", "tensor", "lift_fresh", "detach_", "_to_copy", "embedding")
pair.weight("other_out", "out.weight")
