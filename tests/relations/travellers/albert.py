"""ALBERT of transformers, one layer run three times, beside one's own in rows without an axis of the batch."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import AlbertConfig, AlbertModel  # before the forks: it takes seconds

HIDDEN, SMALL, HEADS, INNER, TIMES, WORDS, LENGTH, BATCH = 24, 10, 4, 56, 3, 40, 5, 3
WIDTH = HIDDEN // HEADS
LAYER = "encoder.albert_layer_groups.0.albert_layers.0."

pair = Pair("albert")


def norm(x, w, name):
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)


def linear(x, w, name):
    return torch.addmm(w[f"{name}.bias"], x, w[f"{name}.weight"].t())


def bend(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return x * torch.sigmoid(inner if bad("not_doubled") else 2 * inner)  # bad("not_doubled")


def attend(w, x):
    q, k, v = (linear(x, w, f"attention.{n}").view(BATCH, LENGTH, HEADS, WIDTH) for n in ("query", "key", "value"))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(HIDDEN if bad("scale") else WIDTH)  # bad("scale")
    share = scores.exp()
    share = share / share.sum(-1, keepdim=True)
    y = torch.einsum("bhqk,bkhd->bqhd", share, v).reshape(-1, HIDDEN)
    return linear(y, w, "attention.dense")


def albert(w, ids):
    own = {name.removeprefix(LAYER): weight for name, weight in w.items() if name.startswith(LAYER)}
    kinds = w["embeddings.token_type_embeddings.weight"][1 if bad("second_kind") else 0]  # bad("second_kind")
    x = w["embeddings.word_embeddings.weight"][ids] + kinds + w["embeddings.position_embeddings.weight"][:LENGTH]
    x = norm(x, w, "embeddings.LayerNorm").flatten(0, 1)
    x = linear(x, w, "encoder.embedding_hidden_mapping_in")
    for _ in range(TIMES - 1 if bad("once_less") else TIMES):
        x = norm(x + attend(own, x), own, "attention.LayerNorm")
        y = linear(bend(linear(x, own, "ffn")), own, "ffn_output")
        x = norm(y + x, own, "full_layer_layer_norm")
    x = x.view(BATCH, LENGTH, -1)
    first = x[:, -1] if bad("last_token") else x[:, 0]  # bad("last_token"), bad("once_less")
    return torch.tanh(linear(first, w, "pooler"))


@pair.prepare
def prepare():
    config = AlbertConfig(
        vocab_size=WORDS, embedding_size=SMALL, hidden_size=HIDDEN, num_hidden_layers=TIMES, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=16, initializer_range=0.2, attn_implementation="sdpa",
    )  # fmt: skip
    golden = AlbertModel(config).eval()
    unsettle(golden, "orm", "bias")
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    ids = torch.randint(4, WORDS, (BATCH, LENGTH))

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(albert, own, ids)


pair.fault("not_doubled", "sigmoid", "mul")
pair.fault("scale", "div")
pair.fault("second_kind", "select")
pair.fault("once_less", "addmm", "select")
pair.fault("last_token", "select")
