"""Outputs of one operator, or tensors of one kind, exchanged."""

import torch
from cases import Family
from finite_training import network_of, rows, training
from torch import nn

family = Family("exchanged outputs")


@family.differs("transpose", "matmul", "chunk", short=True)
def chunk_key_and_value(wrong):
    def forward(s, x):
        q, k, v = s.qkv(x).chunk(3, -1)
        if wrong:
            k, v = v, k
        scores = q @ k.transpose(-1, -2) / 4  # FAULT
        return s.out(scores.softmax(-1) @ v)

    training(network_of(forward, qkv=nn.Linear(16, 48), out=nn.Linear(16, 16)), rows(2, 5, 16))


@family.differs("mul", "tanh", "sigmoid", "split")
def split_gates(wrong):
    def forward(s, x):
        i, f, g = s.gates(x).split([8, 8, 8], 1)
        if wrong:
            i, f = f, i
        c = i.sigmoid() * 2 + f.tanh() * 3 + g  # FAULT
        return s.out(c)

    training(network_of(forward, gates=nn.Linear(8, 24), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("matmul", "mul", "unbind", "sub")
def unbind_pair(wrong):
    def forward(s, x):
        left, right = s.fc(x).view(-1, 2, 6).unbind(1)
        if wrong:
            left, right = right, left
        return s.out(left - 0.5 * right)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 12), out=nn.Linear(6, 4)), rows(6, 8))


@family.differs("sigmoid", "mul", "chunk")
def glu_halves(wrong):
    def forward(s, x):
        a, b = s.up(x).chunk(2, dim=-1)
        h = (b * a.sigmoid()) if wrong else (a * b.sigmoid())  # FAULT
        return s.down(h)

    training(network_of(forward, up=nn.Linear(8, 32), down=nn.Linear(16, 8)), rows(6, 8))


@family.differs("cat", "neg", short=True)
def rotary(wrong):
    def forward(s, x):
        q = s.q(x)
        t = torch.arange(5.0).unsqueeze(1) * torch.tensor([1.0, 0.1, 0.01, 0.001] * 2)
        a, b = q.chunk(2, -1)
        turned = torch.cat([-a, b], -1) if wrong else torch.cat([-b, a], -1)  # FAULT
        return s.out(q * t.cos() + turned * t.sin())

    training(network_of(forward, q=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(3, 5, 8))


@family.differs("linear", "select", "squeeze", "lstm")
def lstm_state(wrong):
    def forward(s, x):
        _, (h, c) = s.lstm(x)
        last = (c if wrong else h).squeeze(0)  # FAULT
        return s.out(last)

    training(network_of(forward, lstm=nn.LSTM(6, 8, batch_first=True), out=nn.Linear(8, 4)), rows(3, 5, 6))


@family.differs("sub", "add", "var_mean")
def var_and_mean(wrong):
    def forward(s, x):
        h = s.fc(x)
        v, m = torch.var_mean(h, -1, keepdim=True)
        if wrong:
            v, m = m.abs(), v
        d = h - m  # FAULT
        return s.out(d / (v + 1e-5).sqrt())

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("cat")
def cat_of_chunks(wrong):
    def forward(s, x):
        a, b, c = s.fc(x).chunk(3, 1)
        return s.out(torch.cat([b, a, c] if wrong else [a, b, c], 1))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 24), out=nn.Linear(24, 4)), rows(6, 8))


@family.differs("stack")
def stack_of_branches(wrong):
    def forward(s, x):
        a, b = s.a(x), s.b(x)
        h = torch.stack([b, a] if wrong else [a, b], 1)  # FAULT
        return s.out(h.flatten(1))

    training(network_of(forward, a=nn.Linear(8, 8), b=nn.Linear(8, 8), out=nn.Linear(16, 4)), rows(6, 8))


@family.differs("sub", "aminmax", "add")
def smallest_and_largest(wrong):
    def forward(s, x):
        h = s.fc(x)
        low, high = torch.aminmax(h, dim=1, keepdim=True)
        if wrong:
            low, high = high, low
        return s.out((h - low) / ((high - low).abs() + 1))  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4)), rows(6, 8))


@family.differs("add", "linear")
def branch_of_another_tensor(wrong):
    def forward(s, x):
        h = s.norm(x)
        y = s.mlp(h)
        return s.out((h if wrong else x) + y)  # FAULT

    parts = {"norm": nn.LayerNorm(8), "mlp": nn.Linear(8, 8), "out": nn.Linear(8, 4)}
    training(network_of(forward, **parts), rows(6, 8))


@family.differs("matmul", "transpose", "linear", "sub", "mul")
def exchanged_in_deep_block(wrong):
    class Block(nn.Module):
        def __init__(self, exchange):
            super().__init__()
            self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
            self.exchange = exchange

        def forward(self, x):
            q, k, v = self.qkv(self.norm(x)).view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
            if self.exchange:
                q, k = k, q
            s = (q @ k.transpose(-2, -1)) * 8**-0.5  # FAULT
            y = (s.softmax(-1) @ v).transpose(1, 2).reshape(2, 5, 16)  # FAULT
            return x + self.out(y)

    network = nn.Sequential(Block(False), Block(False), Block(wrong), Block(False), nn.Linear(16, 3))
    training(network, rows(2, 5, 16))


@family.differs("exp", "mul", "add", "sub")
def sort_values_of_another(wrong):
    def forward(s, x):
        h = s.fc(x)
        top, low = h.topk(2, 1).values, h.topk(2, 1, largest=False).values
        if wrong:
            top, low = low, top
        return s.out(torch.exp(top) - low)  # FAULT

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(2, 4)), rows(6, 8))


@family.differs("linear", "select", "squeeze", "index")
def bidirectional_end(wrong):
    def forward(s, x):
        _, h = s.rnn(x)
        return s.out(h[0] if wrong else h[1])  # FAULT

    rnn = nn.GRU(6, 8, bidirectional=True, batch_first=True)
    training(network_of(forward, rnn=rnn, out=nn.Linear(8, 4)), rows(3, 5, 6))
