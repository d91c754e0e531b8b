"""Qwen3-MoE of transformers beside one's own: norms of each head, all experts at once as batches of products."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, GROUPS, WIDTH, INNER, LAYERS, WORDS, EXPERTS, BEST, LENGTH = 24, 4, 2, 8, 16, 2, 40, 5, 2, 7

pair = Pair("qwen")


def norm(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight, 1e-6)


def turned(x, angle):
    one, two = (x[..., 0::2], x[..., 1::2]) if bad("interleaved") else x.chunk(2, -1)  # bad("interleaved")
    pairs = torch.complex(one, two) * torch.polar(torch.ones_like(angle), angle)  # bad("interleaved")
    return torch.cat((pairs.real, pairs.imag), -1)


def attend(w, x, angle):
    q, k, v = (torch.einsum("btc,hdc->bhtd", x, w[f"{n}_heads"]) for n in "qkv")
    q, k = norm(q, w["self_attn.q_norm.weight"]), norm(k, w["self_attn.k_norm.weight"])
    q, k = turned(q, angle), turned(k, angle)
    q = q.unflatten(1, (GROUPS, -1))
    scores = torch.einsum("bghtd,bgsd->bghts", q, k) * WIDTH**-0.5
    ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    y = torch.einsum("bghts,bgsd->btghd", scores.masked_fill(ahead, -1e9).softmax(-1), v)
    return y.flatten(2) @ w["self_attn.o_proj.weight"].T


def routed(w, x):
    flat = x.flatten(0, 1)
    scores = flat @ w["mlp.gate.weight"].T
    share = scores.sigmoid() if bad("sigmoid") else scores.softmax(-1)  # bad("sigmoid")
    best, chosen = share.topk(BEST, -1)
    if not bad("not_normalised"):
        best = best / best.sum(-1, keepdim=True)
    share = torch.zeros_like(share).scatter(-1, chosen, best)  # bad("not_normalised")
    gate, up = torch.einsum("tc,eic->eti", flat, w["mlp.experts.gate_up_proj"]).chunk(2, -1)
    y = torch.einsum("eti,eci->etc", F.silu(gate) * up, w["mlp.experts.down_proj"])
    return torch.einsum("etc,te->tc", y, share).view(x.shape)


def qwen(w, ids):
    x = w["model.embed_tokens.weight"][ids]
    base = 5000.0 if bad("rope_base") else 10000.0
    angle = torch.arange(LENGTH)[:, None] / base ** (torch.arange(0, WIDTH, 2) / WIDTH)  # bad("rope_base")
    for i in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{i}."): weight for name, weight in w.items() if f"layers.{i}." in name}
        x = x + attend(own, norm(x, own["input_layernorm.weight"]), angle)
        x = x + routed(own, norm(x, own["post_attention_layernorm.weight"]))
    return norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for i in range(LAYERS):
        for n in "qkv":
            weight = own.pop(f"model.layers.{i}.self_attn.{n}_proj.weight")
            own[f"model.layers.{i}.{n}_heads"] = weight.view(-1, WIDTH, HIDDEN)
    if bad("norms_exchanged"):
        one, two = "model.layers.1.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight"
        own[one], own[two] = own[two], own[one]
    return own


@pair.prepare
def prepare():
    config = Qwen3MoeConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=GROUPS, head_dim=WIDTH, moe_intermediate_size=INNER, num_experts=EXPERTS,
        num_experts_per_tok=BEST, norm_topk_prob=True, initializer_range=0.3, max_position_embeddings=32,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attn_implementation="sdpa",
    )  # fmt: skip
    golden = Qwen3MoeForCausalLM(config).eval()
    unsettle(golden, "norm")
    own, ids = carried_over(golden), torch.randint(0, WORDS, (2, LENGTH))

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(qwen, own, ids)


pair.fault("sigmoid", "sigmoid")
pair.fault("not_normalised", "scatter")
pair.fault("rope_base", "pow", "div")
pair.fault("interleaved", "slice", "complex")
pair.weight("norms_exchanged", "_norm")
