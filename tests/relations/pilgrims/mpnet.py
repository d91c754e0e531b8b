"""MPNet of transformers for inference beside one's own that trains: biases by distance, one product for q, k and v."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import MPNetConfig, MPNetForSequenceClassification  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, TOKENS, LABELS, BUCKETS, PAD = 24, 3, 44, 2, 40, 9, 4, 32, 1
HEAD = WIDTH // HEADS

pair = Pair("mpnet")


def bucket(distance):
    half = BUCKETS // 2
    exact = half // 2
    sign = (distance > 0) if bad("other_side") else (distance < 0)  # bad("other_side")
    base = sign.long() * half  # bad("other_side")
    size = distance.abs()
    far = exact + (torch.log(size.float() / exact) / math.log(128 / exact) * (half - exact)).long()
    return base + torch.where(size < exact, size, far.clamp(max=half - 1))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wqkv, self.Wo = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))
        self.fc1, self.fc2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x, bias):
        batch, length, _ = x.shape
        q, k, v = self.Wqkv(x).view(batch, length, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)  # bad("padding_seen")
        y = self.Wo(y.transpose(1, 2).reshape(batch, length, WIDTH))
        x = self.norm1(y if bad("no_residual") else x + y)  # bad("no_residual")
        y = self.fc2(F.gelu(self.fc1(x)))
        return self.norm2(x + y)


class MPNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.distances = nn.Embedding(BUCKETS, HEADS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.dense, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, LABELS)

    def forward(self, ids):
        length = ids.shape[1]
        mask = ids != PAD
        start = 0 if bad("places_from_zero") else PAD + 1
        places = torch.arange(length) + start  # bad("places_from_zero")
        places = torch.where(mask, places, PAD)
        x = self.norm(self.words(ids) + self.places(places))
        order = torch.arange(length)
        bias = self.distances(bucket(order[:, None] - order[None])).permute(2, 0, 1)[None]
        if bad("padding_seen"):
            bias = bias.expand(ids.shape[0], -1, -1, -1)  # bad("padding_seen")
        else:
            bias = bias.masked_fill(~mask[:, None, None], torch.finfo(torch.float32).min)
        for layer in self.layers:
            x = layer(x, bias)
        x = x.mean(1) if bad("mean") else x[:, 0]  # bad("mean")
        return self.out(torch.tanh(self.dense(x)))


def carried_over(golden):
    own = MPNet()
    of = golden.mpnet
    with torch.no_grad():
        own.words.weight.copy_(of.embeddings.word_embeddings.weight)
        own.places.weight.copy_(of.embeddings.position_embeddings.weight)
        own.norm.load_state_dict(of.embeddings.LayerNorm.state_dict())
        own.distances.weight.copy_(of.encoder.relative_attention_bias.weight)
        layers = list(of.encoder.layer)
        if bad("layers_exchanged"):
            layers.reverse()  # bad("layers_exchanged")
        for layer, its in zip(own.layers, layers, strict=True):
            attn = its.attention.attn
            layer.Wqkv.weight.copy_(torch.cat([part.weight for part in (attn.q, attn.k, attn.v)]))
            layer.Wqkv.bias.copy_(torch.cat([part.bias for part in (attn.q, attn.k, attn.v)]))
            layer.Wo.load_state_dict(attn.o.state_dict())
            layer.norm1.load_state_dict(its.attention.LayerNorm.state_dict())
            layer.norm2.load_state_dict(its.output.LayerNorm.state_dict())
            layer.fc1.load_state_dict(its.intermediate.dense.state_dict())
            layer.fc2.load_state_dict(its.output.dense.state_dict())
        own.dense.load_state_dict(golden.classifier.dense.state_dict())
        own.out.load_state_dict(golden.classifier.out_proj.state_dict())
    return own


@pair.prepare
def prepare():
    config = MPNetConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=32, num_labels=LABELS, relative_attention_num_buckets=BUCKETS,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2,
    )  # fmt: skip
    golden = MPNetForSequenceClassification(config).eval()
    unsettle(golden, "norm", "Norm", "bias")
    own = carried_over(golden)
    ids = torch.randint(2, WORDS, (3, TOKENS))
    ids[1, TOKENS - 2 :] = PAD
    labels = torch.randint(0, LABELS, (3,))

    @torch.no_grad()
    def run():
        return golden(input_ids=ids, attention_mask=(ids != PAD).long())

    def step():
        optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
        F.cross_entropy(own(ids), labels).backward()
        optimizer.step()

    return run, step


pair.fault("other_side", "mul", "gt")
pair.fault("no_residual", "layer_norm")
pair.fault("places_from_zero", "add")
pair.fault("padding_seen", "expand", "scaled_dot_product_attention")
pair.fault("mean", "mean")
pair.weight("layers_exchanged", "layers.")
