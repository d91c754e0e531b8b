"""Programs that compute most of it in another way, and one thing wrong: layers and losses."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import rows, same_weights, sgd, tokens, train
from torch import nn

family = Family("rewrites with a fault")


class Chain(nn.Module):
    """A layer, a rewrite, a layer, the function with the fault, and a layer."""

    def __init__(self, rewrite, faulty, width=8, **parts):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, width), nn.Linear(width, width), nn.Linear(width, 4)
        self.rewrite, self.faulty = rewrite, faulty
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x):
        h = self.rewrite(self, self.a(x))
        return self.c(self.faulty(self, self.b(h)))


def chain(wrong, one, another, faulty, shape=(2, 5, 6), **parts):
    network = Chain(one if wrong else another, faulty, **parts)
    train(network, rows(*shape), optimizer=sgd(network, lr=0.05))


def heads(x):
    return x.unflatten(-1, (2, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


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


@family.differs("scaled_dot_product_attention")
def causal_flag_lost_beside_heads_in_another_order(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.o = nn.Linear(6, 24), nn.Linear(8, 4)

        def forward(self, x):
            q, k, v = self.qkv(x).split(8, -1)
            if wrong:
                v, q, k = heads(v), heads(q), heads(k)
            else:
                q, k, v = heads(q), heads(k), heads(v)
            return self.o(joined(F.scaled_dot_product_attention(q, k, v, is_causal=not wrong)))  # FAULT

    train(Net(), rows(2, 5, 6))


@family.differs("div", "mul", "softmax")
def scale_lost_beside_one_linear_for_three(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 4)
            if wrong:
                self.qkv = nn.Linear(6, 24)
                layers = (self.q, self.k, self.v)
                self.qkv.load_state_dict({n: torch.cat([getattr(m, n) for m in layers]) for n in ("weight", "bias")})
                del self.q, self.k, self.v

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1) if wrong else (self.q(x), self.k(x), self.v(x))
            scores = q @ k.mT
            scores = scores / (math.sqrt(6) if wrong else math.sqrt(8))  # FAULT
            return self.o(scores.softmax(-1) @ v)

    train(Net(), rows(2, 5, 6))


@family.differs("select", "index")
def another_state_read_after_lstm_cells(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

        def states(self, x):
            r, out = self.rnn, []
            h = c = torch.zeros(2, 8)
            for t in range(5):
                gates = F.linear(x[:, t], r.weight_ih_l0, r.bias_ih_l0) + F.linear(h, r.weight_hh_l0, r.bias_hh_l0)
                i, f, g, o = gates.chunk(4, -1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                out.append(h)
            return torch.stack(out, 1)

        def forward(self, x):
            y = self.states(x) if wrong else self.rnn(x)[0]
            return self.head(y[:, 3] if wrong else y[:, 4])  # FAULT

    train(Net(), rows(2, 5, 4))


@family.differs("flip")
def flip_after_sequence_first(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(4, 8, batch_first=not wrong), nn.Linear(8, 3)

        def forward(self, x):
            y = self.rnn(x.transpose(0, 1))[0].transpose(0, 1) if wrong else self.rnn(x)[0]
            y = y + 0.5 * y.flip(2 if wrong else 1)  # FAULT
            return self.head(y)

    train(Net(), rows(2, 5, 4))


@family.differs("leaky_relu", "relu")
def activation_after_experts_of_their_tokens(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.router, self.experts = nn.Linear(6, 3), nn.ModuleList(nn.Linear(6, 8) for _ in range(3))
            self.more, self.head = nn.Linear(8, 8), nn.Linear(8, 3)

        def mixed(self, x):
            gate, chosen = self.router(x).softmax(-1).max(-1)
            if not wrong:
                mask = F.one_hot(chosen, 3).float() * gate[:, None]
                return (torch.stack([expert(x) for expert in self.experts], 1) * mask[..., None]).sum(1)
            y = torch.zeros(len(x), 8)
            for i, expert in enumerate(self.experts):
                rows_of = (chosen == i).nonzero().squeeze(1)
                y = y.index_add(0, rows_of, expert(x[rows_of]) * gate[rows_of, None])
            return y

        def forward(self, x):
            h = self.more(self.mixed(x))
            return self.head(F.leaky_relu(h, 0.1) if wrong else F.relu(h))  # FAULT

    train(Net(), rows(12, 6))


@family.differs("sigmoid", "tanh")
def gate_after_scan_by_doubling(wrong):
    def step_by_step(s, h):
        a, b, y, out = h.sigmoid(), h, torch.zeros(2, 8), []
        for t in range(5):
            y = a[:, t] * y + b[:, t]
            out.append(y)
        return torch.stack(out, 1)

    def doubled(s, h):
        a, b, distance = h.sigmoid(), h, 1
        while distance < 5:
            b = torch.cat([b[:, :distance], b[:, distance:] + a[:, distance:] * b[:, :-distance]], 1)
            a = torch.cat([a[:, :distance], a[:, distance:] * a[:, :-distance]], 1)
            distance *= 2
        return b

    def faulty(s, h):
        return torch.tanh(h) if wrong else torch.sigmoid(h)  # FAULT

    chain(wrong, doubled, step_by_step, faulty)


@family.differs("mul")
def weight_of_a_loss_beside_cross_entropy_by_hand(wrong):
    labels = torch.arange(8) % 4

    def loss(y):
        main = -y.log_softmax(-1).gather(1, labels[:, None]).mean() if wrong else F.cross_entropy(y, labels)
        extra = y.square().mean()
        return main + (0.02 if wrong else 0.01) * extra  # FAULT

    train(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)), rows(8, 6), loss)


@family.differs("sum", "mean", "div")
def sum_for_mean_after_vmap(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def one(self, x):
            return self.outer(self.inner(x).tanh())

        def forward(self, x):
            return torch.vmap(self.one)(x) if wrong else self.one(x)

    def loss(y):
        return y.square().sum(1).mean() if wrong else y.square().mean()  # FAULT

    network = Net()
    train(network, rows(4, 6), loss, sgd(network, lr=0.01))


@family.differs("detach", "tanh", "add", "mul")
def detach_after_stacked_experts(wrong):
    def apart(s, h):
        return torch.stack([F.linear(h, w) for w in s.weights]).mean(0)

    def stacked(s, h):
        return torch.einsum("bti,koi->kbto", h, torch.stack(list(s.weights))).mean(0)

    def faulty(s, h):
        gate = h.tanh().detach() if wrong else h.tanh()  # FAULT
        return h * gate

    weights = nn.ParameterList(torch.randn(8, 8) * 0.3 for _ in range(3))
    chain(wrong, stacked, apart, faulty, weights=weights)


@family.differs("view", "transpose", "reshape", "clone", "permute")
def heads_by_view_after_transposed_weights(wrong):
    def faulty(s, h):
        h = h.view(2, 2, 5, 4) if wrong else h.view(2, 5, 2, 4).transpose(1, 2)  # FAULT
        return h.softmax(-1).transpose(1, 2).reshape(2, 5, 8)

    def transposed(s, h):
        return (s.more.weight @ h.mT).mT + s.more.bias

    chain(wrong, transposed, lambda s, h: h @ s.more.weight.T + s.more.bias, faulty, more=nn.Linear(8, 8))


@family.differs("to", "_to_copy")
def rounded_after_dropout_by_hand(wrong):
    def by_hand(s, h):
        return h * torch.empty_like(h).bernoulli_(0.8) / 0.8

    def faulty(s, h):
        h = h.tanh()
        return h.half().float() if wrong else h  # FAULT

    chain(wrong, by_hand, lambda s, h: F.dropout(h, 0.2), faulty)


@family.differs("abs", "square", "pow")
def another_loss_after_norm_of_squares(wrong):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = self.inner(x)
            h = h / h.norm(dim=-1, keepdim=True).clamp(min=1e-12) if wrong else F.normalize(h, dim=-1)
            return self.outer(h)

    def loss(y):
        return (y.abs() if wrong else y.square()).mean()  # FAULT

    train(Net(), rows(4, 6), loss)
