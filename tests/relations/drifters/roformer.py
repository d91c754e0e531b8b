"""RoFormer of transformers in training, padded, beside one's own: halves in place of pairs, a table of angles."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import RoFormerConfig, RoFormerForSequenceClassification  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, TOKENS, CLASSES, STEPS, PAD = 24, 3, 40, 2, 41, 8, 4, 2, 0
HEAD = WIDTH // HEADS

pair = Pair("roformer")


def sorted_pairs(weight):
    """Rows of each head: first the first ones of the pairs, then the second ones."""
    return weight.unflatten(0, (HEADS, HEAD // 2, 2)).transpose(1, 2).flatten(0, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qk, self.v = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.o, self.norm_o = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.up, self.down, self.norm_down = (
            nn.Linear(WIDTH, INNER),
            nn.Linear(INNER, WIDTH),
            nn.LayerNorm(WIDTH, eps=1e-12),
        )

    def forward(self, x, angles, mask):
        qk = self.qk(x).unflatten(-1, (2, HEADS, HEAD)).permute(2, 0, 3, 1, 4)
        low, high = qk.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        if bad("halves_added"):
            q, k = torch.cat((low * cos + high * sin, high * cos + low * sin), -1)  # bad("halves_added")
        else:
            q, k = torch.cat((low * cos - high * sin, high * cos + low * sin), -1)
        v = self.v(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
        scores = q @ k.mT / (HEAD if bad("not_root") else HEAD**0.5)  # bad("not_root")
        if not bad("padding_seen"):
            scores = scores.masked_fill(mask[:, None, None], -1e9)
        y = scores.softmax(-1) @ v  # bad("padding_seen")
        x = self.norm_o(x + self.o(y.transpose(1, 2).flatten(2)))
        return self.norm_down(x + self.down(F.gelu(self.up(x))))


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.kind, self.norm = (
            nn.Embedding(WORDS, WIDTH),
            nn.Parameter(torch.zeros(WIDTH)),
            nn.LayerNorm(WIDTH, eps=1e-12),
        )
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.dense, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)
        places, speeds = torch.arange(TOKENS).float(), 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD)
        self.register_buffer("angles", torch.outer(places, speeds))

    def forward(self, ids):
        x = self.words(ids)
        if not bad("kind_left_out"):
            x = x + self.kind
        x = self.norm(x)  # bad("kind_left_out")
        for layer in self.layers:
            x = layer(x, self.angles[: ids.shape[1]], ids == PAD)
        x = self.dense(x[:, 0])
        x = torch.tanh(x) if bad("tanh") else F.gelu(x)  # bad("tanh")
        return self.out(x)


def carried_over(golden):
    own, of = Sentences(), golden.roformer
    with torch.no_grad():
        own.words.weight.copy_(of.embeddings.word_embeddings.weight)
        own.kind.copy_(of.embeddings.token_type_embeddings.weight[0])
        for layer, its in zip(own.layers, of.encoder.layer, strict=True):
            parts = (its.attention.self.query, its.attention.self.key)
            order = (lambda rows: rows) if bad("not_sorted") else sorted_pairs
            layer.qk.weight.copy_(torch.cat([order(part.weight) for part in parts]))  # bad("not_sorted")
            layer.qk.bias.copy_(torch.cat([order(part.bias) for part in parts]))
    own.norm.load_state_dict(of.embeddings.LayerNorm.state_dict())
    for layer, its in zip(own.layers, of.encoder.layer, strict=True):
        layer.v.load_state_dict(its.attention.self.value.state_dict())
        layer.o.load_state_dict(its.attention.output.dense.state_dict())
        layer.norm_o.load_state_dict(its.attention.output.LayerNorm.state_dict())
        layer.up.load_state_dict(its.intermediate.dense.state_dict())
        layer.down.load_state_dict(its.output.dense.state_dict())
        layer.norm_down.load_state_dict(its.output.LayerNorm.state_dict())
    own.dense.load_state_dict(golden.classifier.dense.state_dict())
    own.out.load_state_dict(golden.classifier.out_proj.state_dict())
    return own


def batch():
    ids = torch.randint(1, WORDS, (3, TOKENS))
    ids[1, TOKENS - 2 :] = PAD
    return ids, torch.randint(0, CLASSES, (3,))


@pair.prepare
def prepare():
    config = RoFormerConfig(
        vocab_size=WORDS, embedding_size=WIDTH, hidden_size=WIDTH, num_hidden_layers=LAYERS, intermediate_size=INNER,
        num_attention_heads=HEADS, hidden_act="gelu", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        max_position_embeddings=16, type_vocab_size=2, initializer_range=0.2, pad_token_id=PAD, num_labels=CLASSES,
    )  # fmt: skip
    golden = RoFormerForSequenceClassification(config)
    unsettle(golden, "LayerNorm", "bias", "token_type")
    own = carried_over(golden)
    batches = [batch() for _ in range(STEPS)]

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for ids, labels in batches:
            optimizer.zero_grad()
            loss(ids, labels).backward()
            optimizer.step()

    def original(ids, labels):
        return golden(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss

    return lambda: train(golden, original), lambda: train(own, lambda ids, labels: F.cross_entropy(own(ids), labels))


pair.fault("halves_added", "add")
pair.fault("not_root", "div")
pair.fault("padding_seen", "softmax")
pair.fault("kind_left_out", "layer_norm")
pair.fault("tanh", "tanh")
pair.weight("not_sorted", "qk.weight")
