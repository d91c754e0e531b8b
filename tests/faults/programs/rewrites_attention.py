"""Attention, in two ways that compute the same."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import lines, predict, rows, same_weights, sgd, train
from torch import nn

family = Family("rewrites")


def heads(x, many=2):
    return x.unflatten(-1, (many, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Projections, and a function of the heads of queries, keys and values."""

    def __init__(self, attend, width=8):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.attend = attend

    def forward(self, x):
        return self.o(joined(self.attend(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)))))


def by_hand(q, k, v, mask=None, scale=None):
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


def causal(t):
    return torch.ones(t, t, dtype=torch.bool).tril()


@family.rounding(short=True)
def qkv_one_linear_or_three(other):
    class Fused(nn.Module):
        def __init__(self, split):
            super().__init__()
            self.qkv, self.o = nn.Linear(8, 24), split.o
            self.qkv.weight = nn.Parameter(torch.cat([split.q.weight, split.k.weight, split.v.weight]).detach())
            self.qkv.bias = nn.Parameter(torch.cat([split.q.bias, split.k.bias, split.v.bias]).detach())

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return self.o(joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v))))

    split = Attention(F.scaled_dot_product_attention)
    train(Fused(split) if other else split, rows(2, 5, 8))


@family.rounding()
def sdpa_or_by_hand(other):
    mask = torch.rand(5, 5) > 0.4
    mask.fill_diagonal_(True)
    network = Attention(
        lambda q, k, v: by_hand(q, k, v, mask) if other else F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    )
    train(network, rows(2, 5, 8))


@family.rounding()
def causal_flag_or_mask(other):
    def attend(q, k, v):
        if other:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=causal(q.shape[-2]))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    train(Attention(attend), rows(2, 5, 8))


@family.rounding()
def mask_of_bools_or_of_floats(other):
    mask = causal(6)
    if other:
        mask = torch.zeros(6, 6).masked_fill(~mask, float("-inf"))
    network = Attention(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    train(network, rows(2, 6, 8))


@family.rounding()
def attention_scale_given_or_default(other):
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(4) if other else None)

    train(Attention(attend), rows(2, 5, 8))


@family.rounding()
def queries_scaled_before(other):
    def attend(q, k, v):
        if other:
            return F.scaled_dot_product_attention(q * q.shape[-1] ** -0.5, k, v, scale=1.0)
        return F.scaled_dot_product_attention(q, k, v)

    train(Attention(attend), rows(2, 5, 8))


class Grouped(nn.Module):
    """Four heads of queries, two of keys and values."""

    def __init__(self, attend):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, n) for n in (8, 4, 4, 8))
        self.attend = attend

    def forward(self, x):
        q, k, v = (layer(x).view(2, 5, -1, 2).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return self.o(joined(self.attend(q, k, v)))


@family.rounding()
def grouped_queries_by_flag_or_repeated(other):
    def attend(q, k, v):
        if other:
            k, v = (h.repeat_interleave(2, 1) for h in (k, v))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    train(Grouped(attend), rows(2, 5, 8))


@family.rounding()
def grouped_keys_repeated_or_expanded(other):
    def repeated(h):
        if other:
            b, n, t, d = h.shape
            return h[:, :, None].expand(b, n, 2, t, d).reshape(b, 2 * n, t, d)
        return h.repeat_interleave(2, dim=1)

    train(Grouped(lambda q, k, v: by_hand(q, repeated(k), repeated(v), causal(5))), rows(2, 5, 8))


@family.rounding()
def grouped_queries_by_broadcast(other):
    def attend(q, k, v):
        if other:
            q = q.unflatten(1, (2, 2))
            return by_hand(q, k.unsqueeze(2), v.unsqueeze(2)).flatten(1, 2)
        return by_hand(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))

    train(Grouped(attend), rows(2, 5, 8))


@family.rounding()
def heads_made_in_another_order(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.o = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x):
            q, k, v = self.qkv(x).split(8, -1)
            if other:
                v, q, k = heads(v), heads(q), heads(k)
            else:
                q, k, v = heads(q), heads(k), heads(v)
            return self.o(joined(F.scaled_dot_product_attention(q, k, v)))

    train(Net(), rows(2, 5, 8))


@family.rounding()
def layers_called_in_another_order(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            if other:
                value, key, query = heads(self.v(x)), heads(self.k(x)), heads(self.q(x))
            else:
                query, key, value = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
            return self.o(joined(by_hand(query, key, value)))

    train(Net(), rows(2, 5, 8))


class OwnAttention(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        weights = {"qkv.weight": module.in_proj_weight, "qkv.bias": module.in_proj_bias}
        weights |= {"out.weight": module.out_proj.weight, "out.bias": module.out_proj.bias}
        self.load_state_dict(weights)

    def forward(self, x):
        q, k, v = (heads(h) for h in self.qkv(x).chunk(3, -1))
        return self.out(joined(F.scaled_dot_product_attention(q, k, v)))


@family.rounding()
def attention_module_or_own(other):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    module = Wrapped()
    train(OwnAttention(module.attention) if other else module, rows(2, 5, 8))


@family.rounding()
def attention_weights_wanted_or_not(other):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=other)[0]

    train(Wrapped(), rows(2, 5, 8))


@family.rounding()
def attention_batch_first_or_not(other):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=not other)

        def forward(self, x):
            if other:
                x = x.transpose(0, 1)
            y = self.attention(x, x, x, need_weights=False)[0]
            return y.transpose(0, 1) if other else y

    train(Wrapped(), rows(2, 5, 8))


