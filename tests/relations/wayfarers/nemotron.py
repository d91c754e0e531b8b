"""Nemotron of transformers beside one's own in Megatron's layout: q, k, v per group in one weight, sequence first."""

import torch
from planted import Pair, bad, unsettle
from transformers import NemotronConfig, NemotronForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, GROUPS, WIDTH, INNER, LAYERS, WORDS, LENGTH = 32, 4, 2, 8, 48, 2, 40, 7
TURNED, BASE = WIDTH // 2, 10000.0

pair = Pair("nemotron")


def norm(x, weight, bias):
    epsilon = 1e-3 if bad("epsilon") else 1e-5
    x = x - x.mean(-1, keepdim=True)
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)  # bad("epsilon")
    return x * weight + bias if bad("norm_without_one") else x * (1 + weight) + bias  # bad("norm_without_one")


def turn(x, angles):
    first, rest = x[..., :TURNED], x[..., TURNED:]
    low, high = first.chunk(2, -1)
    if bad("neighbours"):
        low, high = first[..., ::2], first[..., 1::2]  # bad("neighbours")
    half = torch.cat((-high, low), -1)
    return torch.cat((first * angles.cos() + half * angles.sin(), rest), -1)


def attend(w, x, angles):
    length, batch = x.shape[:2]
    mixed = (x @ w["query_key_value"].t()).view(length, batch, GROUPS, HEADS // GROUPS + 2, WIDTH)
    q = mixed[:, :, :, :-2].reshape(length, batch, HEADS, WIDTH)
    k, v = mixed[:, :, :, -2], mixed[:, :, :, -1]
    q, k = turn(q, angles), turn(k, angles)
    k, v = (one.repeat_interleave(HEADS // GROUPS, 2) for one in (k, v))
    scores = torch.einsum("sbhd,tbhd->bhst", q, k) / (HIDDEN if bad("scale") else WIDTH) ** 0.5  # bad("scale")
    ahead = torch.ones(length, length, dtype=torch.bool).triu(1)
    share = scores.masked_fill(ahead, -10000.0).softmax(-1)
    return torch.einsum("bhst,tbhd->sbhd", share, v).reshape(length, batch, -1) @ w["dense"].t()


def nemotron(w, ids):
    x = w["embedding"][ids.t()]
    base = 1000.0 if bad("rope_base") else BASE
    speeds = 1 / base ** (torch.arange(0, TURNED, 2).float() / TURNED)  # bad("rope_base")
    angles = torch.arange(LENGTH).float()[:, None] * speeds
    angles = torch.cat((angles, angles), -1)[:, None, None, :]
    for own in w["layers"]:
        x = x + attend(own, norm(x, *own["input_norm"]), angles)
        h = norm(x, *own["post_norm"]) @ own["up"].t()
        h = h.relu() if bad("not_squared") else h.relu().pow(2)  # bad("not_squared")
        x = x + h @ own["down"].t()  # bad("not_squared")
    return norm(x, *w["final_norm"]) @ w["head"].t()


def grouped(attention):
    """Of each group the queries, then its key and its value."""
    q = attention.q_proj.weight.view(GROUPS, HEADS // GROUPS * WIDTH, HIDDEN)
    k, v = (one.weight.view(GROUPS, WIDTH, HIDDEN) for one in (attention.k_proj, attention.v_proj))
    return torch.cat((q, k, v), 1).flatten(0, 1)


def carried_over(golden):
    def of(norm):
        return norm.weight.clone(), norm.bias.clone()

    layers = [
        {
            "query_key_value": grouped(one.self_attn).clone(), "dense": one.self_attn.o_proj.weight.clone(),
            "input_norm": of(one.input_layernorm), "post_norm": of(one.post_attention_layernorm),
            "up": one.mlp.up_proj.weight.clone(), "down": one.mlp.down_proj.weight.clone(),
        }
        for one in golden.model.layers
    ]  # fmt: skip
    table = golden.model.embed_tokens.weight.clone()
    return {"embedding": table, "layers": layers, "final_norm": of(golden.model.norm),
            "head": golden.lm_head.weight.clone()}  # fmt: skip


@pair.prepare
def prepare():
    config = NemotronConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS, head_dim=WIDTH,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, max_position_embeddings=64, initializer_range=0.2,
        attn_implementation="eager",
    )  # fmt: skip
    golden = NemotronForCausalLM(config).eval()
    unsettle(golden, "norm")
    ids = torch.randint(1, WORDS, (2, LENGTH))
    with torch.no_grad():
        own = carried_over(golden)

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(nemotron, own, ids)


pair.fault("epsilon", "add", "rsqrt")
pair.fault("norm_without_one", "mul")
pair.fault("neighbours", "slice")
pair.fault("scale", "div")
pair.fault("rope_base", "pow")
pair.fault("not_squared", "relu", "matmul")  # the product reads what is not squared
