"""Masks and positions of attention, in two ways that compute the same."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import note, rows, same_weights, tokens, train
from torch import nn

family = Family("rewrites")


def causal(t):
    return torch.ones(t, t, dtype=torch.bool).tril()


class Scores(nn.Module):
    """One head; `change` gives the queries and keys their positions, `mask` changes the scores."""

    def __init__(self, change=None, mask=None, width=8):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.change, self.mask = change or (lambda h: h), mask or (lambda s: s)

    def forward(self, x):
        q, k = self.change(self.q(x)), self.change(self.k(x))
        scores = self.mask(q @ k.transpose(-1, -2) / math.sqrt(8))
        return self.o(scores.softmax(-1) @ self.v(x))


@family.rounding()
def mask_filled_or_added(other):
    def mask(scores):
        hidden = ~causal(5)
        if other:
            return scores + torch.zeros(5, 5).masked_fill(hidden, float("-inf"))
        return scores.masked_fill(hidden, float("-inf"))

    train(Scores(mask=mask), rows(2, 5, 8))


@family.rounding()
def mask_by_where_or_filled(other):
    def mask(scores):
        if other:
            return torch.where(causal(5), scores, torch.finfo(scores.dtype).min)
        return scores.masked_fill(~causal(5), torch.finfo(scores.dtype).min)

    train(Scores(mask=mask), rows(2, 5, 8))


@family.rounding()
def mask_of_the_lowest_or_infinite(other):
    def mask(scores):
        return scores.masked_fill(~causal(5), torch.finfo(scores.dtype).min if other else float("-inf"))

    train(Scores(mask=mask), rows(2, 5, 8))


@family.rounding()
def mask_by_triu_or_by_positions(other):
    def mask(scores):
        t = torch.arange(5)
        hidden = t[None, :] > t[:, None] if other else torch.triu(torch.ones(5, 5), diagonal=1).bool()
        return scores.masked_fill(hidden, float("-inf"))

    train(Scores(mask=mask), rows(2, 5, 8))


@family.rounding()
def mask_registered_or_made(other):
    class Masked(Scores):
        def __init__(self):
            super().__init__()
            if other:
                self.register_buffer("hidden", ~torch.ones(16, 16, dtype=torch.bool).tril())

        def forward(self, x):
            hidden = self.hidden[:5, :5] if other else ~causal(5)
            scores = (self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(8)).masked_fill(hidden, -1e9)
            return self.o(scores.softmax(-1) @ self.v(x))

    train(Masked(), rows(2, 5, 8))


@family.rounding()
def scores_of_masked_keys_set_in_place(other):
    def mask(scores):
        hidden = ~causal(5).expand_as(scores)
        if other:
            scores = scores.clone()
            scores[hidden] = float("-inf")
            return scores
        return scores.masked_fill(hidden, float("-inf"))

    train(Scores(mask=mask), rows(2, 5, 8))


def angles(t=5, half=4):
    return torch.outer(torch.arange(float(t)), 100.0 ** (-torch.arange(half) / half))


def rotated_halves(h):
    a = torch.cat([angles(), angles()], -1)
    one, two = h.chunk(2, -1)
    return h * a.cos() + torch.cat([-two, one], -1) * a.sin()


@family.rounding()
def rotary_complex_or_real(other):
    def turn(h):
        pairs = h.unflatten(-1, (4, 2))
        if other:
            turned = torch.view_as_complex(pairs) * torch.polar(torch.ones(5, 4), angles())
            return torch.view_as_real(turned).flatten(-2)
        cos, sin = angles().cos(), angles().sin()
        x, y = pairs.unbind(-1)
        return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2)

    train(Scores(turn), rows(2, 5, 8))


@family.rounding()
def rotary_halves_apart_or_joined(other):
    def turn(h):
        if other:
            one, two = h[..., :4], h[..., 4:]
            cos, sin = angles().cos(), angles().sin()
            return torch.cat([one * cos - two * sin, two * cos + one * sin], dim=-1)
        return rotated_halves(h)

    train(Scores(turn), rows(2, 5, 8))


@family.rounding()
def rotary_by_roll_and_signs(other):
    def turn(h):
        if other:
            a = angles().repeat(1, 2)
            signs = torch.tensor([-1.0] * 4 + [1.0] * 4)
            return torch.addcmul(h * a.cos(), h.roll(4, -1) * signs, a.sin())
        return rotated_halves(h)

    train(Scores(turn), rows(2, 5, 8))


@family.rounding()
def rotary_interleaved_with_permuted_weights(other):
    """As the converters of checkpoints do it: pairs beside each other, or in two halves with permuted rows."""

    def turn(h):
        if other:
            return rotated_halves(h)
        x, y = h[..., ::2], h[..., 1::2]
        cos, sin = angles().cos(), angles().sin()
        return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2)

    network = Scores(turn)
    if other:
        with torch.no_grad():
            for layer in (network.q, network.k):
                for p in layer.parameters():
                    p.copy_(torch.cat([p[::2], p[1::2]]))
    train(network, rows(2, 5, 8))


@family.rounding()
def rotary_table_registered_or_made(other):
    class Rotary(Scores):
        def __init__(self):
            super().__init__(self.turn)
            self.register_buffer("frequencies", 100.0 ** (-torch.arange(4) / 4), persistent=False)
            if other:
                table = torch.outer(torch.arange(16.0), self.frequencies)
                self.register_buffer("cos", table.cos())
                self.register_buffer("sin", table.sin())

        def turn(self, h):
            if other:
                cos, sin = self.cos[:5], self.sin[:5]
            else:
                table = torch.arange(5.0)[:, None] * self.frequencies
                cos, sin = table.cos(), table.sin()
            x, y = h.chunk(2, -1)
            return torch.cat([x * cos - y * sin, y * cos + x * sin], -1)

    train(Rotary(), rows(2, 5, 8))


@family.rounding()
def alibi_as_distance_or_as_row(other):
    """A softmax does not see what all keys of a row have in common."""

    def mask(scores):
        t = torch.arange(5.0)
        bias = 0.5 * (t[None, :] if other else t[None, :] - t[:, None])
        return (scores + bias).masked_fill(~causal(5), float("-inf"))

    train(Scores(mask=mask), rows(2, 5, 8))


@family.rounding()
def relative_bias_by_index_or_embedding(other):
    class Relative(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.scores = nn.Embedding(9, 1), Scores(mask=self.bias)

        def bias(self, scores):
            distance = torch.arange(5)[None, :] - torch.arange(5)[:, None] + 4
            if other:
                return scores + self.table.weight[distance.flatten(), 0].view(5, 5)
            return scores + self.table(distance).squeeze(-1)

        def forward(self, x):
            return self.scores(x)

    train(Relative(), rows(2, 5, 8))


@family.rounding()
def positions_by_embedding_or_slice(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.head = nn.Embedding(11, 8), nn.Embedding(16, 8), nn.Linear(8, 11)

        def forward(self, ids):
            places = self.places.weight[: ids.shape[1]] if other else self.places(torch.arange(ids.shape[1]))
            return self.head(F.gelu(self.words(ids) + places))

    train(Net(), tokens(11, 2, 6))


@family.rounding()
def sine_positions_interleaved_in_two_ways(other):
    def positions():
        a = angles(6, 4)
        if other:
            return torch.stack([a.sin(), a.cos()], -1).flatten(1)
        table = torch.zeros(6, 8)
        table[:, 0::2], table[:, 1::2] = a.sin(), a.cos()
        return table

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

        def forward(self, ids):
            return self.head((self.words(ids) * math.sqrt(8) + positions()).tanh())

    train(Net(), tokens(11, 2, 6))


@family.rounding()
def padding_masked_or_cut_off(other):
    """The last two tokens are padding: masked keys and a mean over the rest, or a shorter batch."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.scores = nn.Embedding(11, 8), Scores(mask=self.mask)

        def mask(self, scores):
            return scores if other else scores.masked_fill(torch.arange(7) >= 5, float("-inf"))

        def forward(self, ids):
            return self.scores(self.words(ids[:, :5] if other else ids))[:, :5]

    train(Net(), tokens(11, 2, 7))


@family.rounding()
def generation_with_cached_keys(other):
    """Greedy steps of a decoder: with the keys and values of before, or all of them again."""

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.q, self.k, self.v = nn.Embedding(11, 8), *(nn.Linear(8, 8) for _ in range(3))
            self.head = nn.Linear(8, 11)

        def forward(self, ids, cache=None):
            x = self.words(ids)
            q, k, v = self.q(x), self.k(x), self.v(x)
            if cache is not None:
                k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
            return self.head(y[:, -1]), (k, v)

    network, ids, cache = Decoder(), torch.tensor([[1, 2, 3], [3, 1, 4]]), None
    same_weights(network)
    with torch.no_grad():
        for _ in range(3):
            logits, made = network(ids[:, -1:] if other and cache is not None else ids, cache)
            cache = made if other else None
            ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
            note(logits.square().sum())
