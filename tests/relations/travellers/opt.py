"""OPT of transformers, padded, beside one's own with q, k and v as one and positions counted by hand."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import OPTConfig, OPTForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, INNER, LAYERS, WORDS, LENGTH, FIRST = 24, 3, 64, 2, 50, 6, 2
WIDTH = HIDDEN // HEADS

pair = Pair("opt")


def norm(x, w, name):
    x = x - x.mean(-1, keepdim=True)
    eps = 1e-3 if bad("epsilon") else 1e-5
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)  # bad("epsilon")
    return torch.addcmul(w[f"{name}.bias"], x, w[f"{name}.weight"])


def linear(x, w, name):
    return torch.einsum("...i,oi->...o", x, w[f"{name}.weight"]) + w[f"{name}.bias"]


def attend(w, x, hidden):
    q, k, v = linear(x, w, "all").unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4)
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * WIDTH**-0.5
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    y = torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v)
    y = y.transpose(2, 3) if bad("widths_first") else y
    return linear(y.flatten(2), w, "self_attn.out_proj")  # bad("widths_first")


def opt(w, ids, seen):
    places = seen.cumsum(1) * seen - 1
    if bad("padding_counted"):
        places = torch.arange(LENGTH).expand(ids.shape)  # bad("padding_counted")
    place = F.embedding(places + FIRST, w["model.decoder.embed_positions.weight"])  # bad("padding_counted")
    x = F.embedding(ids, w["model.decoder.embed_tokens.weight"]) + place
    unseen = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    hidden = unseen | (seen[:, None, None, :] == 0)
    for i in range(LAYERS):
        begin = f"model.decoder.layers.{i}."
        own = {name.removeprefix(begin): weight for name, weight in w.items() if name.startswith(begin)}
        x = x + attend(own, norm(x, own, "self_attn_layer_norm"), hidden)
        y = linear(norm(x, own, "final_layer_norm"), own, "fc1")
        y = F.gelu(y) if bad("gelu") else y.clamp(min=0)  # bad("gelu")
        x = x + linear(y, own, "fc2")
    return norm(x, w, "model.decoder.final_layer_norm") @ w["model.decoder.embed_tokens.weight"].T


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for i in range(LAYERS):
        for kind in ("weight", "bias"):
            parts = [own.pop(f"model.decoder.layers.{i}.self_attn.{n}_proj.{kind}") for n in "qkv"]
            own[f"model.decoder.layers.{i}.all.{kind}"] = torch.cat(parts)
    if bad("first_norm_for_second"):
        for kind in ("weight", "bias"):
            name = f"model.decoder.layers.1.{{}}.{kind}"
            own[name.format("final_layer_norm")] = own[name.format("self_attn_layer_norm")].clone()
    return own


@pair.prepare
def prepare():
    config = OPTConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, ffn_dim=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        max_position_embeddings=32, word_embed_proj_dim=HIDDEN, dropout=0.0, init_std=0.2, attn_implementation="sdpa",
    )  # fmt: skip
    golden = OPTForCausalLM(config).eval()
    unsettle(golden, "norm", "bias")
    own, ids = carried_over(golden), torch.randint(4, WORDS, (2, LENGTH))
    seen = torch.tensor([[1, 1, 1, 1, 0, 0], [1] * LENGTH])

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids, seen), lambda: run(opt, own, ids, seen)


pair.fault("epsilon", "add", "rsqrt")
pair.fault("widths_first", "flatten", "einsum", "transpose")
pair.fault("padding_counted", "embedding", "arange", "expand", "add")
pair.fault("gelu", "gelu")
pair.weight("first_norm_for_second", "final_layer_norm")
