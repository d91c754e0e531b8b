"""Cohere's decoder of transformers beside one's own: attention and network side by side, neighbours turned together."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import CohereConfig, CohereForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, GROUPS, INNER, LAYERS, WORDS, LENGTH, LOGITS = 32, 4, 2, 48, 2, 60, 7, 0.25
WIDTH = HIDDEN // HEADS

pair = Pair("cohere")


def norm(x, weight):
    spread, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) / (spread + 1e-5).sqrt() * weight


def turned(x, around):
    if bad("halves_turned"):
        pairs = torch.complex(*(part.contiguous() for part in x.chunk(2, -1))) * around  # bad("halves_turned")
        return torch.cat((pairs.real, pairs.imag), -1)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * around
    return torch.view_as_real(pairs).flatten(-2)


def attend(w, y, around):
    q, k, v = ((y @ w[f"self_attn.{n}_proj.weight"].T).unflatten(-1, (-1, WIDTH)) for n in "qkv")
    q, k = turned(q.transpose(1, 2), around), turned(k.transpose(1, 2), around)
    k, v = k.repeat_interleave(HEADS // GROUPS, 1), v.transpose(1, 2).repeat_interleave(HEADS // GROUPS, 1)
    hidden = torch.full((LENGTH, LENGTH), float("-inf")).triu(2 if bad("one_ahead") else 1)  # bad("one_ahead")
    share = (q @ k.mT / WIDTH**0.5 + hidden).softmax(-1)
    return (share @ v).transpose(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].T


def cohere(w, ids):
    x = F.embedding(ids, w["model.embed_tokens.weight"])
    angle = torch.outer(torch.arange(LENGTH), 10000.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH))
    around = torch.polar(torch.ones_like(angle), angle)
    for i in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{i}."): weight for name, weight in w.items() if f"layers.{i}." in name}
        y = norm(x, own["input_layernorm.weight"])
        z = attend(own, y, around)
        if bad("one_after_the_other"):
            y = norm(x + z, own["input_layernorm.weight"])
        gate, up = (y @ own["both"].T).chunk(2, -1)  # bad("one_after_the_other")
        x = x + z + (F.silu(gate) * up) @ own["mlp.down_proj.weight"].T
    x = norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T  # bad("logits_as_they_are")
    return x if bad("logits_as_they_are") else x * LOGITS


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for i in range(LAYERS):
        parts = [own.pop(f"model.layers.{i}.mlp.{n}_proj.weight") for n in ("gate", "up")]
        own[f"model.layers.{i}.both"] = torch.cat(parts[::-1] if bad("up_first") and i == 1 else parts)
    return own


@pair.prepare
def prepare():
    config = CohereConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, max_position_embeddings=32, logit_scale=LOGITS,
        initializer_range=0.2, attn_implementation="sdpa",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    golden = CohereForCausalLM(config).eval()
    unsettle(golden, "norm")
    own, ids = carried_over(golden), torch.randint(6, WORDS, (2, LENGTH))

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(cohere, own, ids)


pair.fault("halves_turned", "complex", "mul")
pair.fault("one_ahead", "triu")
pair.fault("one_after_the_other", "matmul")
pair.fault("logits_as_they_are", "matmul")
pair.weight("up_first", "up_proj")  # its own weights have no names: the golden one says which
