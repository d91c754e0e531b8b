"""Recurrences, scans, experts, graphs and transforms, in two ways that compute the same."""

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import predict, rows, sgd, tokens, train
from torch import nn

family = Family("rewrites")


class Cells(nn.Module):
    """An LSTM or a GRU as a loop over time, with the weights of PyTorch's."""

    def __init__(self, rnn, cell):
        super().__init__()
        self.i, self.h = nn.Linear(*rnn.weight_ih_l0.T.shape), nn.Linear(*rnn.weight_hh_l0.T.shape)
        weights = {"i.weight": rnn.weight_ih_l0, "i.bias": rnn.bias_ih_l0}
        self.load_state_dict(weights | {"h.weight": rnn.weight_hh_l0, "h.bias": rnn.bias_hh_l0})
        self.cell = cell

    def forward(self, x):
        state, out = (torch.zeros(len(x), 8), torch.zeros(len(x), 8)), []
        for t in range(x.shape[1]):
            state = self.cell(self, x[:, t], *state)
            out.append(state[0])
        return torch.stack(out, 1)


def lstm(s, x, h, c):
    i, f, g, o = (s.i(x) + s.h(h)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru(s, x, h, _none):
    (ir, iz, i_n), (hr, hz, hn) = s.i(x).chunk(3, -1), s.h(h).chunk(3, -1)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    return (1 - z) * torch.tanh(i_n + r * hn) + z * h, h


def elman(s, x, h, _none):
    return torch.tanh(s.i(x) + s.h(h)), h


class Read(nn.Module):
    def __init__(self, rnn):
        super().__init__()
        self.rnn, self.head = rnn, nn.Linear(8, 3)

    def forward(self, x):
        y = self.rnn(x)
        return self.head(y[0] if isinstance(y, tuple) else y)


def recurrent(other, rnn, cell):
    network = Read(rnn)
    if other:
        network.rnn = Cells(rnn, cell)
    train(network, rows(2, 5, 4), optimizer=sgd(network, momentum=0.9))


@family.rounding()
def lstm_module_or_cells(other):
    recurrent(other, nn.LSTM(4, 8, batch_first=True), lstm)


@family.rounding()
def gru_module_or_cells(other):
    recurrent(other, nn.GRU(4, 8, batch_first=True), gru)


@family.rounding()
def elman_module_or_cells(other):
    recurrent(other, nn.RNN(4, 8, batch_first=True), elman)


@family.rounding()
def lstm_cell_module_or_by_hand(other):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.LSTMCell(4, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = c = torch.zeros(2, 8)
            for t in range(5):
                if other:
                    k = self.cell
                    gates = F.linear(torch.cat([x[:, t], h], 1), torch.cat([k.weight_ih, k.weight_hh], 1))
                    i, f, g, o = (gates + k.bias_ih + k.bias_hh).chunk(4, 1)
                    c = c * f.sigmoid() + i.sigmoid() * g.tanh()
                    h = o.sigmoid() * c.tanh()
                else:
                    h, c = self.cell(x[:, t], (h, c))
            return self.head(h)

    train(Loop(), rows(2, 5, 4))


@family.rounding()
def both_directions_by_two_modules(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.both, self.head = nn.GRU(4, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)
            if other:
                self.there, self.back = nn.GRU(4, 8, batch_first=True), nn.GRU(4, 8, batch_first=True)
                state = self.both.state_dict()
                self.there.load_state_dict({n: p for n, p in state.items() if "reverse" not in n})
                self.back.load_state_dict({n[:-8]: p for n, p in state.items() if "reverse" in n})
                del self.both

        def forward(self, x):
            if other:
                return self.head(torch.cat([self.there(x)[0], self.back(x.flip(1))[0].flip(1)], -1))
            return self.head(self.both(x)[0])

    train(Net(), rows(2, 5, 4))


@family.rounding()
def packed_or_padded_sequences_of_one_length(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x):
            if other:
                packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 5]), batch_first=True)
                y, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
            else:
                y = self.rnn(x)[0]
            return self.head(y)

    train(Net(), rows(2, 5, 4))


class Scan(nn.Module):
    """h[t] = a[t] h[t-1] + b[t], between two layers."""

    def __init__(self, scan):
        super().__init__()
        self.a, self.b, self.head, self.scan = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 3), scan

    def forward(self, x):
        return self.head(self.scan(self.a(x).sigmoid(), self.b(x)))


def step_by_step(a, b):
    h, out = torch.zeros_like(b[:, 0]), []
    for t in range(b.shape[1]):
        h = a[:, t] * h + b[:, t]
        out.append(h)
    return torch.stack(out, 1)


@family.rounding()
def scan_by_cumulative_products(other):
    def closed(a, b):
        c = a.log().cumsum(1).exp()
        return c * (b / c).cumsum(1)

    train(Scan(closed if other else step_by_step), rows(2, 6, 4))


@family.rounding()
def scan_in_chunks(other):
    def chunked(a, b):
        h, out = torch.zeros_like(b[:, 0]), []
        for some_a, some_b in zip(a.split(3, 1), b.split(3, 1), strict=True):
            inner = step_by_step(some_a, some_b)
            inner = inner + some_a.cumprod(1) * h[:, None]
            h = inner[:, -1]
            out.append(inner)
        return torch.cat(out, 1)

    train(Scan(chunked if other else step_by_step), rows(2, 6, 4))


