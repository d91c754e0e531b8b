"""Gemma 2 of transformers beside one's own: scores behind a tanh, a window, four norms a layer, q, k and v as one."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import Gemma2Config, Gemma2ForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, GROUPS, WIDTH, INNER, LAYERS, WORDS, WINDOW, LENGTH = 32, 4, 2, 8, 40, 2, 50, 3, 8
SCALE, CAP, LAST_CAP = 16**-0.5, 5.0, 4.0

pair = Pair("gemma")


def norm(x, weight):
    y = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return y * weight if bad("norm_without_one") else y * (1 + weight)  # bad("norm_without_one")


def turned(x, cos, sin):
    one, two = x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, two * cos + one * sin), -1)


def attend(w, x, cos, sin, hidden):
    q, k, v = F.linear(x, w["qkv"]).split([HEADS * WIDTH, GROUPS * WIDTH, GROUPS * WIDTH], -1)
    q, k, v = (one.unflatten(-1, (-1, WIDTH)).transpose(1, 2) for one in (q, k, v))
    q, k = turned(q, cos, sin), turned(k, cos, sin)
    if bad("heads_in_turn"):
        k, v = k.repeat(1, HEADS // GROUPS, 1, 1), v.repeat(1, HEADS // GROUPS, 1, 1)  # bad("heads_in_turn")
    else:
        k, v = k.repeat_interleave(HEADS // GROUPS, 1), v.repeat_interleave(HEADS // GROUPS, 1)
    q = q * (WIDTH**-0.5 if bad("scale") else SCALE)  # bad("scale")
    scores = torch.tanh(q @ k.mT / CAP) * CAP
    share = scores.masked_fill(hidden, float("-inf")).softmax(-1)  # bad("window")
    return (share @ v).transpose(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].T


def gemma(w, ids):
    x = F.embedding(ids, w["model.embed_tokens.weight"]) * HIDDEN**0.5
    angle = torch.outer(torch.arange(LENGTH), 10000.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH))
    cos, sin = angle.cos(), angle.sin()
    away = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)[None, :]
    for i in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{i}."): weight for name, weight in w.items() if f"layers.{i}." in name}
        hidden = away < 0
        if i % 2 == 0:
            hidden = hidden | (away >= (WINDOW + 1 if bad("window") else WINDOW))  # bad("window")
        y = attend(own, norm(x, own["input_layernorm.weight"]), cos, sin, hidden)
        if bad("residual_order"):
            x = norm(x + y, own["post_attention_layernorm.weight"])  # bad("residual_order")
        else:
            x = x + norm(y, own["post_attention_layernorm.weight"])
        y = norm(x, own["pre_feedforward_layernorm.weight"])
        y = F.gelu(y @ own["mlp.gate_proj.weight"].T, approximate="tanh") * (y @ own["mlp.up_proj.weight"].T)
        x = x + norm(y @ own["mlp.down_proj.weight"].T, own["post_feedforward_layernorm.weight"])
    x = norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T
    return torch.tanh(x / LAST_CAP) * LAST_CAP


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for i in range(LAYERS):
        parts = [own.pop(f"model.layers.{i}.self_attn.{n}_proj.weight") for n in "qkv"]
        own[f"model.layers.{i}.qkv"] = torch.cat(parts)
    return own


@pair.prepare
def prepare():
    config = Gemma2Config(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, head_dim=WIDTH, query_pre_attn_scalar=16,
        sliding_window=WINDOW, attn_logit_softcapping=CAP, final_logit_softcapping=LAST_CAP, initializer_range=0.2,
        max_position_embeddings=32, attn_implementation="eager",
    )  # fmt: skip
    golden = Gemma2ForCausalLM(config).eval()
    unsettle(golden, "norm")
    own, ids = carried_over(golden), torch.randint(1, WORDS, (2, LENGTH))

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(gemma, own, ids)


pair.fault("norm_without_one", "mul")
pair.fault("heads_in_turn", "repeat")
pair.fault("scale", "mul")
pair.fault("window", "ge", "masked_fill")
pair.fault("residual_order", "add")
