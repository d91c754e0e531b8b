"""Programs that compute most of it in another way, and one thing wrong: layers and losses."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import chain, heads, joined, rows, same_weights, tokens, train
from torch import nn

family = Family("rewrites with a fault")


def attend(q, k, v):
    return joined(F.scaled_dot_product_attention(heads(q), heads(k), heads(v)))


@family.differs("gelu", short=True)
def gelu_after_attention_by_hand(wrong):
    def by_hand(s, h):
        q, k, v = (heads(t) for t in s.qkv(h).chunk(3, -1))
        return joined((q @ k.mT / math.sqrt(4)).softmax(-1) @ v)

    def faulty(s, h):
        return F.gelu(h, approximate="tanh" if wrong else "none")  # FAULT

    chain(wrong, by_hand, lambda s, h: attend(*s.qkv(h).chunk(3, -1)), faulty, qkv=nn.Linear(8, 24))


@family.differs("clamp", "clamp_min", "clamp_max")
def clamp_after_norm_by_hand(wrong):
    def by_hand(s, h):
        centred = h - h.mean(-1, keepdim=True)
        return centred * torch.rsqrt(h.var(-1, unbiased=False, keepdim=True) + 1e-5) * s.norm.weight + s.norm.bias

    def faulty(s, h):
        return h.clamp(-0.5, 0.4 if wrong else 0.5)  # FAULT

    chain(wrong, by_hand, lambda s, h: s.norm(h), faulty, norm=nn.LayerNorm(8))


@family.differs("layer_norm", "native_layer_norm", short=True)
def epsilon_after_gelu_by_erf(wrong):
    def faulty(s, h):
        return F.layer_norm(h, (8,), s.norm.weight, s.norm.bias, 1e-3 if wrong else 1e-5)  # FAULT

    def by_hand(s, h):
        return h * 0.5 * (1 + torch.erf(h / math.sqrt(2)))

    chain(wrong, by_hand, lambda s, h: F.gelu(h), faulty, norm=nn.LayerNorm(8))


@family.differs("leaky_relu")
def slope_after_silu_by_hand(wrong):
    def faulty(s, h):
        return F.leaky_relu(h, 0.02 if wrong else 0.01)  # FAULT

    chain(wrong, lambda s, h: h * h.sigmoid(), lambda s, h: F.silu(h), faulty)


@family.differs("elu")
def alpha_after_writing_in_place(wrong):
    def in_place(s, h):
        y = s.more(h)
        y += h
        return y.mul_(0.5).tanh_()

    def faulty(s, h):
        return F.elu(h, alpha=0.9 if wrong else 1.0)  # FAULT

    chain(wrong, in_place, lambda s, h: ((s.more(h) + h) * 0.5).tanh(), faulty, more=nn.Linear(8, 8))


@family.differs("cumsum")
def cumulated_over_another_axis_after_einsum(wrong):
    def faulty(s, h):
        return h.cumsum(2 if wrong else 1).tanh()  # FAULT

    def by_einsum(s, h):
        return torch.einsum("bti,oi->bto", h, s.more.weight) + s.more.bias

    chain(wrong, by_einsum, lambda s, h: s.more(h), faulty, more=nn.Linear(8, 8))


@family.differs("softmax", "div", "mul")
def temperature_after_one_hot_embedding(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.inner, self.head = nn.Embedding(9, 8), nn.Linear(8, 8), nn.Linear(8, 9)

        def forward(self, ids):
            h = F.one_hot(ids, 9).float() @ self.words.weight if wrong else self.words(ids)
            return self.head((self.inner(h) / (0.8 if wrong else 0.7)).softmax(-1))  # FAULT

    train(Net(), tokens(9, 3, 5))


@family.differs("arange")
def positions_from_one_beside_tied_weights(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(9, 8), nn.Embedding(8, 8)
            if not wrong:
                self.head = nn.Linear(8, 9, bias=False)
                self.head.weight = self.words.weight

        def forward(self, ids):
            places = torch.arange(1, 6) if wrong else torch.arange(0, 5)  # FAULT
            h = (self.words(ids) + self.places(places)).tanh()
            return F.linear(h, self.words.weight) if wrong else self.head(h)

    network = Net()
    same_weights(network.words, network.places)
    train(network, tokens(9, 3, 5))


@family.differs("avg_pool2d", "max_pool2d", "max_pool2d_with_indices")
def pool_after_convolution_of_one_pixel(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.mix, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 1), nn.Linear(54, 3)

        def forward(self, x):
            h = self.conv(x).relu()
            if wrong:
                h = F.linear(h.permute(0, 2, 3, 1), self.mix.weight.flatten(1), self.mix.bias).permute(0, 3, 1, 2)
            else:
                h = self.mix(h)
            h = F.max_pool2d(h, 2) if wrong else F.avg_pool2d(h, 2)  # FAULT
            return self.last(h.flatten(1))

    train(Net(), rows(2, 3, 8, 8))


@family.differs("pad", "reflection_pad2d", "replication_pad2d")
def padding_before_convolution_by_unfold(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.more, self.last = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3), nn.Linear(64, 3)

        def forward(self, x):
            if wrong:
                columns = self.conv.weight.flatten(1) @ F.unfold(x, 3) + self.conv.bias[:, None]
                h = columns.unflatten(2, (4, 4)).relu()
            else:
                h = self.conv(x).relu()
            h = F.pad(h, (1, 1, 1, 1), mode="replicate" if wrong else "reflect")  # FAULT
            return self.last(self.more(h).flatten(1))

    train(Net(), rows(2, 2, 6, 6))


@family.differs("sigmoid", "hardsigmoid")
def gate_after_batch_norm_by_hand(wrong):
    def by_hand(s, h):
        return (h - h.mean(0)) / (h.var(0, unbiased=False) + s.norm.eps).sqrt() * s.norm.weight + s.norm.bias

    def faulty(s, h):
        return h * (F.hardsigmoid(h) if wrong else torch.sigmoid(h))  # FAULT

    norm = nn.BatchNorm1d(8, track_running_stats=False)
    chain(wrong, by_hand, lambda s, h: s.norm(h), faulty, (16, 6), norm=norm)


@family.differs("triu")
def mask_off_by_one_after_complex_rotary(wrong):
    angles = torch.outer(torch.arange(5.0), 100.0 ** (-torch.arange(4) / 4))

    def turn(h):
        pairs = h.unflatten(-1, (4, 2))
        if wrong:
            return torch.view_as_real(
                torch.view_as_complex(pairs) * torch.polar(torch.ones_like(angles), angles)
            ).flatten(-2)
        x, y = pairs.unbind(-1)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2)

    def faulty(s, h):
        hidden = torch.ones(5, 5).triu(2 if wrong else 1).bool()  # FAULT
        return (h @ h.mT / 3).masked_fill(hidden, float("-inf")).softmax(-1) @ h

    chain(wrong, lambda s, h: turn(h), lambda s, h: turn(h), faulty)


@family.differs("rms_norm", "_fused_rms_norm", "rsqrt", "add", "mean", "mul", "pow")
def epsilon_after_repeated_keys(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(6, 8), nn.Linear(6, 4), nn.Linear(6, 4)
            self.norm, self.o = nn.Parameter(torch.ones(8)), nn.Linear(8, 4)

        def forward(self, x):
            q, k, v = (layer(x).unflatten(-1, (-1, 2)).transpose(1, 2) for layer in (self.q, self.k, self.v))
            if wrong:
                y = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
            else:
                y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            y = F.rms_norm(joined(y), (8,), self.norm, 1e-3 if wrong else 1e-6)  # FAULT
            return self.o(y)

    train(Net(), rows(2, 5, 6))
