"""GPT-NeoX: queries, keys and values per head in one weight, a part of each head rotated, both branches read one x."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, TURNED, LENGTH, LAYERS, WORDS = 32, 4, 4, 6, 2, 40
HEAD = WIDTH // HEADS

pair = Pair("neox")


def rotated(x):
    one, two = x.chunk(2, -1)
    return torch.cat((-two, one), -1)


def angles(length):
    angle = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(0, TURNED, 2) / TURNED)
    return torch.cat((angle, angle), -1)


class GoldenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.dense = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def turn(self, x, cos, sin):
        turned, kept = x[..., :TURNED], x[..., TURNED:]
        return torch.cat((turned * cos + rotated(turned) * sin, kept), -1)

    def forward(self, x, cos, sin):
        fused = self.query_key_value(self.ln1(x)).unflatten(-1, (HEADS, 3 * HEAD)).transpose(1, 2)
        q, k, v = fused.chunk(3, -1)
        y = F.scaled_dot_product_attention(self.turn(q, cos, sin), self.turn(k, cos, sin), v, is_causal=True)
        return self.down(F.gelu(self.up(self.ln2(x)))) + self.dense(y.transpose(1, 2).flatten(2)) + x


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(GoldenLayer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x, angle = self.embed(ids), angles(ids.shape[1])
        for layer in self.layers:
            x = layer(x, angle.cos(), angle.sin())
        return self.head(self.norm(x))


def split(weight):
    """To queries, keys and values; the fault is the order of other models."""
    if bad("not_per_head"):
        return [part.contiguous() for part in weight.chunk(3)]
    return [part.flatten(0, 1) for part in weight.unflatten(0, (HEADS, 3, HEAD)).unbind(1)]


class OwnLayer(nn.Module):
    def __init__(self, golden):
        super().__init__()
        for name, weight in zip("qkv", split(golden.query_key_value.weight.detach()), strict=True):
            self.register_parameter(f"w{name}", nn.Parameter(weight.clone()))
        for name, bias in zip("qkv", split(golden.query_key_value.bias.detach()), strict=True):
            self.register_parameter(f"b{name}", nn.Parameter(bias.clone()))
        for name in ("ln1", "ln2", "dense", "up", "down"):
            self.register_parameter(f"{name}_w", nn.Parameter(getattr(golden, name).weight.detach().clone()))
            self.register_parameter(f"{name}_b", nn.Parameter(getattr(golden, name).bias.detach().clone()))

    def turn(self, x, angle):
        width = HEAD if bad("all_turned") else TURNED
        if bad("all_turned"):
            angle = torch.cat((angle, angle), -1)  # bad("all_turned")
        part = x[..., :width]  # bad("all_turned")
        if bad("in_pairs"):
            other = torch.stack((-part[..., 1::2], part[..., 0::2]), -1).flatten(-2)  # bad("in_pairs")
        else:
            half = width // 2
            other = torch.cat((-part[..., half:], part[..., :half]), -1)
        return torch.cat((part * angle.cos() + other * angle.sin(), x[..., width:]), -1)

    def heads(self, y):
        return y.view(*y.shape[:2], HEADS, HEAD).permute(0, 2, 1, 3)

    def forward(self, x, angle):
        y = F.layer_norm(x, (WIDTH,), self.ln1_w, self.ln1_b)
        q, k, v = (self.heads(F.linear(y, getattr(self, f"w{n}"), getattr(self, f"b{n}"))) for n in "qkv")
        scores = self.turn(q, angle) @ self.turn(k, angle).transpose(-1, -2) / HEAD**0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        attended = F.linear((weights @ v).transpose(1, 2).flatten(2), self.dense_w, self.dense_b)
        if bad("in_series"):
            y = F.layer_norm(x + attended, (WIDTH,), self.ln2_w, self.ln2_b)  # bad("in_series")
        else:
            y = F.layer_norm(x, (WIDTH,), self.ln2_w, self.ln2_b)
        return x + attended + F.linear(F.gelu(F.linear(y, self.up_w, self.up_b)), self.down_w, self.down_b)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.layers = nn.ModuleList(OwnLayer(layer) for layer in golden.layers)
        for name in ("embed", "head"):
            self.register_parameter(name, nn.Parameter(getattr(golden, name).weight.detach().clone()))
        self.norm_w = nn.Parameter(golden.norm.weight.detach().clone())
        self.norm_b = nn.Parameter(golden.norm.bias.detach().clone())

    def forward(self, ids):
        x, angle = self.embed[ids], angles(ids.shape[1])
        for layer in self.layers:
            x = layer(x, angle)
        return F.layer_norm(x, (WIDTH,), self.norm_w, self.norm_b) @ self.head.t()


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "ln", "norm")
    target, ids = Own(golden), torch.randint(0, WORDS, (2, LENGTH))
    return lambda: golden(ids), lambda: target(ids)


pair.weight("not_per_head", "layers.0.")
pair.fault("all_turned", "slice", "cat")
pair.fault("in_pairs", "slice", "stack", "flatten", "neg")
pair.fault("in_series", "add", "layer_norm")
