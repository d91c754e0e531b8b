"""BART of transformers, with padded sources, beside one's own: one product for q, k and v, heads in the batch."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import BartConfig, BartModel  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, PAD, SOURCE, TARGET, BATCH = 32, 4, 40, 2, 50, 1, 9, 6, 2
OFFSET = 2

pair = Pair("bart")


def heads(x):
    batch, length = x.shape[:2]
    return x.view(batch, length, HEADS, -1).transpose(1, 2).reshape(batch * HEADS, length, -1)


def attend(q, k, v, hidden):
    q, k, v = heads(q), heads(k), heads(v)
    scores = torch.baddbmm(hidden, q, k.mT, alpha=(WIDTH // HEADS) ** -0.5)  # bad("keys_for_values")
    y = scores.softmax(-1) @ v  # bad("padding_seen")
    return y.view(BATCH, HEADS, -1, WIDTH // HEADS).transpose(1, 2).flatten(2)


def norm(w, name, x):
    return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"])  # bad("residual_order")


def added(w, name, x, y):
    y = F.linear(y, w[f"{name}.weight"], w[f"{name}.bias"])
    if bad("bias_twice") and name == "encoder_attn.out_proj":
        y = y + w[f"{name}.bias"]  # bad("bias_twice")
    return x + y


def own_attention(w, x, hidden):
    q, k, v = F.linear(x, w["self_attn.qkv"], w["self_attn.qkv_bias"]).chunk(3, -1)
    x = added(w, "self_attn.out_proj", x, attend(q, k, v, hidden))
    return norm(w, "self_attn_layer_norm", x)


def other_attention(w, x, memory, hidden):
    q = F.linear(x, w["encoder_attn.q_proj.weight"], w["encoder_attn.q_proj.bias"])
    k, v = F.linear(memory, w["encoder_attn.kv"], w["encoder_attn.kv_bias"]).chunk(2, -1)
    if bad("keys_for_values"):
        k, v = v, k
    x = added(w, "encoder_attn.out_proj", x, attend(q, k, v, hidden))
    return norm(w, "encoder_attn_layer_norm", x)


def network(w, x):
    h = F.linear(x, w["fc1.weight"], w["fc1.bias"])
    h = F.gelu(h, approximate="tanh" if bad("gelu") else "none")  # bad("gelu")
    if bad("residual_order"):
        return x + norm(w, "final_layer_norm", F.linear(h, w["fc2.weight"], w["fc2.bias"]))  # bad("residual_order")
    return norm(w, "final_layer_norm", added(w, "fc2", x, h))


def embed(w, ids):
    x = w["words"][ids] * WIDTH**0.5
    first = 0 if bad("positions") else OFFSET
    x = x + w["embed_positions.weight"][first : first + ids.shape[1]]  # bad("positions")
    return norm(w, "layernorm_embedding", x)


def layer(w, i):
    return {name.removeprefix(f"layers.{i}."): weight for name, weight in w.items() if name.startswith(f"layers.{i}.")}


def bart(encoder, decoder, source, target):
    lowest = torch.finfo(torch.float32).min
    padded = (source == PAD).float().mul(lowest)[:, None, None, :].expand(-1, HEADS, -1, -1).flatten(0, 1)
    ahead = torch.full((TARGET, TARGET), lowest).triu(1)
    x = embed(encoder, source)
    for i in range(LAYERS):
        w = layer(encoder, i)
        x = network(w, own_attention(w, x, padded))
    y = embed(decoder, target)
    for i in range(LAYERS):
        w = layer(decoder, i)
        y = own_attention(w, y, ahead)
        hidden = torch.zeros_like(padded) if bad("padding_seen") else padded  # bad("padding_seen")
        y = network(w, other_attention(w, y, x, hidden))
    return y


def carried_over(part, words):
    w = {name: weight.clone() for name, weight in part.state_dict().items()}
    for i in range(LAYERS):
        for attention, names, joined in (("self_attn", "qkv", "qkv"), ("encoder_attn", "kv", "kv")):
            place = f"layers.{i}.{attention}"
            if f"{place}.q_proj.weight" in w:
                w[f"{place}.{joined}"] = torch.cat([w[f"{place}.{n}_proj.weight"] for n in names])
                w[f"{place}.{joined}_bias"] = torch.cat([w[f"{place}.{n}_proj.bias"] for n in names])
    return w | {"words": words}


@pair.prepare
def prepare():
    config = BartConfig(
        vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER, max_position_embeddings=32,
        scale_embedding=True, init_std=0.2, pad_token_id=PAD, attn_implementation="eager",
    )  # fmt: skip
    golden = BartModel(config).eval()
    unsettle(golden, "norm", "bias")
    words = golden.shared.weight.detach().clone()
    encoder, decoder = carried_over(golden.encoder, words), carried_over(golden.decoder, words)
    source, target = torch.randint(3, WORDS, (BATCH, SOURCE)), torch.randint(3, WORDS, (BATCH, TARGET))
    source[1, -3:] = PAD
    seen = (source != PAD).long()

    def run(model, *given, **named):
        with torch.no_grad():
            return model(*given, **named)

    return (
        lambda: run(golden, source, attention_mask=seen, decoder_input_ids=target, use_cache=False),
        lambda: run(bart, encoder, decoder, source, target),
    )


pair.fault("bias_twice", "add")
pair.fault("keys_for_values", "baddbmm")
pair.fault("gelu", "gelu")
pair.fault("residual_order", "add", "layer_norm")  # the norm reads what is not added up yet
pair.fault("positions", "slice", "add")
pair.fault("padding_seen", "zeros_like", "baddbmm", "softmax")  # the softmax reads scores that are not hidden
