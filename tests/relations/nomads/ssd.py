"""Mamba-2 of transformers, which computes chunk after chunk, beside one's own with one state step after step."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import Mamba2Config, Mamba2ForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, WIDTH, STATE, GROUPS, LAYERS, WORDS, TAPS, LENGTH = 16, 4, 8, 6, 2, 2, 40, 4, 10
INNER, SIDE = HEADS * WIDTH, GROUPS * STATE

pair = Pair("ssd")


def norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * weight


def gated(w, y, gate):
    y = y if bad("gate_behind") else y * F.silu(gate)  # bad("no_skip")
    parts = y if bad("one_norm") else y.unflatten(-1, (GROUPS, -1))
    parts = parts / (parts.square().mean(-1, keepdim=True) + 1e-5).sqrt()  # bad("gate_behind"), bad("one_norm")
    y = (parts if bad("one_norm") else parts.flatten(-2)) * w["norm.weight"]  # bad("one_norm")
    return y * F.silu(gate) if bad("gate_behind") else y


def scanned(w, x, b, c, dt):
    x, b, c = x.unflatten(-1, (HEADS, WIDTH)), b.unflatten(-1, (GROUPS, STATE)), c.unflatten(-1, (GROUPS, STATE))
    if bad("groups_in_turn"):
        b, c = b.repeat(1, 1, HEADS // GROUPS, 1), c.repeat(1, 1, HEADS // GROUPS, 1)  # bad("groups_in_turn")
    else:
        b, c = b.repeat_interleave(HEADS // GROUPS, 2), c.repeat_interleave(HEADS // GROUPS, 2)
    dt = (dt + w["dt_bias"]).relu() if bad("relu") else F.softplus(dt + w["dt_bias"])  # bad("relu")
    decay = torch.exp(-w["A_log"].exp() * dt)
    state, outs = x.new_zeros(len(x), HEADS, WIDTH, STATE), []
    for t in range(LENGTH):
        more = torch.einsum("bhp,bhn->bhpn", x[:, t] * dt[:, t, :, None], b[:, t])
        state = decay[:, t, :, None, None] * state + more
        outs.append(torch.einsum("bhpn,bhn->bhp", state, c[:, t]))
    y = torch.stack(outs, 1)
    return y.flatten(2) if bad("no_skip") else (y + w["D"][:, None] * x).flatten(2)


def mixed(w, x):
    gate, rest, dt = (x @ w["in_proj.weight"].T).split([INNER, INNER + 2 * SIDE, HEADS], -1)
    padded = F.pad(rest, (0, 0, TAPS - 1, 0))
    kernel = w["conv1d.weight"].squeeze(1)
    rest = sum(padded[:, i : i + LENGTH] * kernel[:, i] for i in range(TAPS)) + w["conv1d.bias"]
    x, b, c = F.silu(rest).split([INNER, SIDE, SIDE], -1)
    return gated(w, scanned(w, x, b, c, dt), gate) @ w["out_proj.weight"].T


def mamba(w, ids):
    x = w["backbone.embeddings.weight"][ids]
    for i in range(LAYERS):
        own = {n.removeprefix(f"backbone.layers.{i}."): one for n, one in w.items() if f"layers.{i}." in n}
        inside = {n.removeprefix("mixer."): one for n, one in own.items() if n.startswith("mixer.")}
        x = x + mixed(inside, norm(x, own["norm.weight"]))
    return norm(x, w["backbone.norm_f.weight"]) @ w["lm_head.weight"].T


@pair.prepare
def prepare():
    config = Mamba2Config(
        vocab_size=WORDS, hidden_size=HIDDEN, num_heads=HEADS, head_dim=WIDTH, state_size=STATE, n_groups=GROUPS,
        num_hidden_layers=LAYERS, conv_kernel=TAPS, chunk_size=4, initializer_range=0.3, use_cache=False,
    )  # fmt: skip
    golden = Mamba2ForCausalLM(config).eval()
    unsettle(golden, "norm", "dt_bias", "D")
    own, ids = {n: w.clone() for n, w in golden.state_dict().items()}, torch.randint(0, WORDS, (2, LENGTH))
    if bad("kernel_reversed"):
        own["backbone.layers.1.mixer.conv1d.weight"] = own["backbone.layers.1.mixer.conv1d.weight"].flip(-1)

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(mamba, own, ids)


pair.fault("gate_behind", "square", "pow", "mean", "div")
pair.fault("one_norm", "square", "pow", "mean", "div", "mul")
pair.fault("groups_in_turn", "repeat")
pair.fault("relu", "relu")
pair.fault("no_skip", "mul", "flatten", "view")
pair.weight("kernel_reversed", "conv1d.weight")
