"""Programs that compute most of it in another way, and one thing wrong: recurrences, experts and losses."""

import math

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import chain, heads, joined, rows, sgd, train
from torch import nn

family = Family("rewrites with a fault")


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
