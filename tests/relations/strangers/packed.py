"""Sequences one after the other without padding, with a mask of blocks, beside a padded batch."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, WORDS, LENGTHS, LAYERS = 24, 3, 40, (7, 4, 6), 2
HEAD, LONGEST = WIDTH // HEADS, 7

pair = Pair("packed")


class GoldenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = (p(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.o(y))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, WIDTH)
        self.layers = nn.ModuleList(GoldenLayer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 9)

    def forward(self, ids, seen):
        x = self.embed(ids) + self.place(torch.arange(LONGEST))
        for layer in self.layers:
            x = layer(x, seen[:, None, None, :])
        return self.head(x)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def linear(self, x, name):
        return torch.addmm(self.w[f"{name}_bias"], x, self.w[f"{name}_weight"].t())

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def layer(self, x, hidden, name):
        q, k, v = (self.linear(x, f"{name}_{n}").view(-1, HEADS, HEAD).transpose(0, 1) for n in "qkv")
        scores = torch.bmm(q, k.transpose(1, 2)) / HEAD**0.5
        scores = scores.masked_fill(hidden, float("-inf"))
        y = torch.bmm(scores.softmax(-1), v).transpose(0, 1).reshape(-1, WIDTH)
        x = self.norm(x + self.linear(y, f"{name}_o"), f"{name}_norm1")
        h = self.linear(x, f"{name}_fc1")
        h = F.relu(h) if bad("relu") else F.gelu(h)
        if bad("before_norm"):
            return x + self.norm(self.linear(h, f"{name}_fc2"), f"{name}_norm2")  # bad("before_norm")
        return self.norm(x + self.linear(h, f"{name}_fc2"), f"{name}_norm2")

    def forward(self, ids, numbers):
        places = torch.arange(len(ids)) if bad("places_run_on") else torch.cat([torch.arange(n) for n in LENGTHS])
        place = F.embedding(places, self.w["place_weight"])  # bad("places_run_on")
        x = F.embedding(ids, self.w["embed_weight"]) + place
        hidden = numbers[:, None] != numbers[None, :]
        if bad("across"):
            hidden = torch.zeros_like(hidden)  # bad("across")
        for i in range(LAYERS):
            x = self.layer(x, hidden, f"layers_{i}")
        return self.linear(x, "head")


@pair.prepare
def prepare():
    golden = Golden()
    target = Own(golden)
    ids = torch.randint(0, WORDS, (len(LENGTHS), LONGEST))
    seen = torch.arange(LONGEST)[None, :] < torch.tensor(LENGTHS)[:, None]
    flat = ids[seen]
    numbers = torch.cat([torch.full((n,), i) for i, n in enumerate(LENGTHS)])

    def no_gradients(model, *given):
        with torch.no_grad():
            model(*given)

    return lambda: no_gradients(golden, ids, seen), lambda: no_gradients(target, flat, numbers)


pair.fault("relu", "relu")
pair.fault("before_norm", "layer_norm", "add")
pair.fault("places_run_on", "arange", "embedding")
pair.fault("across", "zeros_like", "masked_fill")
