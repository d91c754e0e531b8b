"""ConvNeXt V2 of transformers in training beside one's own: channels first throughout, products by 1x1 convolutions."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import ConvNextV2Config, ConvNextV2ForImageClassification  # before the forks: it takes seconds

WIDE, PATCH, CLASSES, SIDE, STEPS = (8, 16), 2, 5, 16, 2

pair = Pair("convnextv2")


class ByChannel(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        x = x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return x * self.scale[:, None, None] + self.shift[:, None, None]


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.spread = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = ByChannel(channels)
        self.wide, self.thin = nn.Conv2d(channels, 4 * channels, 1), nn.Conv2d(4 * channels, channels, 1)
        self.gain, self.shift = (nn.Parameter(torch.zeros(4 * channels)) for _ in range(2))

    def respond(self, x):
        energy = x.square().sum((2, 3), keepdim=True).sqrt()
        among = (2, 3) if bad("mean_of_places") else 1
        share = energy / (energy.mean(among, keepdim=True) + 1e-6)  # bad("mean_of_places")
        y = x * share * self.gain[:, None, None] + self.shift[:, None, None]
        if bad("not_added"):
            return y
        return y + x

    def forward(self, x):
        y = F.gelu(self.wide(self.norm(self.spread(x))))
        return x + self.thin(self.respond(y))  # bad("not_added")


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        low, high = WIDE
        self.stem, self.first = nn.Conv2d(3, low, PATCH, PATCH), ByChannel(low)
        self.low, self.high = Block(low), Block(high)
        self.between, self.shrink = ByChannel(low), nn.Conv2d(low, high, 2, 2)
        self.norm, self.head = nn.LayerNorm(high, eps=1e-12), nn.Linear(high, CLASSES)

    def forward(self, images):
        x = self.low(self.first(self.stem(images)))
        x = self.high(self.shrink(self.between(x)))
        return self.head(self.norm(x.mean((2, 3))))


def carry(own, of):
    for mine, theirs in zip(own.parameters(), of.parameters(), strict=True):
        mine.data.copy_(theirs.reshape(mine.shape))


def carried_over(golden):
    own, of = Own(), golden.convnextv2
    carry(own.stem, of.embeddings.patch_embeddings)
    carry(own.first, of.embeddings.layernorm)
    stages = of.encoder.stages
    carry(own.between, stages[1].downsampling_layer[0])
    carry(own.shrink, stages[1].downsampling_layer[1])
    for block, stage in zip((own.low, own.high), stages, strict=True):
        its = stage.layers[0]
        carry(block.spread, its.dwconv)
        carry(block.norm, its.layernorm)
        carry(block.wide, its.pwconv1)
        carry(block.thin, its.pwconv2)
        block.gain.data.copy_(its.grn.weight.flatten())
        block.shift.data.copy_(its.grn.bias.flatten())
    carry(own.norm, of.layernorm)
    carry(own.head, golden.classifier)
    return own


@pair.prepare
def prepare():
    config = ConvNextV2Config(
        patch_size=PATCH, num_stages=2, hidden_sizes=list(WIDE), depths=[1, 1], image_size=SIDE, num_labels=CLASSES,
        initializer_range=0.2,
    )  # fmt: skip
    golden = ConvNextV2ForImageClassification(config)
    unsettle(golden, "norm", "grn", "bias")
    own = carried_over(golden)
    batches = [(torch.randn(2, 3, SIDE, SIDE), torch.randint(0, CLASSES, (2,))) for _ in range(STEPS)]

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for images, labels in batches:
            optimizer.zero_grad()
            loss(images, labels).backward()
            optimizer.step()

    def original(images, labels):
        return golden(pixel_values=images, labels=labels).loss

    return lambda: train(golden, original), lambda: train(own, lambda x, y: F.cross_entropy(own(x), y))


pair.fault("mean_of_places", "mean", "add", "div")
pair.fault("not_added", "conv2d")
