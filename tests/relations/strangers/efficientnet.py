"""An inverted bottleneck with squeeze and excitation; the batch norms are folded into the convolutions before."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

CHANNELS, WIDE, SMALL, SIDE, CLASSES = 6, 18, 3, 8, 7

pair = Pair("efficientnet")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn0 = nn.Conv2d(3, CHANNELS, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(CHANNELS)
        self.expand, self.bn1 = nn.Conv2d(CHANNELS, WIDE, 1, bias=False), nn.BatchNorm2d(WIDE)
        self.depth, self.bn2 = nn.Conv2d(WIDE, WIDE, 3, padding=1, groups=WIDE, bias=False), nn.BatchNorm2d(WIDE)
        self.reduce, self.excite = nn.Conv2d(WIDE, SMALL, 1), nn.Conv2d(SMALL, WIDE, 1)
        self.project, self.bn3 = nn.Conv2d(WIDE, CHANNELS, 1, bias=False), nn.BatchNorm2d(CHANNELS)
        self.head = nn.Linear(CHANNELS, CLASSES)

    def forward(self, x):
        x = F.silu(self.bn0(self.stem(x)))
        h = F.silu(self.bn1(self.expand(x)))
        h = F.silu(self.bn2(self.depth(h)))
        gate = self.excite(F.silu(self.reduce(F.adaptive_avg_pool2d(h, 1))))
        x = x + self.bn3(self.project(h * torch.sigmoid(gate)))  # without a counterpart: bad("no_residual")
        return self.head(x.mean((2, 3)))


def folded(conv, norm, eps):
    scale = norm.weight / torch.sqrt(norm.running_var + eps)
    return nn.Parameter(conv.weight * scale[:, None, None, None]), nn.Parameter(norm.bias - norm.running_mean * scale)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        with torch.no_grad():
            for i, name in enumerate(("stem", "expand", "depth", "project")):
                eps = 0.1 if bad("folded_eps") and i == 1 else 1e-5
                weight, bias = folded(getattr(golden, name), getattr(golden, f"bn{i}"), eps)
                self.register_parameter(f"{name}_w", weight)
                self.register_parameter(f"{name}_b", bias)
        for name in ("reduce", "excite", "head"):
            self.register_parameter(f"{name}_w", nn.Parameter(getattr(golden, name).weight.detach().flatten(1).clone()))
            self.register_parameter(f"{name}_b", nn.Parameter(getattr(golden, name).bias.detach().clone()))

    def forward(self, x):
        if bad("padded_after"):
            x = F.conv2d(F.pad(x, (0, 1, 0, 1)), self.stem_w, self.stem_b, stride=2)  # bad("padded_after")
        else:
            x = F.conv2d(x, self.stem_w, self.stem_b, stride=2, padding=1)
        x = x * x.sigmoid()
        h = F.conv2d(x, self.expand_w, self.expand_b)
        h = h * h.sigmoid()
        before = h
        h = F.conv2d(h, self.depth_w, self.depth_b, padding=1, groups=WIDE)
        h = h * h.sigmoid()
        squeezed = (before if bad("squeezed_early") else h).mean((2, 3))
        gate = F.linear(squeezed, self.reduce_w, self.reduce_b)
        gate = F.linear(gate.relu() if bad("relu") else F.silu(gate), self.excite_w, self.excite_b)
        gate = F.hardsigmoid(gate) if bad("hard") else gate.sigmoid()
        h = F.conv2d(h * gate[..., None, None], self.project_w, self.project_b)
        x = h if bad("no_residual") else x + h
        return F.linear(x.mean((2, 3)), self.head_w, self.head_b)  # bad("no_residual")


@pair.prepare
def prepare():
    golden = Golden().eval()
    for name, value in golden.state_dict().items():
        if "bn" in name and value.is_floating_point():
            value.add_(0.3 * torch.rand_like(value))
    target, x = Own(golden).eval(), torch.randn(2, 3, SIDE, SIDE)

    def no_gradients(model):
        with torch.no_grad():
            model(x)

    return lambda: no_gradients(golden), lambda: no_gradients(target)


pair.weight("folded_eps", "expand_w")
pair.fault("padded_after", "pad", "constant_pad_nd", "conv2d")
pair.fault("squeezed_early", "mean")
pair.fault("relu", "relu")
pair.fault("hard", "hardsigmoid")
pair.fault("no_residual", "mean", "conv2d", "add")
