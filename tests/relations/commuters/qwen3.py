"""Qwen3 of transformers, whose head is its embedding, beside one's own: queries, keys and values by one product."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, HEAD, INNER, LAYERS, WORDS, TOKENS = 24, 4, 2, 8, 36, 2, 51, 7

pair = Pair("qwen3")


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.gain, 1e-6)


def turned(x, cos, sin):
    return x * cos + torch.cat((-x[..., HEAD // 2 :], x[..., : HEAD // 2]), -1) * sin  # bad("turned_first")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Parameter(torch.zeros(WIDTH, (HEADS + 2 * SHARED) * HEAD))
        self.q_norm, self.k_norm, self.before, self.after = Norm(HEAD), Norm(HEAD), Norm(WIDTH), Norm(WIDTH)
        self.o, self.down = nn.Linear(HEADS * HEAD, WIDTH, bias=False), nn.Linear(INNER, WIDTH, bias=False)
        self.up_gate = nn.Linear(WIDTH, 2 * INNER, bias=False)

    def attend(self, x, cos, sin):
        q, k, v = (x @ self.qkv).unflatten(-1, (-1, HEAD)).transpose(1, 2).split((HEADS, SHARED, SHARED), 1)
        if bad("turned_first"):
            q = self.q_norm(turned(q, cos, sin))
            k = self.k_norm(turned(k, cos, sin))
        else:
            q, k = turned(self.q_norm(q), cos, sin), turned(self.k_norm(k), cos, sin)
        q = q.unflatten(1, (SHARED, HEADS // SHARED))
        scores = torch.einsum("bsgqd,bskd->bsgqk", q, k) * HEAD**-0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        y = torch.einsum("bsgqk,bskd->bqsgd", weights, v)
        return self.o(y.flatten(2))

    def forward(self, x, cos, sin):
        x = x + self.attend(self.before(x), cos, sin)
        up, gate = self.up_gate(self.after(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(WORDS, WIDTH), Norm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    @torch.no_grad()
    def forward(self, ids):
        base = 10000.0 if bad("base") else 1e6
        speeds = base ** (-torch.arange(0, HEAD, 2).float() / HEAD)  # bad("base")
        angles = torch.outer(torch.arange(ids.shape[1]).float(), speeds).repeat(1, 2)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return F.linear(self.last(x), self.words.weight)


def carried_over(golden):
    own, of = Own(), golden.model
    with torch.no_grad():
        own.words.weight.copy_(of.embed_tokens.weight)
        own.last.gain.copy_(of.norm.weight)
        for layer, its in zip(own.layers, of.layers, strict=True):
            a, mlp = its.self_attn, its.mlp
            layer.qkv.copy_(torch.cat([part.weight for part in (a.q_proj, a.k_proj, a.v_proj)]).T)
            layer.q_norm.gain.copy_(a.q_norm.weight)
            layer.k_norm.gain.copy_(a.k_norm.weight)
            layer.o.weight.copy_(a.o_proj.weight)
            layer.before.gain.copy_(its.input_layernorm.weight)
            layer.after.gain.copy_(its.post_attention_layernorm.weight)
            layer.up_gate.weight.copy_(torch.cat((mlp.up_proj.weight, mlp.gate_proj.weight)))
            layer.down.weight.copy_(mlp.down_proj.weight)
    return own.eval()


@pair.prepare
def prepare():
    config = Qwen3Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, head_dim=HEAD,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, initializer_range=0.2,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )  # fmt: skip
    golden = Qwen3ForCausalLM(config).eval()
    unsettle(golden, "norm")
    own = carried_over(golden)
    ids = torch.randint(3, WORDS, (2, TOKENS))

    @torch.no_grad()
    def original():
        golden(ids)

    return original, lambda: own(ids)


# The rotation of what is not yet normed comes first.
pair.fault("turned_first", "mul", "neg", "slice", "cat", "add")
pair.fault("base", "pow")
