"""ResNet of transformers for inference beside one's own, whose convolutions contain their norms."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification  # before the forks: it takes seconds

STEM, WIDTHS, DEPTHS, LABELS = 8, (12, 16), (2, 2), 6

pair = Pair("resnet")


def folded(of, epsilon=1e-5):
    """The convolution and its norm as one convolution."""
    conv, norm = of.convolution, of.normalization
    factor = norm.weight / torch.sqrt(norm.running_var + epsilon)
    one = nn.Conv2d(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, bias=True)
    with torch.no_grad():
        one.weight.copy_(conv.weight * factor[:, None, None, None])
        one.bias.copy_(norm.bias - norm.running_mean * factor)
    return one


class BasicBlock(nn.Module):
    def __init__(self, of, last):
        super().__init__()
        self.last = last
        self.conv1, self.conv2 = folded(of.layer[0]), folded(of.layer[1])
        self.down = None if isinstance(of.shortcut, nn.Identity) else folded(of.shortcut)

    def forward(self, x):
        identity = x if self.down is None else self.down(x)
        x = self.conv2(F.relu(self.conv1(x)))
        if bad("relu_first") and self.last:
            return F.relu(x) + identity  # bad("relu_first")
        if bad("no_shortcut") and self.last:
            return F.relu(x)  # bad("no_shortcut")
        return F.relu(x + identity)


class ResNet(nn.Module):
    def __init__(self, golden):
        super().__init__()
        of = golden.resnet
        self.conv = folded(of.embedder.embedder)
        layers = [layer for stage in of.encoder.stages for layer in stage.layers]
        self.blocks = nn.Sequential(*(BasicBlock(layer, layer is layers[-1]) for layer in layers))
        if bad("norm_not_folded"):
            own, its = self.blocks[1].conv2, layers[1].layer[1].convolution
            own.weight.data.copy_(its.weight)  # bad("norm_not_folded")
        self.fc = nn.Linear(WIDTHS[-1], LABELS)
        self.fc.load_state_dict(golden.classifier[1].state_dict())

    @torch.no_grad()
    def forward(self, images):
        x = F.relu(self.conv(images))
        x = F.max_pool2d(x, 3, 2, 0 if bad("pool_pad") else 1, ceil_mode=bad("pool_pad"))  # bad("pool_pad")
        x = self.blocks(x)
        x = x.amax((2, 3)) if bad("max_for_mean") else x.mean((2, 3))  # bad("max_for_mean")
        if bad("twice"):
            return F.linear(x, self.fc.weight, self.fc.bias) + self.fc.bias  # bad("twice")
        return self.fc(x)


@pair.prepare
def prepare():
    config = ResNetConfig(
        num_channels=3, embedding_size=STEM, hidden_sizes=list(WIDTHS), depths=list(DEPTHS), layer_type="basic",
        num_labels=LABELS,
    )  # fmt: skip
    golden = ResNetForImageClassification(config).eval()
    unsettle(golden, "normalization", "bias")
    for name, buffer in golden.named_buffers():
        if "running" in name:
            buffer.add_(0.2 * torch.rand_like(buffer))
    own = ResNet(golden).eval()
    images = torch.randn(3, 3, 32, 32)

    @torch.no_grad()
    def run():
        return golden(images)

    return run, lambda: own(images)


pair.fault("relu_first", "relu", "add")
pair.fault("no_shortcut", "relu")
pair.fault("pool_pad", "max_pool2d")
pair.fault("max_for_mean", "amax")
pair.fault("twice", "add")
pair.weight("norm_not_folded", "blocks.1.conv2.weight")
