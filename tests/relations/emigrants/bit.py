"""BiT of transformers, with TensorFlow's padding and standardised kernels, beside one's own by var_mean."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import BitConfig, BitForImageClassification  # before the forks: it takes seconds

STEM, WIDE, GROUPS, CLASSES, SIDE = 8, (16, 32), 4, 5, 32

pair = Pair("bit")


def standard(kernel):
    if bad("unbiased"):
        var, mean = torch.var_mean(kernel, (1, 2, 3), keepdim=True)  # bad("unbiased")
    else:
        var, mean = torch.var_mean(kernel, (1, 2, 3), correction=0, keepdim=True)
    return (kernel - mean) * torch.rsqrt(var + 1e-8)  # bad("unbiased")


def same(x, size, stride):
    sides = []
    for length in reversed(x.shape[-2:]):
        missing = max((-(-length // stride) - 1) * stride + size - length, 0)
        sides += [missing // 2, missing - missing // 2]
    return sides


class Conv(nn.Module):
    def __init__(self, channels, wide, size, stride=1):
        super().__init__()
        self.kernel, self.stride = nn.Parameter(torch.zeros(wide, channels, size, size)), stride

    def forward(self, x):
        size = self.kernel.shape[-1]
        if bad("symmetric") and self.stride > 1 and size == 3:
            return F.conv2d(x, standard(self.kernel), None, self.stride, size // 2)  # bad("symmetric")
        if any(sides := same(x, size, self.stride)):
            x = F.pad(x, sides)
        return F.conv2d(x, standard(self.kernel), None, self.stride)  # bad("short_of_raw")


class Block(nn.Module):
    def __init__(self, channels, wide, stride):
        super().__init__()
        inner = max(8, wide // 4)
        self.short = Conv(channels, wide, 1, stride)
        self.convs = nn.ModuleList((Conv(channels, inner, 1), Conv(inner, inner, 3, stride), Conv(inner, wide, 1)))
        self.norms = nn.ModuleList(nn.GroupNorm(GROUPS, size) for size in (channels, inner, inner))

    def forward(self, x):
        ready = F.relu(self.norms[0](x))
        y = self.convs[1](F.relu(self.norms[1](self.convs[0](ready))))
        y = self.convs[2](F.relu(self.norms[2](y)))
        return y + self.short(x if bad("short_of_raw") else ready)  # bad("short_of_raw")


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = Conv(3, STEM, 7, 2)
        self.blocks = nn.ModuleList((Block(STEM, WIDE[0], 1), Block(WIDE[0], WIDE[1], 2)))
        self.norm, self.head = nn.GroupNorm(GROUPS, WIDE[1]), nn.Linear(WIDE[1], CLASSES)

    @torch.no_grad()
    def forward(self, images):
        x = self.stem(images)
        x = F.pad(x, (0, 1, 0, 1)) if x.shape[-1] % 2 == 0 else F.pad(x, (1, 1, 1, 1))
        x = F.max_pool2d(x, 3, 2)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if not bad("relu_left_out"):
            x = F.relu(x)
        return self.head(x.mean((2, 3)))  # bad("relu_left_out")


def carried_over(golden):
    own, of = Own(), golden.bit
    own.stem.kernel.data.copy_(of.embedder.convolution.weight)
    for block, stage in zip(own.blocks, of.encoder.stages, strict=True):
        its = stage.layers[0]
        block.short.kernel.data.copy_(its.downsample.conv.weight)
        for conv, other in zip(block.convs, (its.conv1, its.conv2, its.conv3), strict=True):
            conv.kernel.data.copy_(other.weight)
        for norm, other in zip(block.norms, (its.norm1, its.norm2, its.norm3), strict=True):
            norm.load_state_dict(other.state_dict())
    own.norm.load_state_dict(of.norm.state_dict())
    own.head.load_state_dict(golden.classifier[1].state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = BitConfig(
        embedding_size=STEM, hidden_sizes=list(WIDE), depths=[1, 1], num_groups=GROUPS, global_padding="SAME",
        embedding_dynamic_padding=True, num_labels=CLASSES,
    )  # fmt: skip
    golden = BitForImageClassification(config).eval()
    unsettle(golden, "norm", "classifier")
    own = carried_over(golden)
    images = torch.randn(2, 3, SIDE, SIDE)

    @torch.no_grad()
    def original():
        golden(images)

    return original, lambda: own(images)


pair.fault("unbiased", "var_mean", "mul", "rsqrt")
pair.fault("symmetric", "conv2d")
pair.fault("short_of_raw", "conv2d", "add")
pair.fault("relu_left_out", "mean")
