"""DistilBERT of transformers filling in words, in training, beside one's own with one weight for q, k and v."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import DistilBertConfig, DistilBertForMaskedLM  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, LENGTH, STEPS = 32, 4, 64, 2, 60, 8, 2
PAD, MASK = 0, 3

pair = Pair("distilbert")


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj, self.out_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, hidden):
        batch, length, _ = x.shape
        q, k, v = self.in_proj(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(2, 3)) / (WIDTH // HEADS) ** 0.5
        if bad("padding_seen"):
            weights = scores.softmax(-1)  # bad("padding_seen")
        else:
            weights = scores.masked_fill(hidden[:, None, None], float("-inf")).softmax(-1)
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, WIDTH)
        return self.out_proj(mixed)


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12), nn.LayerNorm(WIDTH, eps=1e-12)
        self.linear1, self.linear2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x, hidden):
        x = self.norm1(x + self.attention(x, hidden))
        y = self.linear1(x)
        y = F.relu(y) if bad("relu") else F.gelu(y)  # bad("relu")
        y = self.linear2(y)
        if bad("norm_first"):
            return x + self.norm2(y)  # bad("norm_first")
        return self.norm2(x + y)


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(LAYERS))
        self.dense, self.dense_norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.decoder = nn.Linear(WIDTH, WORDS)
        self.decoder.weight = self.words.weight

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        if bad("places"):
            places = places + 2  # bad("places")
        x = self.norm(self.words(ids) + self.places(places))
        hidden = ids == PAD
        for layer in self.layers:
            x = layer(x, hidden)
        x = self.dense_norm(F.gelu(self.dense(x)))
        return self.decoder(x)


def loss_of(logits, labels):
    if bad("padding_counts"):
        rows = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
        return rows.mean()  # bad("padding_counts")
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def carried_over(golden):
    own = Bert()
    of = golden.distilbert
    own.words.load_state_dict(of.embeddings.word_embeddings.state_dict())
    own.places.load_state_dict(of.embeddings.position_embeddings.state_dict())
    own.norm.load_state_dict(of.embeddings.LayerNorm.state_dict())
    with torch.no_grad():
        for own_layer, layer in zip(own.layers, of.transformer.layer, strict=True):
            parts = (layer.attention.q_lin, layer.attention.k_lin, layer.attention.v_lin)
            if bad("keys_first"):
                parts = (parts[1], parts[0], parts[2])  # bad("keys_first")
            own_layer.attention.in_proj.weight.copy_(torch.cat([part.weight for part in parts]))
            own_layer.attention.in_proj.bias.copy_(torch.cat([part.bias for part in parts]))
            own_layer.attention.out_proj.load_state_dict(layer.attention.out_lin.state_dict())
            own_layer.norm1.load_state_dict(layer.sa_layer_norm.state_dict())
            own_layer.norm2.load_state_dict(layer.output_layer_norm.state_dict())
            own_layer.linear1.load_state_dict(layer.ffn.lin1.state_dict())
            own_layer.linear2.load_state_dict(layer.ffn.lin2.state_dict())
    own.dense.load_state_dict(golden.vocab_transform.state_dict())
    own.dense_norm.load_state_dict(golden.vocab_layer_norm.state_dict())
    own.decoder.bias.data.copy_(golden.vocab_projector.bias)
    return own


def batch():
    ids = torch.randint(4, WORDS, (2, LENGTH))
    labels = torch.full_like(ids, -100)
    for row, place in ((0, 1), (0, 4), (1, 2)):
        labels[row, place] = ids[row, place]
        ids[row, place] = MASK
    ids[1, LENGTH - 3 :] = PAD
    return ids, labels


@pair.prepare
def prepare():
    config = DistilBertConfig(
        vocab_size=WORDS, max_position_embeddings=16, n_layers=LAYERS, n_heads=HEADS, dim=WIDTH, hidden_dim=INNER,
        dropout=0.0, attention_dropout=0.0, initializer_range=0.2, pad_token_id=PAD,
    )  # fmt: skip
    golden = DistilBertForMaskedLM(config)
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    batches = [batch() for _ in range(STEPS)]

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for ids, labels in batches:
            optimizer.zero_grad()
            loss(ids, labels).backward()
            optimizer.step()

    def golden_loss(ids, labels):
        return golden(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss

    return lambda: train(golden, golden_loss), lambda: train(own, lambda ids, labels: loss_of(own(ids), labels))


pair.fault("padding_seen", "softmax")
pair.fault("relu", "relu")
pair.fault("norm_first", "layer_norm", "add")
pair.fault("places", "add")
pair.fault("padding_counts", "mean")
pair.weight("keys_first", "in_proj")
