"""Inverted bottlenecks: batch norm in modules beside its formula, the depthwise product as a sum of shifted images."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, INNER, SIDE = 8, 24, 10

pair = Pair("mobilenet")


class Bottleneck(nn.Module):
    def __init__(self):
        super().__init__()
        self.expand, self.bn1 = nn.Conv2d(WIDTH, INNER, 1, bias=False), nn.BatchNorm2d(INNER)
        self.depth, self.bn2 = nn.Conv2d(INNER, INNER, 3, padding=1, groups=INNER, bias=False), nn.BatchNorm2d(INNER)
        self.project, self.bn3 = nn.Conv2d(INNER, WIDTH, 1, bias=False), nn.BatchNorm2d(WIDTH)

    def forward(self, x):
        y = F.relu6(self.bn1(self.expand(x)))
        y = F.relu6(self.bn2(self.depth(y)))
        return x + self.bn3(self.project(y))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, WIDTH, 3, 2, 1, bias=False), nn.BatchNorm2d(WIDTH)
        self.blocks = nn.ModuleList(Bottleneck() for _ in range(2))
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, x):
        x = F.hardswish(self.bn(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.state_dict().items() if w.is_floating_point()}
        if bad("stale_mean"):
            own["blocks_1_bn3_running_mean"] = torch.zeros(WIDTH)
        self.w = nn.ParameterDict({n: nn.Parameter(w, requires_grad=False) for n, w in own.items()})

    def norm(self, x, name):
        w, b, mean, variance = (self.w[f"{name}_{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        if bad("variance_not_rooted") and name == "blocks_0_bn2":
            scale = w / (variance + 1e-5)  # bad("variance_not_rooted")
        else:
            scale = w / (variance + 1e-5).sqrt()
        return x * scale[:, None, None] + (b - mean * scale)[:, None, None]

    def pointwise(self, x, name):
        return torch.einsum("nchw,oc->nohw", x, self.w[f"{name}_weight"][:, :, 0, 0])

    def depthwise(self, x, name):
        kernel, wide, total = self.w[f"{name}_weight"], F.pad(x, (1, 1, 1, 1)), 0
        if bad("kernel_flipped") and "blocks_1" in name:
            kernel = kernel.flip(2, 3)  # bad("kernel_flipped")
        for i in range(3):
            for j in range(3):
                total = total + wide[:, :, i : i + x.shape[2], j : j + x.shape[3]] * kernel[:, 0, i, j, None, None]
        return total

    def forward(self, x):
        x = self.norm(F.conv2d(x, self.w["stem_weight"], stride=2, padding=1), "bn")
        x = F.silu(x) if bad("silu") else x * (x + 3).clamp(0, 6) / 6  # bad("silu")
        for i in range(2):
            y = self.norm(self.pointwise(x, f"blocks_{i}_expand"), f"blocks_{i}_bn1")
            y = y.clamp(0, 6)
            y = self.norm(self.depthwise(y, f"blocks_{i}_depth"), f"blocks_{i}_bn2").clamp(0, 6)
            x = x + self.norm(self.pointwise(y, f"blocks_{i}_project"), f"blocks_{i}_bn3")
        return x.mean((2, 3)) @ self.w["head_weight"].t() + self.w["head_bias"]


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "bn")
    for name, weight in golden.named_parameters():
        if "bn1.weight" in name:
            weight.data.mul_(5)
    for name, buffer in golden.named_buffers():
        if "running" in name:
            buffer.add_(0.3 * torch.rand_like(buffer))
    golden.eval()
    target, x = Own(golden), torch.randn(3, 3, 2 * SIDE, 2 * SIDE)
    return lambda: golden(x), lambda: target(x)


pair.weight("stale_mean", "bn3_running_mean")
pair.fault("variance_not_rooted", "div", "add")
pair.fault("kernel_flipped", "flip")
pair.fault("silu", "silu")
