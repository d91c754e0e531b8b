"""Falcon of transformers, padded, beside rows without padding in the style of flash attention."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch.nn.functional import scaled_dot_product_attention as attention
from transformers import FalconConfig, FalconForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, LAYERS, WORDS, LENGTH = 32, 4, 2, 50, 7
HEAD = WIDTH // HEADS

pair = Pair("falcon")


def tables(places):
    base = 1000.0 if bad("rope_base") else 10000.0
    rates = 1.0 / base ** (torch.arange(0, HEAD, 2).float() / HEAD)  # bad("rope_base")
    angles = torch.outer(places.float(), rates)
    return angles.cos()[:, None], angles.sin()[:, None]


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attend(q, k, v, ends):
    out, start = [], 0
    for end in ends:
        queries, values = q[start:end].transpose(0, 1), v[start:end].transpose(0, 1).expand(HEADS, -1, -1)
        keys = k[start:end].transpose(0, 1).expand(HEADS, -1, -1)  # bad("keys_not_turned")
        causal = not bad("not_causal")
        y = attention(queries, keys, values, is_causal=causal)  # bad("not_causal") bad("keys_not_turned")
        out.append(y.transpose(0, 1))
        start = end
    return torch.cat(out)


def falcon(w, ids, places, ends):
    x, residual = w["word_embeddings.weight"][ids], None
    cos, sin = tables(places)
    for i in range(LAYERS + 1):
        name = f"h.{i}.input_layernorm" if i < LAYERS else "ln_f"
        residual = x if residual is None else x + residual
        y = F.layer_norm(residual, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"])
        if i == LAYERS:
            break
        q, k, v = (y @ w[f"h.{i}.Wqkv"]).split((WIDTH, HEAD, HEAD), -1)
        q, k, v = q.view(-1, HEADS, HEAD), k[:, None], v[:, None]
        q = rotated(q, cos, sin)
        k = k if bad("keys_not_turned") else rotated(k, cos, sin)
        mixed = attend(q, k, v, ends).flatten(1) @ w[f"h.{i}.out_proj"]
        up = y if not bad("one_after_other") else F.layer_norm(
            residual + mixed, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"]  # bad("one_after_other")
        )  # fmt: skip
        x = mixed + F.gelu(up @ w[f"h.{i}.fc1"]) @ w[f"h.{i}.fc2"]  # bad("one_after_other")
    return y @ w["word_embeddings.weight"].t()


def carried_over(golden):
    own = {n.removeprefix("transformer."): weight.clone() for n, weight in golden.state_dict().items()}
    names = {
        "self_attention.query_key_value": "Wqkv",
        "self_attention.dense": "out_proj",
        "mlp.dense_h_to_4h": "fc1",
        "mlp.dense_4h_to_h": "fc2",
    }
    for i in range(LAYERS):
        for old, new in names.items():
            own[f"h.{i}.{new}"] = own.pop(f"h.{i}.{old}.weight").t().contiguous()
    if bad("values_before_keys"):
        q, k, v = own["h.0.Wqkv"].split((WIDTH, HEAD, HEAD), 1)
        own["h.0.Wqkv"] = torch.cat((q, v, k), 1)
    return own


@pair.prepare
def prepare():
    config = FalconConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, multi_query=True,
        parallel_attn=True, bias=False, alibi=False, new_decoder_architecture=False, hidden_dropout=0.0,
        attention_dropout=0.0, initializer_range=0.2, attn_implementation="eager",
    )  # fmt: skip
    golden = FalconForCausalLM(config).eval()
    unsettle(golden, "norm", "ln_f")
    own, lengths = carried_over(golden), (5, LENGTH)
    seen = torch.tensor([[1] * n + [0] * (LENGTH - n) for n in lengths])
    ids = torch.randint(0, WORDS, seen.shape)
    rows, ends = ids[seen > 0], (5, 5 + LENGTH)
    places = torch.cat([torch.arange(n) for n in lengths])

    def run(function, *given, **named):
        with torch.no_grad():
            return function(*given, **named)

    return (
        lambda: run(golden, ids, attention_mask=seen, use_cache=False),
        lambda: run(falcon, own, rows, places, ends),
    )


pair.fault("rope_base", "pow")
pair.fault("not_causal", "scaled_dot_product_attention")
pair.fault("keys_not_turned", "scaled_dot_product_attention", "transpose", "slice", "expand")
pair.fault("one_after_other", "layer_norm", "matmul", "gelu", "add")
pair.weight("values_before_keys", "query_key_value.weight")
