"""An LSTM written out, step by step, beside torch.nn's, in training."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

INPUT, HIDDEN, CLASSES, STEPS = 12, 16, 5, 6

pair = Pair("lstm")


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.wx, self.wh = nn.Parameter(torch.empty(INPUT, 4 * HIDDEN)), nn.Parameter(torch.empty(HIDDEN, 4 * HIDDEN))
        self.b = nn.Parameter(torch.empty(4 * HIDDEN))

    def forward(self, x, h, c):
        z = x @ self.wx + h @ self.wh + self.b
        i, f, g, o = z.chunk(4, -1)
        g = torch.sigmoid(g) if bad("activation") else torch.tanh(g)
        f = torch.sigmoid(f + 1.0) if bad("forget_bias") else torch.sigmoid(f)
        c = f * c + torch.sigmoid(i) * g
        return torch.sigmoid(o) * (c if bad("no_tanh") else torch.tanh(c)), c


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = Cell(), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], HIDDEN)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], h, c)
            if bad("stale_state"):
                h = h.detach() * 0.9 if t == 3 else h  # bad("stale_state")
        return self.head(h)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(INPUT, HIDDEN, batch_first=True), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def weights_of(golden):
    had = golden.state_dict()
    wx, wh = had["lstm.weight_ih_l0"], had["lstm.weight_hh_l0"]
    if bad("gate_order"):
        i, f, g, o = wx.chunk(4)
        wx = torch.cat((i, g, f, o))
    b = had["lstm.bias_ih_l0"] if bad("one_bias") else had["lstm.bias_ih_l0"] + had["lstm.bias_hh_l0"]
    b = had["lstm.bias_hh_l0"] if bad("other_bias") else b
    new = {"cell.wx": wx.T.contiguous(), "cell.wh": wh.T.contiguous(), "cell.b": b}
    return new | {"head.weight": had["head.weight"], "head.bias": had["head.bias"]}


@pair.prepare
def prepare():
    golden, target = Golden(), Net()
    target.load_state_dict(weights_of(golden))
    x, y = torch.randn(4, STEPS, INPUT), torch.randint(0, CLASSES, (4,))
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (golden, target)]

    def run_golden():
        F.cross_entropy(golden(x), y).backward()
        optimizers[0].step()

    def run_target():
        F.cross_entropy(target(x), y).backward()
        optimizers[1].step()

    return run_golden, run_target


pair.fault("activation", "sigmoid")
pair.fault("forget_bias", "add", "sigmoid")
pair.fault("no_tanh", "mul")
pair.fault("stale_state", "mul", "detach")
pair.weight("gate_order", "cell.wx")
pair.weight("one_bias", "cell.b")
pair.weight("other_bias", "cell.b")
