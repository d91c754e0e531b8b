"""Layers of a network, in two ways that compute the same."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import rows, sgd, tokens, train
from torch import nn

family = Family("rewrites")


class Middle(nn.Module):
    """A linear layer, the function in question, and another linear layer."""

    def __init__(self, function, width=8, **parts):
        super().__init__()
        self.inner, self.outer, self.function = nn.Linear(6, width), nn.Linear(width, 4), function
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        return self.outer(self.function(self, self.inner(x)))


def either(other, one, another, width=8, shape=(5, 6), **parts):
    """A training in which `one` or `another` is the function in the middle."""
    train(Middle(one if other else another, width, **parts), rows(*shape))


@family.rounding()
def gate_and_up_in_one_linear_or_two(other):
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)
            if other:
                self.gate_up = nn.Linear(8, 32)
                self.gate_up.load_state_dict(
                    {n: torch.cat([getattr(self.gate, n), getattr(self.up, n)]) for n in ("weight", "bias")}
                )
                del self.gate, self.up

        def forward(self, x):
            gate, up = self.gate_up(x).chunk(2, dim=-1) if other else (self.gate(x), self.up(x))
            return self.down(F.silu(gate) * up)

    train(Gated(), rows(2, 5, 8))


@family.rounding()
def layer_norm_by_var_and_rsqrt(other):
    def by_hand(s, h):
        centred = h - h.mean(-1, keepdim=True)
        return centred * torch.rsqrt(h.var(-1, unbiased=False, keepdim=True) + 1e-5) * s.norm.weight + s.norm.bias

    either(other, by_hand, lambda s, h: s.norm(h), norm=nn.LayerNorm(8))


@family.rounding()
def layer_norm_by_mean_of_squares(other):
    def by_hand(s, h):
        mean, square = h.mean(-1, keepdim=True), h.pow(2).mean(-1, keepdim=True)
        return s.norm.weight * (h - mean) / torch.sqrt(square - mean**2 + 1e-5) + s.norm.bias

    either(other, by_hand, lambda s, h: F.layer_norm(h, (8,), s.norm.weight, s.norm.bias), norm=nn.LayerNorm(8))


@family.rounding()
def rms_norm_by_hand(other):
    def by_hand(s, h):
        return s.norm.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6))

    either(other, by_hand, lambda s, h: s.norm(h), norm=nn.RMSNorm(8, eps=1e-6))


@family.rounding()
def batch_norm_by_hand(other):
    def by_hand(s, h):
        mean, var = h.mean(0), h.var(0, unbiased=False)
        with torch.no_grad():
            s.norm.running_mean.mul_(0.9).add_(0.1 * mean)
            s.norm.running_var.mul_(0.9).add_(0.1 * h.var(0))
        return (h - mean) / (var + s.norm.eps).sqrt() * s.norm.weight + s.norm.bias

    either(other, by_hand, lambda s, h: s.norm(h), norm=nn.BatchNorm1d(8), shape=(16, 6))


@family.rounding()
def batch_norm_of_evaluation_as_scale_and_shift(other):
    def by_hand(s, h):
        scale = s.norm.weight / torch.sqrt(s.norm.running_var + s.norm.eps)
        return h * scale + (s.norm.bias - s.norm.running_mean * scale)

    norm = nn.BatchNorm1d(8).eval()
    norm.running_mean.uniform_(-0.5, 0.5)
    norm.running_var.uniform_(0.5, 2)
    either(other, by_hand, lambda s, h: s.norm(h), norm=norm)


@family.rounding()
def group_norm_by_view(other):
    def by_hand(s, h):
        groups = h.view(5, 2, 4)
        var, mean = torch.var_mean(groups, dim=-1, correction=0, keepdim=True)
        return ((groups - mean) / (var + 1e-5).sqrt()).view(5, 8) * s.norm.weight + s.norm.bias

    either(other, by_hand, lambda s, h: s.norm(h), norm=nn.GroupNorm(2, 8))


@family.rounding()
def gelu_by_erf(other):
    either(other, lambda s, h: h * 0.5 * (1 + torch.erf(h / math.sqrt(2))), lambda s, h: F.gelu(h, approximate="none"))


@family.rounding()
def gelu_by_tanh_by_hand(other):
    def by_hand(s, h):
        return 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))

    either(other, by_hand, lambda s, h: F.gelu(h, approximate="tanh"))


@family.rounding()
def silu_by_sigmoid(other):
    either(other, lambda s, h: h * torch.sigmoid(h), lambda s, h: F.silu(h))


@family.rounding()
def hard_swish_by_relu6(other):
    either(other, lambda s, h: h * F.relu6(h + 3) / 6, lambda s, h: F.hardswish(h))


@family.rounding()
def softplus_by_logaddexp(other):
    either(other, lambda s, h: torch.logaddexp(h, torch.zeros(())), lambda s, h: F.softplus(h))


@family.rounding()
def leaky_relu_by_where(other):
    either(other, lambda s, h: torch.where(h > 0, h, 0.1 * h), lambda s, h: F.leaky_relu(h, 0.1))


@family.rounding()
def relu_by_clamp_or_maximum(other):
    either(other, lambda s, h: torch.maximum(h, torch.zeros_like(h)), lambda s, h: h.clamp(min=0))


@family.rounding()
def glu_by_chunks(other):
    def by_hand(s, h):
        a, b = h.chunk(2, -1)
        return a * b.sigmoid()

    either(other, lambda s, h: F.pad(by_hand(s, h), (0, 8)), lambda s, h: F.pad(F.glu(h, -1), (0, 8)), width=16)


@family.rounding()
def tanh_by_sigmoid(other):
    either(other, lambda s, h: 2 * torch.sigmoid(2 * h) - 1, lambda s, h: torch.tanh(h))


@family.rounding()
def softmax_in_float64(other):
    either(other, lambda s, h: h.double().softmax(-1).float(), lambda s, h: h.softmax(-1))


@family.rounding()
def normalised_by_hand(other):
    def by_hand(s, h):
        return h / h.norm(dim=-1, keepdim=True).clamp(min=1e-12)

    either(other, by_hand, lambda s, h: F.normalize(h, dim=-1))


@family.rounding()
def dropout_with_the_same_mask(other):
    def by_hand(s, h):
        return h * torch.empty_like(h).bernoulli_(0.8) / 0.8

    either(other, by_hand, lambda s, h: F.dropout(h, 0.2))


@family.rounding()
def addmm_or_mm_and_add(other):
    def by_hand(s, h):
        return torch.mm(h, s.more.weight.t()).add(s.more.bias)

    either(other, lambda s, h: torch.addmm(s.more.bias, h, s.more.weight.t()), by_hand, more=nn.Linear(8, 8))


@family.rounding()
def linear_by_einsum(other):
    def by_einsum(s, h):
        return torch.einsum("bti,oi->bto", h, s.more.weight) + s.more.bias

    either(other, by_einsum, lambda s, h: s.more(h), shape=(2, 5, 6), more=nn.Linear(8, 8))


@family.rounding()
def linear_in_column_pieces(other):
    """As tensor parallelism cuts a layer, on one rank."""

    def in_pieces(s, h):
        weights, biases = s.more.weight.chunk(2, 0), s.more.bias.chunk(2, 0)
        return torch.cat([F.linear(h, w, b) for w, b in zip(weights, biases, strict=True)], -1)

    either(other, in_pieces, lambda s, h: s.more(h), more=nn.Linear(8, 8))


@family.rounding()
def linear_in_row_pieces(other):
    def in_pieces(s, h):
        weights, pieces = s.more.weight.chunk(2, 1), h.chunk(2, -1)
        return sum(F.linear(piece, w) for piece, w in zip(pieces, weights, strict=True)) + s.more.bias

    either(other, in_pieces, lambda s, h: s.more(h), more=nn.Linear(8, 8))


@family.rounding()
def bilinear_by_einsum(other):
    def by_einsum(s, h):
        return torch.einsum("bi,kij,bj->bk", h, s.product.weight, h) + s.product.bias

    either(other, by_einsum, lambda s, h: s.product(h, h), product=nn.Bilinear(8, 8, 8))


class Words(nn.Module):
    def __init__(self, look_up):
        super().__init__()
        self.words, self.head, self.look_up = nn.Embedding(11, 8), nn.Linear(8, 11), look_up

    def forward(self, ids):
        return self.head(self.look_up(self.words, ids))


@family.rounding()
def embedding_or_product_with_one_hot(other):
    def look_up(words, ids):
        return F.one_hot(ids, 11).float() @ words.weight if other else words(ids)

    train(Words(look_up), tokens(11, 3, 5))


@family.rounding()
def embedding_by_index(other):
    train(Words(lambda words, ids: words.weight[ids] if other else words(ids)), tokens(11, 3, 5))


@family.rounding()
def embedding_bag_or_mean(other):
    def look_up(words, ids):
        return F.embedding_bag(ids, words.weight, mode="mean") if other else words(ids).mean(1)

    train(Words(look_up), tokens(11, 3, 5))


@family.rounding()
def positions_summed_by_cumsum_or_triangle(other):
    def look_up(words, ids):
        h = words(ids)
        return torch.ones(5, 5).tril() @ h if other else h.cumsum(1)

    network = Words(look_up)
    train(network, tokens(11, 3, 5), optimizer=sgd(network, lr=0.01))


@family.rounding()
def sequential_or_loop_of_functions(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layer for layer in network if isinstance(layer, nn.Linear))

        def forward(self, x):
            for layer in self.layers[:-1]:
                x = torch.relu(F.linear(x, layer.weight, layer.bias))
            return self.layers[-1](x)

    train(Loop() if other else network, rows(5, 6))