@family.rounding()
def encoder_layer_or_own(other):
    class Own(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.attention = OwnAttention(layer.self_attn)
            self.up, self.down, self.first, self.second = layer.linear1, layer.linear2, layer.norm1, layer.norm2

        def forward(self, x):
            x = self.first(x + self.attention(x))
            return self.second(x + self.down(F.relu(self.up(x))))

    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    optimizer = torch.optim.AdamW
    network = Own(layer) if other else layer
    train(network, rows(2, 5, 8), lambda y: (y - 0.3).abs().mean(), optimizer(network.parameters(), lr=1e-2))


@family.rounding()
def attention_by_einsum(other):
    def attend(q, k, v):
        if other:
            weights = torch.einsum("bhqd,bhkd->bhqk", q, k).div(math.sqrt(q.shape[-1])).softmax(-1)
            return torch.einsum("bhqk,bhkd->bhqd", weights, v)
        return by_hand(q, k, v)

    train(Attention(attend), rows(2, 5, 8))


@family.rounding()
def attention_of_each_head(other):
    def attend(q, k, v):
        if other:
            parts = [by_hand(*(h[:, i] for h in (q, k, v))) for i in range(q.shape[1])]
            return torch.stack(parts, 1)
        return by_hand(q, k, v)

    train(Attention(attend), rows(2, 5, 8))


@family.rounding()
def attention_of_folded_heads(other):
    """The heads are folded into the batch, and baddbmm adds the mask."""

    def attend(q, k, v):
        mask = torch.zeros(5, 5).masked_fill(~causal(5), float("-inf"))
        if other:
            b, n, t, d = q.shape
            q, k, v = (h.reshape(b * n, t, d) for h in (q, k, v))
            scores = torch.baddbmm(mask.expand(b * n, t, t), q, k.transpose(1, 2), alpha=1 / math.sqrt(d))
            return torch.bmm(scores.softmax(-1), v).view(b, n, t, d)
        return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v

    train(Attention(attend), rows(2, 5, 8))


@family.rounding()
def attention_in_pieces_of_queries(other):
    def attend(q, k, v):
        if other:
            return torch.cat([by_hand(piece, k, v) for piece in q.split(3, dim=-2)], dim=-2)
        return by_hand(q, k, v)

    train(Attention(attend), rows(2, 6, 8))


@family.rounding()
def attention_online_over_keys(other):
    """A softmax that goes through the keys in pieces, with a running maximum and sum."""

    def attend(q, k, v):
        if not other:
            return by_hand(q, k, v)
        top = torch.full((*q.shape[:-1], 1), float("-inf"))
        total, y = torch.zeros_like(top), torch.zeros_like(q)
        for keys, values in zip(k.split(2, -2), v.split(2, -2), strict=True):
            scores = q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
            higher = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights, factor = (scores - higher).exp(), (top - higher).exp()
            total, y, top = total * factor + weights.sum(-1, keepdim=True), y * factor + weights @ values, higher
        return y / total

    predict(Attention(attend), rows(2, 6, 8))


@family.rounding()
def keys_and_values_in_one_linear(other):
    class Cross(nn.Module):
        def __init__(self):
            super().__init__()
            for name, layer in lines(8, "q", "k", "v", "o").items():
                setattr(self, name, layer)
            if other:
                self.kv = nn.Linear(8, 16)
                self.kv.weight.data.copy_(torch.cat([self.k.weight, self.v.weight]))
                self.kv.bias.data.copy_(torch.cat([self.k.bias, self.v.bias]))
                del self.k, self.v

        def forward(self, x, memory):
            k, v = self.kv(memory).split(8, -1) if other else (self.k(memory), self.v(memory))
            return self.o(joined(F.scaled_dot_product_attention(heads(self.q(x)), heads(k), heads(v))))

    train(Cross(), lambda: (torch.randn(2, 4, 8), torch.randn(2, 7, 8)))


@family.rounding()
def block_with_norm_first_in_functions(other):
    """A block of modules, and the same block as one function of its parameters."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attention, self.mlp = nn.LayerNorm(8), Attention(by_hand), nn.Linear(8, 8)

        def forward(self, x):
            if not other:
                x = x + self.attention(self.norm(x))
                return x + F.gelu(self.mlp(x))
            a, h = self.attention, F.layer_norm(x, (8,), self.norm.weight, self.norm.bias)
            q, k, v = (heads(F.linear(h, layer.weight, layer.bias)) for layer in (a.q, a.k, a.v))
            x = F.linear(joined(by_hand(q, k, v)), a.o.weight, a.o.bias) + x
            return F.gelu(F.linear(x, self.mlp.weight, self.mlp.bias)) + x

    network = Block()
    same_weights(network)
    train(network, rows(2, 5, 8), optimizer=sgd(network, lr=0.01))
