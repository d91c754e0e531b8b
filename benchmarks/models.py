"""The networks that the benchmarks train: sizes as in the published results, data made here."""

import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.shortcut is None else self.shortcut(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        return self.relu(x + identity)


class ResNet18(nn.Module):
    """ResNet-18 for 32x32 images; `width` 32 gives a quarter of the usual work, so that a step is some 0.15 s."""

    def __init__(self, width=32, classes=10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        blocks, channels = [], width
        for stage in range(4):
            outputs = width << stage
            for i in range(2):
                blocks.append(BasicBlock(channels, outputs, 2 if stage > 0 and i == 0 else 1))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(x.mean((2, 3)))


class Transformer(nn.Module):
    """Encoder layers over token embeddings, one class per token."""

    def __init__(self, layers=4, width=256, heads=4, vocabulary=1000):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


class Block(nn.Module):
    """A layer of a decoder: attention to what came before, then two linear layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Predicts the next token; 24 layers of width 1024 have 369 million parameters."""

    def __init__(self, layers=24, width=1024, vocabulary=32_000, length=2048):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*[Block(width, width // 64) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.layers(self.tokens(tokens) + self.places(places))))


NAMES = ("resnet18", "transformer", "transformer512")
OF_GPUS = ("decoder",)  # too large for a CPU


def training(name, device="cpu"):
    """`step()`, which trains once, for one of NAMES or OF_GPUS: ResNet-18; d=256, 4 layers, fused AdamW; d=512,
    6 layers; a decoder in bfloat16, whose batch has 16 x 2048 tokens."""
    return training_of(name, device)[0]


def training_of(name, device="cpu"):
    """(step, model)"""
    torch.manual_seed(0)
    if name == "resnet18":
        model, batch = ResNet18().to(device), torch.randn(16, 3, 32, 32).to(device)
        target = torch.randint(0, 10, (16,)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    elif name == "decoder":
        with torch.device(device):
            model = Decoder().bfloat16()
            batch = torch.randint(0, 32_000, (16, 2048))
            target = torch.randint(0, 32_000, (16, 2048))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    else:
        width = 512 if name == "transformer512" else 256
        model = Transformer(layers=6 if width == 512 else 4, width=width, heads=width // 64).to(device)
        batch = torch.randint(0, 1000, (8, 64)).to(device)
        target = torch.randint(0, 1000, (8, 64)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        output = model(batch)
        loss = loss_of(output.reshape(-1, output.shape[-1]), target.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, model
