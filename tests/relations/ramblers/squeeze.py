"""SqueezeBERT of transformers, whose layers are convolutions, beside one's own with tokens before features."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import SqueezeBertConfig, SqueezeBertForSequenceClassification  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, TOKENS, LABELS, PAD = 24, 3, 40, 2, 41, 8, 3, 0
HEAD = WIDTH // HEADS

pair = Pair("squeeze")


def shares_of(scores):
    if bad("over_queries"):
        return scores.softmax(-2).nan_to_num()  # bad("over_queries")
    return scores.softmax(-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.merge = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.norm_a, self.norm_b = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))

    def heads(self, x):
        if bad("heads_last"):
            return x.unflatten(-1, (HEAD, HEADS)).permute(0, 3, 1, 2)  # bad("heads_last")
        return x.unflatten(-1, (HEADS, HEAD)).permute(0, 2, 1, 3)

    def forward(self, x, hidden):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)).mul(HEAD**-0.5).masked_fill(hidden, float("-inf"))
        y = torch.matmul(shares_of(scores), v)
        y = y.permute(0, 2, 1, 3).flatten(2)
        x = self.norm_a(x + self.merge(y))
        y = self.down(F.gelu(self.up(x)))
        return self.norm_b(y if bad("no_residual") else x + y)  # bad("no_residual")


class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos, self.seg = nn.Embedding(WORDS, WIDTH), nn.Embedding(16, WIDTH), nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.pool, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, LABELS)

    @torch.no_grad()
    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        if bad("places_reversed"):
            places = places.flip(0)  # bad("places_reversed")
        x = self.tok(ids) + self.pos(places) + self.seg.weight[0]
        x = self.norm(x)
        hidden = (ids == PAD)[:, None, None]
        for layer in self.layers:
            x = layer(x, hidden)
        first = x[:, -1] if bad("last_token") else x[:, 0]  # bad("last_token")
        return self.out(torch.tanh(self.pool(first)))


def carry_conv(own, of):
    own.weight.data.copy_(of.weight[:, :, 0])
    own.bias.data.copy_(of.bias)


def carried_over(golden):
    own = Squeeze()
    of = golden.transformer
    own.tok.load_state_dict(of.embeddings.word_embeddings.state_dict())
    own.pos.load_state_dict(of.embeddings.position_embeddings.state_dict())
    own.seg.load_state_dict(of.embeddings.token_type_embeddings.state_dict())
    own.norm.load_state_dict(of.embeddings.LayerNorm.state_dict())
    for i, (layer, its) in enumerate(zip(own.layers, of.encoder.layers, strict=True)):
        carry_conv(layer.query, its.attention.query)
        carry_conv(layer.key, its.attention.key)
        carry_conv(layer.value, its.attention.value)
        carry_conv(layer.merge, its.post_attention.conv1d)
        carry_conv(layer.up, its.intermediate.conv1d)
        if i == 0 or not bad("bias_forgotten"):
            carry_conv(layer.down, its.output.conv1d)
        else:
            layer.down.weight.data.copy_(its.output.conv1d.weight[:, :, 0])  # bad("bias_forgotten")
        layer.norm_a.load_state_dict(its.post_attention.layernorm.state_dict())
        layer.norm_b.load_state_dict(its.output.layernorm.state_dict())
    own.pool.load_state_dict(of.pooler.dense.state_dict())
    own.out.load_state_dict(golden.classifier.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = SqueezeBertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, embedding_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, intermediate_size=INNER, max_position_embeddings=16, num_labels=LABELS,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.2, pad_token_id=PAD,
        q_groups=1, k_groups=1, v_groups=1, post_attention_groups=1, intermediate_groups=1, output_groups=1,
    )  # fmt: skip
    golden = SqueezeBertForSequenceClassification(config).eval()
    unsettle(golden, "norm", "Norm", "bias")
    own = carried_over(golden)
    ids = torch.randint(1, WORDS, (3, TOKENS))
    ids[2, TOKENS - 3 :] = PAD

    @torch.no_grad()
    def run():
        return golden(input_ids=ids, attention_mask=(ids != PAD).long())

    return run, lambda: own(ids)


pair.fault("heads_last", "unflatten", "permute")
pair.fault("over_queries", "softmax")
pair.fault("no_residual", "layer_norm")
pair.fault("places_reversed", "flip")
pair.fault("last_token", "select", "slice")
pair.weight("bias_forgotten", "layers.1.down.bias")
