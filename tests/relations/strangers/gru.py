"""A GRU by hand beside torch.nn's, and a convolution before it by unfold."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

CHANNELS, HIDDEN, STEPS, CLASSES = 6, 10, 9, 5

pair = Pair("gru")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, CHANNELS, 3, padding=1)
        self.norm = nn.BatchNorm1d(CHANNELS)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.gru = nn.GRU(CHANNELS, HIDDEN, batch_first=True)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, x):
        h = F.relu(self.norm(self.conv(x)))
        return self.head(self.gru(h.transpose(1, 2))[0][:, -1]).log_softmax(-1)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        state = {name: value.detach().clone() for name, value in golden.state_dict().items()}
        self.conv_w = nn.Parameter(state["conv.weight"].flatten(1))
        self.conv_b = nn.Parameter(state["conv.bias"])
        self.scale, self.shift = nn.Parameter(state["norm.weight"]), nn.Parameter(state["norm.bias"])
        self.register_buffer("mean", state["norm.running_mean"])
        self.register_buffer("var", state["norm.running_var"])
        self.wi, self.wh = nn.Parameter(state["gru.weight_ih_l0"]), nn.Parameter(state["gru.weight_hh_l0"])
        self.bi, self.bh = nn.Parameter(state["gru.bias_ih_l0"]), nn.Parameter(state["gru.bias_hh_l0"])
        head = state["head.weight"]
        if bad("head_rows"):
            head = head.roll(1, 0)
        self.head_w, self.head_b = nn.Parameter(head), nn.Parameter(state["head.bias"])

    def conv(self, x):
        x = F.pad(x, (2, 0) if bad("causal") else (1, 1))
        columns = x.unfold(-1, 3, 1).permute(0, 2, 1, 3).flatten(2)
        y = columns @ self.conv_w.t() + self.conv_b
        eps = 0.1 if bad("eps") else 1e-5
        y = (y - self.mean) / torch.sqrt(self.var + eps)  # bad("eps")
        y = y * self.scale + self.shift
        return F.leaky_relu(y, 0.1) if bad("leaky") else y.relu()

    def cell(self, x, h):
        r, z, n = (x @ self.wi.t() + self.bi).chunk(3, -1)
        hr, hz, hn = (h @ self.wh.t() + self.bh).chunk(3, -1)
        r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
        n = torch.tanh(n + hn) if bad("no_reset") else torch.tanh(n + r * hn)
        return z * n + (1 - z) * h if bad("update_swapped") else (1 - z) * n + z * h

    def forward(self, x):
        x = self.conv(x)
        h = x.new_zeros(x.shape[0], HIDDEN)
        for t in range(STEPS - 1 if bad("one_less") else STEPS):
            h = self.cell(x[:, t], h)  # bad("one_less")
        y = h @ self.head_w.t() + self.head_b
        return y.softmax(-1) if bad("no_log") else y.log_softmax(-1)


@pair.prepare
def prepare():
    golden = Golden().eval()
    target = Own(golden).eval()
    x = torch.randn(3, 4, STEPS)
    return lambda: golden(x), lambda: target(x)


pair.weight("head_rows", "head")
pair.fault("causal", "pad", "constantpadnd", "constant_pad_nd")
pair.fault("eps", "sqrt", "add")
pair.fault("leaky", "leaky_relu", "leakyrelu")
pair.fault("no_reset", "add", "tanh")
pair.fault("update_swapped", "mul", "add", "rsub", "sub")
pair.fault("one_less", "add", "mul", "matmul", "mm")
pair.fault("no_log", "softmax")
