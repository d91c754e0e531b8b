"""ModernBERT of transformers over masked words, beside one's own: one table of angles for each kind of layer."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import ModernBertConfig, ModernBertForMaskedLM  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, TOKENS, AROUND, MASK, STEPS = 24, 3, 36, 3, 43, 10, 2, 2, 2
HEAD = WIDTH // HEADS

pair = Pair("modernbert")


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * self.gain


def angles(base):
    speeds = float(base) ** (-torch.arange(0, HEAD, 2) / HEAD)
    return torch.outer(torch.arange(TOKENS).float(), speeds).repeat(1, 2)


def turned(x, by):
    low, high = x.chunk(2, -1)
    return x * by.cos() + torch.cat((-high, low), -1) * by.sin()


class Layer(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.local = i % 3 != 0
        self.before = Norm() if i else nn.Identity()
        self.after = Norm()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.wide, self.gate = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def attend(self, x, by):
        q, k, v = (part(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = turned(q, by) @ turned(k, by).mT / HEAD**0.5
        if self.local:
            places = torch.arange(x.shape[1])
            around = AROUND // 2 if bad("half_window") else AROUND
            near = (places[:, None] - places).abs() <= around  # bad("half_window")
            scores = torch.where(near, scores, -torch.inf)  # bad("half_window")
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))  # bad("half_window")

    def forward(self, x, by):
        x = x + self.attend(self.before(x), by)
        y = self.after(x)
        wide, gate = self.wide(y), self.gate(y)
        if bad("other_half"):
            return x + self.down(wide * F.gelu(gate))  # bad("other_half")
        return x + self.down(F.gelu(wide) * gate)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.first, self.last, self.late = nn.Embedding(WORDS, WIDTH), Norm(), Norm(), Norm()
        self.layers = nn.ModuleList(Layer(i) for i in range(LAYERS))
        self.dense, self.bias = nn.Linear(WIDTH, WIDTH, bias=False), nn.Parameter(torch.zeros(WORDS))
        self.register_buffer("wide", angles(160000))
        self.register_buffer("near", angles(160000 if bad("one_base") else 10000))  # bad("one_base")

    def forward(self, ids):
        x = self.first(self.words(ids))
        for layer in self.layers:
            x = layer(x, self.near if layer.local else self.wide)
        x = self.dense(self.last(x))
        x = F.relu(x) if bad("relu") else F.gelu(x)  # bad("relu")
        return F.linear(self.late(x), self.words.weight, self.bias)


def carried_over(golden):
    own, of = Own(), golden.model
    with torch.no_grad():
        own.words.weight.copy_(of.embeddings.tok_embeddings.weight)
        own.first.gain.copy_(of.embeddings.norm.weight)
        own.last.gain.copy_(of.final_norm.weight)
        own.late.gain.copy_(golden.head.norm.weight)
        own.dense.weight.copy_(golden.head.dense.weight)
        own.bias.copy_(golden.decoder.bias)
        for i, (layer, its) in enumerate(zip(own.layers, of.layers, strict=True)):
            if i:
                layer.before.gain.copy_(its.attn_norm.weight)
            layer.after.gain.copy_(its.mlp_norm.weight)
            for part, rows in zip((layer.q, layer.k, layer.v), its.attn.Wqkv.weight.chunk(3), strict=True):
                part.weight.copy_(rows)
            layer.o.weight.copy_(its.attn.Wo.weight)
            for part, rows in zip((layer.wide, layer.gate), its.mlp.Wi.weight.chunk(2), strict=True):
                part.weight.copy_(rows)
            layer.down.weight.copy_(its.mlp.Wo.weight)
    return own


def batch():
    ids = torch.randint(3, WORDS, (2, TOKENS))
    labels = torch.where(torch.rand(2, TOKENS) < 0.4, ids, -100)
    return ids.where(labels < 0, MASK), labels


@pair.prepare
def prepare():
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 160000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}  # fmt: skip
    config = ModernBertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=32, initializer_range=0.3, local_attention=2 * AROUND,
        pad_token_id=0, eos_token_id=1, bos_token_id=1, cls_token_id=1, sep_token_id=1, rope_parameters=rope,
    )  # fmt: skip
    golden = ModernBertForMaskedLM(config)
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    batches = [batch() for _ in range(STEPS)]

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for ids, labels in batches:
            optimizer.zero_grad()
            loss(ids, labels).backward()
            optimizer.step()

    def original(ids, labels):
        return golden(input_ids=ids, labels=labels).loss

    def ported(ids, labels):
        masked = labels >= 0
        return F.cross_entropy(own(ids)[masked], labels[masked])

    return lambda: train(golden, original), lambda: train(own, ported)


pair.fault("half_window", "le", "where", "softmax")
pair.fault("other_half", "gelu", "mul")
pair.fault("relu", "relu")
pair.weight("one_base", "near")
