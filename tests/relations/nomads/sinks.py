"""GPT-OSS of transformers beside one's own: a sink in each head's sum, experts side by side with bounded gates."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import GptOssConfig, GptOssForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, GROUPS, WIDTH, INNER, LAYERS, WORDS, EXPERTS, BEST, LENGTH = 24, 4, 2, 8, 16, 2, 40, 4, 2, 7
LIMIT, STEEP, WINDOW = 1.0, 1.702, 4

pair = Pair("sinks")


def norm(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight, 1e-5)


def turned(x, around):
    pairs = torch.complex(*(part.contiguous() for part in x.chunk(2, -1))) * around
    return torch.cat((pairs.real, pairs.imag), -1)


def attend(w, x, around, hidden):
    q, k, v = (x @ w["qkv"].T + w["qkv_bias"]).split([HEADS * WIDTH, GROUPS * WIDTH, GROUPS * WIDTH], -1)
    q, k, v = (one.unflatten(-1, (-1, WIDTH)).transpose(1, 2) for one in (q, k, v))
    q, k = turned(q, around), turned(k, around)
    scores = q.unflatten(1, (GROUPS, -1)) @ k[:, :, None].mT * WIDTH**-0.5
    scores = scores.flatten(1, 2).masked_fill(hidden, float("-inf"))
    sink = w["self_attn.sinks"][:, None, None]
    most = torch.maximum(scores.amax(-1, keepdim=True), sink)
    share = (scores - most).exp()
    if bad("no_sink"):
        share = share / share.sum(-1, keepdim=True)  # bad("no_sink")
    else:
        share = share / (share.sum(-1, keepdim=True) + (sink - most).exp())
    y = (share.unflatten(1, (GROUPS, -1)) @ v[:, :, None]).flatten(1, 2)
    return y.transpose(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].T + w["self_attn.o_proj.bias"]


def routed(w, x):
    flat = x.flatten(0, 1)
    scores = flat @ w["mlp.router.weight"].T + w["mlp.router.bias"]
    best, chosen = (scores.softmax(-1) if bad("share_of_all") else scores).topk(BEST, -1)
    best = best if bad("share_of_all") else best.softmax(-1)
    share = torch.zeros_like(scores).scatter(-1, chosen, best)  # bad("share_of_all")
    both = (
        torch.einsum("tc,eci->eti", flat, w["mlp.experts.gate_up_proj"]) + w["mlp.experts.gate_up_proj_bias"][:, None]
    )
    gate, up = both.chunk(2, -1) if bad("in_halves") else both.unflatten(-1, (-1, 2)).unbind(-1)  # bad("in_halves")
    if not bad("unbounded"):
        up = up.clamp(-LIMIT, LIMIT)
    gate = gate.clamp(max=LIMIT)
    glu = gate * (gate if bad("silu") else STEEP * gate).sigmoid()  # bad("silu")
    y = (up + 1) * glu  # bad("unbounded")
    y = torch.einsum("eti,eic->etc", y, w["mlp.experts.down_proj"]) + w["mlp.experts.down_proj_bias"][:, None]
    return torch.einsum("etc,te->tc", y, share).view(x.shape)


def sinks(w, ids):
    x = w["model.embed_tokens.weight"][ids]
    angle = torch.outer(torch.arange(LENGTH), 10000.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH))
    around = torch.polar(torch.ones_like(angle), angle)
    away = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)[None, :]
    for i in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{i}."): one for name, one in w.items() if f"layers.{i}." in name}
        hidden = (away < 0) | (away >= WINDOW) if i % 2 == 0 else away < 0
        x = x + attend(own, norm(x, own["input_layernorm.weight"]), around, hidden)
        x = x + routed(own, norm(x, own["post_attention_layernorm.weight"]))
    return norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for i in range(LAYERS):
        for kind, short in (("weight", "qkv"), ("bias", "qkv_bias")):
            parts = [own.pop(f"model.layers.{i}.self_attn.{n}_proj.{kind}") for n in "qkv"]
            own[f"model.layers.{i}.{short}"] = torch.cat(parts)
    if bad("down_exchanged"):
        weight = own["model.layers.1.mlp.experts.down_proj"]
        own["model.layers.1.mlp.experts.down_proj"] = weight[[1, 0, 2, 3]].contiguous()
    return own


@pair.prepare
def prepare():
    config = GptOssConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=GROUPS, head_dim=WIDTH, intermediate_size=INNER, num_local_experts=EXPERTS,
        num_experts_per_tok=BEST, initializer_range=0.3, max_position_embeddings=32, sliding_window=WINDOW,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, swiglu_limit=LIMIT,
        attn_implementation="eager",
    )  # fmt: skip
    golden = GptOssForCausalLM(config).eval()
    unsettle(golden, "norm", "bias", "sinks")
    own, ids = carried_over(golden), torch.randint(0, WORDS, (2, LENGTH))

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(sinks, own, ids)


pair.fault("no_sink", "div", "sum")
pair.fault("share_of_all", "softmax", "topk", "scatter")
pair.fault("in_halves", "chunk", "split")
pair.fault("unbounded", "add", "mul")
pair.fault("silu", "sigmoid", "mul")
pair.weight("down_exchanged", "experts.down_proj")
