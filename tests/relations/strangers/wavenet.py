"""WaveNet: dilated convolutions of the past, gated, with sums of skips; taps as shifted products."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

CHANNELS, SKIPS, LENGTH, DILATIONS, CLASSES = 12, 10, 16, (1, 2, 4), 8

pair = Pair("wavenet")


class GoldenLayer(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.dilation = dilation
        self.filter = nn.Conv1d(CHANNELS, CHANNELS, 2, dilation=dilation)
        self.gate = nn.Conv1d(CHANNELS, CHANNELS, 2, dilation=dilation)
        self.res, self.skip = nn.Conv1d(CHANNELS, CHANNELS, 1), nn.Conv1d(CHANNELS, SKIPS, 1)

    def forward(self, x):
        past = F.pad(x, (self.dilation, 0))
        y = torch.tanh(self.filter(past)) * torch.sigmoid(self.gate(past))
        return x + self.res(y), self.skip(y)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, CHANNELS, 1)
        self.layers = nn.ModuleList(GoldenLayer(d) for d in DILATIONS)
        self.post1, self.post2 = nn.Conv1d(SKIPS, SKIPS, 1), nn.Conv1d(SKIPS, CLASSES, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.post2(F.relu(self.post1(F.relu(total))))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for i in range(len(DILATIONS)):
            parts = ["filter", "gate"]
            if bad("halves") and i == 1:
                parts.reverse()
            both = torch.cat([own.pop(f"layers_{i}_{p}_weight") for p in parts])
            own[f"w{i}"] = both.permute(2, 1, 0).contiguous()
            own[f"b{i}"] = torch.cat([own.pop(f"layers_{i}_{p}_bias") for p in ("filter", "gate")])
        self.w = nn.ParameterDict(own)

    def one(self, x, name):
        return x @ self.w[f"{name}_weight"].squeeze(-1).t() + self.w[f"{name}_bias"]  # bad("res_of_x")

    def forward(self, x):
        x, skips = self.one(x.transpose(1, 2), "first"), []
        for i, dilation in enumerate(DILATIONS):
            far = dilation + 1 if bad("too_far") and i == 2 else dilation
            past = F.pad(x, (0, 0, far, 0))[:, :LENGTH]  # bad("too_far")
            taps = (x, past) if bad("taps_exchanged") else (past, x)
            y = taps[0] @ self.w[f"w{i}"][0] + taps[1] @ self.w[f"w{i}"][1] + self.w[f"b{i}"]  # bad("taps_exchanged")
            one, two = y.split(CHANNELS, -1)
            y = one * two.sigmoid() if bad("no_tanh") else one.tanh() * two.sigmoid()
            skips.append(self.one(y, f"layers_{i}_skip"))
            x = x + (self.one(x, f"layers_{i}_res") if bad("res_of_x") else self.one(y, f"layers_{i}_res"))
        total = skips[0] + skips[1] if bad("two_skips") else skips[0] + skips[1] + skips[2]
        return self.one(self.one(total.relu(), "post1").relu(), "post2")  # bad("two_skips")


@pair.prepare
def prepare():
    golden = Golden()
    target, x = Own(golden), torch.randn(3, 1, LENGTH)

    def no_gradients(model):
        with torch.no_grad():
            model(x)

    return lambda: no_gradients(golden), lambda: no_gradients(target)


pair.weight("halves", "w1")
pair.fault("too_far", "pad", "constant_pad_nd", "slice")
pair.fault("taps_exchanged", "matmul", "add")
pair.fault("no_tanh", "mul")
pair.fault("res_of_x", "add", "matmul")
pair.fault("two_skips", "add", "relu")
