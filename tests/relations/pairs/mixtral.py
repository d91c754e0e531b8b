"""A mixture of experts of one's own, one expert after the other, beside transformers' Mixtral."""

import torch
import torch.nn.functional as F
from planted import Pair, bad

HIDDEN, HEADS, GROUPS, INNER, LAYERS, WORDS, EXPERTS = 32, 4, 2, 24, 2, 64, 4
WIDTH = HIDDEN // HEADS

pair = Pair("mixtral")


def norm(x, weight):
    if bad("cast_before_weight"):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        return y.half().float() * weight  # bad("cast_before_weight")
    return F.rms_norm(x, (HIDDEN,), weight, 1e-5)  # bad("wrong_norm")


def turned(x, cos, sin):
    one, two = (x[..., 0::2], x[..., 1::2]) if bad("interleaved") else x.chunk(2, -1)
    return x * cos + torch.cat((-two, one), -1) * sin


def attend(w, x, cos, sin):
    products = (x @ w[f"self_attn.{name}_proj.weight"].T for name in "qkv")
    q, k, v = (product.view(*x.shape[:2], -1, WIDTH).transpose(1, 2) for product in products)
    q, k = turned(q, cos, sin), turned(k, cos, sin)
    k, v = k.repeat_interleave(HEADS // GROUPS, 1), v.repeat_interleave(HEADS // GROUPS, 1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(x.shape) @ w["self_attn.o_proj.weight"].T


def experts(w, x):
    flat = x.reshape(-1, HIDDEN)
    share = F.softmax(flat @ w["mlp.gate.weight"].T, -1)
    best, chosen = share.topk(1 if bad("one_expert") else 2, -1)
    if not bad("not_normalised"):
        best = best / best.sum(-1, keepdim=True)
    out = torch.zeros_like(flat)
    for e in range(EXPERTS):
        rows, place = torch.where(chosen == e)
        gate, up = (flat[rows] @ w["mlp.experts.gate_up_proj"][e].T).chunk(2, -1)
        y = (up * F.silu(up) if bad("up_for_gate") else F.silu(gate) * up) @ w["mlp.experts.down_proj"][e].T
        out.index_add_(0, rows, y if bad("unweighted") else y * best[rows, place, None])  # bad("not_normalised")
    return out.view(x.shape)


def mixtral(w, ids):
    x = F.embedding(ids, w["model.embed_tokens.weight"])
    angle = torch.arange(ids.shape[1])[:, None] / 10000.0 ** (torch.arange(0, WIDTH, 2) / WIDTH)
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    for i in range(LAYERS):
        own = {name.removeprefix(f"model.layers.{i}."): weight for name, weight in w.items() if f"layers.{i}." in name}
        x = x + attend(own, norm(x, own["input_layernorm.weight"]), cos, sin)
        y = norm(x, own["input_layernorm.weight" if bad("wrong_norm") else "post_attention_layernorm.weight"])
        x = x + experts(own, y)
    return norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


@pair.prepare
def prepare():
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, num_local_experts=EXPERTS, num_experts_per_tok=2,
        initializer_range=0.2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    golden = MixtralForCausalLM(config).eval()
    with torch.no_grad():
        for weight in golden.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    if bad("experts_exchanged"):
        own["model.layers.1.mlp.experts.down_proj"] = own["model.layers.1.mlp.experts.down_proj"][[1, 0, 2, 3]]
    ids = torch.randint(0, WORDS, (2, 6))

    def run_golden():
        with torch.no_grad():
            return golden(ids).logits

    def run_target():
        with torch.no_grad():
            return mixtral(own, ids)

    return run_golden, run_target


pair.fault("cast_before_weight", "_to_copy", "to", "half", "float")
pair.fault("interleaved", "slice")
pair.fault("one_expert", "topk")
pair.fault("not_normalised", "index", "mul")
pair.fault("up_for_gate", "silu", "mul")
pair.fault("unweighted", "index_add_")
pair.fault("wrong_norm", "rms_norm", "_fused_rms_norm")
pair.weight("experts_exchanged", "down_proj")
