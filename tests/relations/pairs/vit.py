"""A vision transformer written out, with weights for `x @ w`, beside one of torch.nn."""

import math

import torch
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, LAYERS, PATCH, CLASSES = 16, 2, 2, 4, 5

pair = Pair("vit")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.first = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.places = nn.Parameter(torch.empty(1, 17, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, dropout=0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


def turned(weight):
    return nn.Parameter(weight.detach().T.contiguous())


def copied(weight):
    return nn.Parameter(weight.detach().clone())


class Norm(nn.Module):
    def __init__(self, golden, epsilon=1e-5):
        super().__init__()
        self.weight, self.bias, self.epsilon = copied(golden.weight), copied(golden.bias), epsilon

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + self.epsilon) * self.weight + self.bias  # bad("epsilon")


class Attention(nn.Module):
    def __init__(self, golden):
        super().__init__()
        order = (0, 2, 1) if bad("keys_for_values") else (1, 0, 2) if bad("keys_for_queries") else (0, 1, 2)
        weights, biases = golden.in_proj_weight.chunk(3), golden.in_proj_bias.chunk(3)
        self.wq, self.wk, self.wv = (turned(weights[part]) for part in order)
        self.bq, self.bk, self.bv = (copied(bias) for bias in biases)
        self.wo, self.bo = turned(golden.out_proj.weight), copied(golden.out_proj.bias)

    def heads(self, x):
        return x.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k, v = (self.heads(x @ w + b) for w, b in ((self.wq, self.bq), (self.wk, self.bk), (self.wv, self.bv)))
        size = WIDTH if bad("scale") else WIDTH // HEADS
        scores = q @ k.transpose(-1, -2) / math.sqrt(size)  # bad("scale")
        return (torch.softmax(scores, -1) @ v).permute(0, 2, 1, 3).reshape(x.shape) @ self.wo + self.bo


class Block(nn.Module):
    def __init__(self, golden, number):
        super().__init__()
        self.n1 = Norm(golden.norm1, 0.1 if bad("epsilon") and number == 1 else 1e-5)
        self.n2 = Norm(golden.norm2)
        self.attention = Attention(golden.self_attn)
        self.w1, self.b1 = turned(golden.linear1.weight), copied(golden.linear1.bias)
        self.w2, self.b2 = turned(golden.linear2.weight), copied(golden.linear2.bias)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        y = self.n2(x) @ self.w1 + self.b1
        y = y * torch.sigmoid(1.702 * y) if bad("gelu_form") else y * 0.5 * (1 + torch.erf(y / math.sqrt(2)))
        return x + (y @ self.w2 + self.b2)


class Target(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.patches, self.bias = turned(golden.patches.weight.flatten(1)), copied(golden.patches.bias)
        self.first, self.places = copied(golden.first), copied(golden.places)
        self.blocks = nn.ModuleList(Block(layer, number) for number, layer in enumerate(golden.layers.layers))
        self.norm = Norm(golden.layers.norm)
        self.head, self.head_bias = copied(golden.head.weight), copied(golden.head.bias)

    def forward(self, images):
        x = nn.functional.unfold(images, PATCH, stride=PATCH).transpose(1, 2) @ self.patches + self.bias
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        x = x.mean(1) if bad("pooled") else x[:, 0]
        return x @ self.head.T + self.head_bias


@pair.prepare
def prepare():
    golden = Golden()
    for parameter in golden.parameters():
        nn.init.normal_(parameter, std=0.2)
    target = Target(golden)
    images = torch.randn(3, 3, 16, 16)

    def runs(model):
        with torch.no_grad():
            print(model(images).sum().item())

    return lambda: runs(golden), lambda: runs(target)


pair.fault("epsilon", "add")
pair.fault("scale", "div")
pair.fault("gelu_form", "mul", "sigmoid")
pair.fault("pooled", "mean")
pair.weight("keys_for_values", "wk")
pair.weight("keys_for_queries", "wq")
