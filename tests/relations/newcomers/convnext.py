"""ConvNeXt blocks: channels first in modules beside channels last in functions, with a norm of its own."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, NEXT, SIDE, KERNEL, EPSILON = 12, 20, 12, 5, 1e-2

pair = Pair("convnext")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, KERNEL, padding=KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 2, 2)
        self.first, self.second = Block(WIDTH), Block(NEXT)
        self.norm, self.between = nn.LayerNorm(WIDTH, EPSILON), nn.Conv2d(WIDTH, NEXT, 2, 2)
        self.last, self.head = nn.LayerNorm(NEXT, EPSILON), nn.Linear(NEXT, 7)

    def forward(self, x):
        x = self.first(self.stem(x))
        x = self.between(self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        return self.head(self.last(self.second(x).mean((2, 3))))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def norm(self, x, name):
        apart = x - x.mean(-1, keepdim=True)
        variance = apart.pow(2).mean(-1, keepdim=True)
        if bad("epsilon") and name == "last":
            apart = apart * (variance + 1e-6).rsqrt()  # bad("epsilon")
        else:
            apart = apart * (variance + EPSILON).rsqrt()
        return apart * self.w[f"{name}_weight"] + self.w[f"{name}_bias"]

    def patches(self, x, name):
        """A convolution of step two as one product over patches, channels last."""
        n, h, w, c = x.shape
        y = x.view(n, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 5, 2, 4).flatten(3)
        return y @ self.w[f"{name}_weight"].flatten(1).t() + self.w[f"{name}_bias"]

    def block(self, x, name):
        kernel, bias = self.w[f"{name}_depthwise_weight"], self.w[f"{name}_depthwise_bias"]
        y = x.permute(0, 3, 1, 2)
        if bad("circular") and name == "second":
            y = F.conv2d(F.pad(y, (2, 2, 2, 2), "circular"), kernel, bias, groups=y.shape[1])  # bad("circular")
        else:
            y = F.conv2d(y, kernel, bias, padding=KERNEL // 2, groups=y.shape[1])
        y = self.norm(y.permute(0, 2, 3, 1), f"{name}_norm")
        y = y @ self.w[f"{name}_up_weight"].t() + self.w[f"{name}_up_bias"]
        y = F.gelu(y, approximate="tanh" if bad("tanh") and name == "first" else "none")
        y = y @ self.w[f"{name}_down_weight"].t() + self.w[f"{name}_down_bias"]
        if bad("no_scale") and name == "second":
            return x + y  # bad("no_scale")
        return x + y * self.w[f"{name}_scale"]

    def forward(self, x):
        x = self.block(self.patches(x.permute(0, 2, 3, 1), "stem"), "first")
        x = self.block(self.patches(self.norm(x, "norm"), "between"), "second")
        x = x.amax((1, 2)) if bad("greatest") else x.mean((1, 2))  # bad("greatest")
        return self.norm(x, "last") @ self.w["head_weight"].t() + self.w["head_bias"]


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "last")
    target, x = Own(golden), torch.randn(2, 3, SIDE, SIDE)
    return lambda: golden(x), lambda: target(x)


pair.fault("epsilon", "add", "rsqrt")
pair.fault("circular", "pad", "conv2d")
pair.fault("tanh", "gelu")
pair.fault("no_scale", "add")
pair.fault("greatest", "amax")
