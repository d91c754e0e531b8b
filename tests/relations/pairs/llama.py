"""A Llama of one's own, with one projection for q, k, v and one for gate and up, beside transformers'."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, GROUPS, INNER, LAYERS, WORDS = 32, 4, 2, 48, 2, 64
WIDTH = HIDDEN // HEADS

pair = Pair("llama")


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        if bad("layer_norm"):
            x = x - x.mean(-1, keepdim=True) * bad("layer_norm")
        power = x.pow(2).mean(-1, keepdim=True)
        y = x * torch.rsqrt(power + (1e-3 if bad("epsilon") else 1e-6))
        return y * (1 + self.weight) if bad("norm_plus_one") else y * self.weight


def turn(x):
    one, two = x.chunk(2, -1)
    return torch.cat((two, -one), -1) if bad("rotate_sign") else torch.cat((-two, one), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, HIDDEN + 2 * GROUPS * WIDTH, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).split((HIDDEN, GROUPS * WIDTH, GROUPS * WIDTH), -1)
        q = q.view(batch, tokens, HEADS, WIDTH).transpose(1, 2)
        k = k.view(batch, tokens, GROUPS, WIDTH).transpose(1, 2)
        v = v.view(batch, tokens, GROUPS, WIDTH).transpose(1, 2)
        q = q * cos + turn(q) * sin
        k = k if bad("keys_not_turned") else k * cos + turn(k) * sin
        times = HEADS // GROUPS
        k = k.repeat(1, times, 1, 1) if bad("repeat_order") else k.repeat_interleave(times, 1)  # bad("keys_not_turned")
        v = v.repeat(1, times, 1, 1) if bad("repeat_order") else v.repeat_interleave(times, 1)
        scores = q @ k.transpose(-1, -2) * (WIDTH**-1.0 if bad("scale") else WIDTH**-0.5)  # bad("keys_not_turned")
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(2 if bad("mask") else 1)
        scores = scores.masked_fill(hidden, float("-inf"))
        mixed = scores.softmax(-1) @ v
        mixed = mixed if bad("heads_not_moved") else mixed.transpose(1, 2)
        return self.out(mixed.reshape(batch, tokens, HIDDEN))  # bad("heads_not_moved")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up = nn.Linear(HIDDEN, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down((F.gelu(gate) if bad("activation") else F.silu(gate)) * up)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.attention, self.after, self.mlp = Norm(), Attention(), Norm(), Mlp()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.before(x), cos, sin)
        y = self.after(x)
        return (y if bad("residual") else x) + self.mlp(y)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, ids):
        x = self.words(ids)
        frequency = (500.0 if bad("rotary_base") else 10000.0) ** (-torch.arange(0, WIDTH, 2).float() / WIDTH)
        position = torch.arange(0, 2 * ids.shape[1], 2) if bad("positions") else torch.arange(ids.shape[1])
        angle = torch.outer(position.float(), frequency)
        angle = torch.cat((angle, angle), -1)
        cos, sin = angle.cos(), angle.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


def weights_of(golden):
    had = golden.state_dict()
    new = {"words.weight": had["model.embed_tokens.weight"], "norm.weight": had["model.norm.weight"]}
    new["head.weight"] = had["model.embed_tokens.weight"] if bad("tied") else had["lm_head.weight"]
    for i in range(LAYERS):
        old, own = f"model.layers.{i}.", f"blocks.{i}."
        q, k, v = (had[f"{old}self_attn.{one}_proj.weight"] for one in "qkv")
        if bad("head_order") and i == 1:
            q = q.view(HEADS, WIDTH, HIDDEN).flip(0).reshape(HIDDEN, HIDDEN)
        gate, up = had[old + "mlp.gate_proj.weight"], had[old + "mlp.up_proj.weight"]
        new[own + "attention.qkv.weight"] = torch.cat((q, k, v))
        out = had[old + "self_attn.o_proj.weight"]
        new[own + "attention.out.weight"] = out.T if bad("transposed") else out
        new[own + "mlp.gate_up.weight"] = torch.cat((up, gate) if bad("halves") and i == 1 else (gate, up))
        new[own + "mlp.down.weight"] = had[old + "mlp.down_proj.weight"]
        new[own + "before.weight"] = had[old + "input_layernorm.weight"]
        new[own + "after.weight"] = had[old + "post_attention_layernorm.weight"]
    if bad("not_carried_over"):
        new["blocks.1.mlp.down.weight"] = new["blocks.1.mlp.down.weight"].roll(1, 0) * 0.9 + 0.01
    return new


@pair.prepare
def prepare():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=GROUPS, rms_norm_eps=1e-6, initializer_range=0.2,
    )  # fmt: skip
    golden = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, weight in golden.named_parameters():
            if "norm" in name:
                weight.add_(0.1 * torch.randn_like(weight))
    target = Llama()
    target.load_state_dict(weights_of(golden))
    ids = torch.randint(0, WORDS, (2, 6))

    def run_golden():
        with torch.no_grad():
            logits = golden(ids).logits
            return F.cross_entropy(logits[:, :-1].reshape(-1, WORDS), ids[:, 1:].reshape(-1))

    def run_target():
        with torch.no_grad():
            logits = target(ids)
            return F.cross_entropy(logits[:, :-1].reshape(-1, WORDS), ids[:, 1:].reshape(-1))

    return run_golden, run_target


pair.fault("rotary_base", "pow", "exp", "reciprocal")
pair.fault("positions", "arange")
pair.fault("rotate_sign", "cat", "neg")
pair.fault("keys_not_turned", "mul", "add", "repeat_interleave", "matmul")
pair.fault("repeat_order", "repeat")
pair.fault("scale", "mul")
pair.fault("mask", "triu")
pair.fault("heads_not_moved", "reshape", "matmul", "view", "_unsafe_view")
pair.fault("activation", "gelu")
pair.fault("residual", "add")
pair.fault("epsilon", "add", "rsqrt", "mul")
pair.fault("layer_norm", "sub", "mean", "mul")
pair.fault("norm_plus_one", "add", "mul")
pair.weight("tied", "head")
pair.weight("head_order", "blocks.1.attention.qkv")
pair.weight("transposed", "attention.out")
pair.weight("halves", "blocks.1.mlp.gate_up")
pair.weight("not_carried_over", "blocks.1.mlp.down")