@family.rounding()
def scan_by_doubling(other):
    def doubled(a, b):
        distance = 1
        while distance < b.shape[1]:
            b = torch.cat([b[:, :distance], b[:, distance:] + a[:, distance:] * b[:, :-distance]], 1)
            a = torch.cat([a[:, :distance], a[:, distance:] * a[:, :-distance]], 1)
            distance *= 2
        return b

    train(Scan(doubled if other else step_by_step), rows(2, 6, 4))


@family.rounding()
def decay_by_loop_or_matrix(other):
    """Discounted sums, as returns of a policy or an exponential average."""

    def discounted(_a, b):
        if other:
            t = torch.arange(6.0)
            return (0.9 ** (t[:, None] - t).clamp(min=0)).tril() @ b
        return step_by_step(torch.full_like(b, 0.9), b)

    train(Scan(discounted), rows(2, 6, 4))


@family.rounding()
def linear_attention_as_product_or_recurrence(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = nn.Linear(8, 4), nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            q, k, v = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1, self.v(x)
            if not other:
                return (q @ k.mT).tril() @ v
            state, out = torch.zeros(len(x), 4, 4), []
            for t in range(x.shape[1]):
                state = state + k[:, t, :, None] * v[:, t, None]
                out.append((q[:, t, None] @ state).squeeze(1))
            return torch.stack(out, 1)

    network = Net()
    train(network, rows(2, 5, 8), optimizer=sgd(network, lr=0.01))


@family.rounding()
def causal_convolution_or_shifted_sums(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv1d(6, 6, 3, groups=6), nn.Linear(6, 3)

        def forward(self, x):
            if other:
                shifted = [F.pad(x, (0, 0, 2 - i, 0))[:, :5] * self.conv.weight[:, 0, i] for i in range(3)]
                y = sum(shifted) + self.conv.bias
            else:
                y = self.conv(F.pad(x.mT, (2, 0))).mT
            return self.head(F.silu(y))

    train(Net(), rows(2, 5, 6))


class Experts(nn.Module):
    """Two of four experts for each token."""

    def __init__(self, mix):
        super().__init__()
        self.router, self.experts = nn.Linear(6, 4), nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.mix = mix

    def forward(self, x):
        gates, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        return self.mix(self, x, gates / gates.sum(-1, keepdim=True), chosen)


def experts_of_all_tokens(s, x, gates, chosen):
    weights = torch.zeros(len(x), 4).scatter(1, chosen, gates)
    return (torch.stack([expert(x) for expert in s.experts], 1) * weights[:, :, None]).sum(1)


def experts_of_their_tokens(s, x, gates, chosen):
    y = torch.zeros_like(x)
    for i, expert in enumerate(s.experts):
        token, place = torch.where(chosen == i)
        y = y.index_add(0, token, gates[token, place, None] * expert(x[token]))
    return y


@family.rounding()
def experts_dense_or_sparse(other):
    train(Experts(experts_of_their_tokens if other else experts_of_all_tokens), rows(10, 6))


@family.rounding()
def experts_by_tokens_sorted(other):
    def tokens_sorted(s, x, gates, chosen):
        order = chosen.flatten().argsort(stable=True)
        many = chosen.flatten().bincount(minlength=4).tolist()
        parts = x[order // 2].split(many)
        y = torch.cat([expert(part) for expert, part in zip(s.experts, parts, strict=True)])
        return torch.zeros_like(x).index_add(0, order // 2, y * gates.flatten()[order, None])

    train(Experts(tokens_sorted if other else experts_of_their_tokens), rows(10, 6))


@family.rounding()
def experts_by_masks_or_gathered_weights(other):
    def gathered(s, x, gates, chosen):
        weight = torch.stack([expert.weight for expert in s.experts])[chosen]
        bias = torch.stack([expert.bias for expert in s.experts])[chosen]
        return ((torch.einsum("ti,tkoi->tko", x, weight) + bias) * gates[..., None]).sum(1)

    def masked(s, x, gates, chosen):
        return sum(expert(x) * (gates * (chosen == i)).sum(-1, keepdim=True) for i, expert in enumerate(s.experts))

    train(Experts(gathered if other else masked), rows(10, 6))


@family.rounding()
def graph_by_edges_or_adjacency(other):
    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 2], [1, 2, 0, 4, 3, 3, 4]])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def around(self, h):
            if other:
                return torch.zeros(5, 5).index_put(tuple(edges.flip(0)), torch.ones(7)) @ h
            return torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])

        def forward(self, x):
            return self.outer(self.around(self.inner(x)).relu())

    train(Net(), rows(5, 6))


@family.rounding()
def convolution_by_fourier(other):
    """A long circular convolution, directly or by its spectrum."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.filter = nn.Linear(6, 8), nn.Parameter(torch.randn(8) * 0.3)

        def forward(self, x):
            h = self.inner(x)
            if other:
                return torch.fft.irfft(torch.fft.rfft(h) * torch.fft.rfft(self.filter), n=8)
            places = (torch.arange(8)[:, None] - torch.arange(8)) % 8
            return h @ self.filter[places].T

    predict(Net(), rows(4, 6))


@family.rounding()
def polynomial_by_horner_or_powers(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(9, 6), nn.Linear(6, 3)

        def forward(self, ids):
            x = self.words(ids)
            y = ((0.1 * x - 0.5) * x + 0.3) * x + 1.0 if other else 0.1 * x**3 - 0.5 * x**2 + 0.3 * x + 1.0
            return self.head(y)

    train(Net(), tokens(9, 2, 5))
