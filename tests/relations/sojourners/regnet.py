"""RegNet of transformers in training: grouped convolutions and a squeeze of channels, beside one's own bottlenecks."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import RegNetConfig, RegNetForImageClassification  # before the forks: it takes seconds

WIDTHS, DEPTHS, STEM, GROUP, LABELS, STEPS = (16, 24), (1, 2), 8, 8, 4, 2

pair = Pair("regnet")


class Squeeze(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.reduce, self.expand = nn.Linear(channels, reduced), nn.Linear(reduced, channels)

    def forward(self, x):
        gate = self.expand(F.relu(self.reduce(x.mean((2, 3)))))
        gate = F.hardsigmoid(gate) if bad("gate") else torch.sigmoid(gate)  # bad("gate")
        return x * gate[:, :, None, None]


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride, epsilon=1e-5):
        super().__init__()
        self.stride = stride
        first = stride if bad("stride") else 1
        self.conv1 = nn.Conv2d(channels, width, 1, first, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride // first, bias=False, groups=width // GROUP)
        self.bn2 = nn.BatchNorm2d(width)
        self.se = Squeeze(width, round(channels / 4))
        self.conv3 = nn.Conv2d(width, width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width, eps=epsilon)
        if stride > 1 or channels != width:
            self.down = nn.Conv2d(channels, width, 1, stride, bias=False)
            self.down_bn = nn.BatchNorm2d(width)
        else:
            self.down = None

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))  # bad("stride")
        around = (0, 2, 0, 2) if bad("pad") and self.stride > 1 else (1, 1, 1, 1)
        y = self.conv2(F.pad(y, around))  # bad("pad")
        y = self.bn3(self.conv3(self.se(F.relu(self.bn2(y)))))  # bad("epsilon")
        if self.down is not None:
            x = self.down_bn(self.down(x))
        if bad("relu_first"):
            return x + F.relu(y)  # bad("relu_first")
        return F.relu(x + y)


class RegNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, STEM, 3, 2, 1, bias=False)
        self.stem_bn = nn.BatchNorm2d(STEM)
        blocks, channels = [], STEM
        for width, depth in zip(WIDTHS, DEPTHS, strict=True):
            for i in range(depth):
                blocks.append(Bottleneck(channels, width, 2 if i == 0 else 1))
                channels = width
        if bad("epsilon"):
            blocks[1].bn3.eps = 1e-2
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, LABELS)

    def forward(self, images):
        x = self.blocks(F.relu(self.stem_bn(self.stem(images))))
        return self.fc(x.mean((2, 3)))


def carried_over(golden):
    own = RegNet()
    of = golden.regnet
    own.stem.load_state_dict(of.embedder.embedder.convolution.state_dict())
    own.stem_bn.load_state_dict(of.embedder.embedder.normalization.state_dict())
    layers = [layer for stage in of.encoder.stages for layer in stage.layers]
    for block, layer in zip(own.blocks, layers, strict=True):
        one, two, squeeze, three = layer.layer
        for conv, norm, part in (
            (block.conv1, block.bn1, one),
            (block.conv2, block.bn2, two),
            (block.conv3, block.bn3, three),
        ):
            conv.load_state_dict(part.convolution.state_dict())
            norm.load_state_dict(part.normalization.state_dict())
        for linear, conv in ((block.se.reduce, squeeze.attention[0]), (block.se.expand, squeeze.attention[2])):
            linear.weight.data.copy_(conv.weight.flatten(1))
            linear.bias.data.copy_(conv.bias)
        if block.down is not None:
            block.down.load_state_dict(layer.shortcut.convolution.state_dict())
            block.down_bn.load_state_dict(layer.shortcut.normalization.state_dict())
    if bad("exchanged"):
        own.blocks[2].bn2.load_state_dict(layers[2].layer[0].normalization.state_dict())  # bad("exchanged")
    own.fc.load_state_dict(golden.classifier[1].state_dict())
    return own


@pair.prepare
def prepare():
    config = RegNetConfig(
        num_channels=3, embedding_size=STEM, hidden_sizes=list(WIDTHS), depths=list(DEPTHS), groups_width=GROUP,
        layer_type="y", downsample_in_first_stage=True, num_labels=LABELS,
    )  # fmt: skip
    golden = RegNetForImageClassification(config)
    unsettle(golden, "normalization", "bias")
    own = carried_over(golden)
    batches = [(torch.randn(4, 3, 32, 32), torch.randint(0, LABELS, (4,))) for _ in range(STEPS)]

    def train(model, logits_of):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        model.train()
        for images, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(logits_of(model(images)), labels).backward()
            optimizer.step()

    return lambda: train(golden, lambda out: out.logits), lambda: train(own, lambda out: out)


pair.fault("gate", "hardsigmoid")
pair.fault("stride", "conv2d")
pair.fault("pad", "pad", "constant_pad_nd")
pair.fault("epsilon", "batch_norm")
pair.fault("relu_first", "relu", "add")
pair.weight("exchanged", "bn2")
