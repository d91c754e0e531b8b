"""Gemma 2 of transformers in training beside one's own: a mask of distances, the embedding's scale in a number."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import Gemma2Config, Gemma2ForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, HEAD, INNER, LAYERS, WORDS, TOKENS, STEPS = 24, 4, 2, 8, 40, 2, 47, 9, 2
WINDOW, CAP, LAST_CAP, PER_QUERY = 4, 5.0, 3.0, 12

pair = Pair("gemma2")


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        return F.rms_norm(x, (WIDTH,), 1 + self.offset, 1e-6)


def capped(x, bound):
    return torch.tanh(x / bound) * bound


def rotated(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


def distances(length):
    places = torch.arange(length)
    return places[:, None] - places


class Layer(nn.Module):
    def __init__(self, local):
        super().__init__()
        self.local = local
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * SHARED) * HEAD, bias=False)
        self.out = nn.Linear(HEADS * HEAD, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.norms = nn.ModuleList(Norm() for _ in range(4))

    def attend(self, x, cos, sin):
        q, k, v = self.qkv(x).unflatten(-1, (-1, HEAD)).transpose(1, 2).split((HEADS, SHARED, SHARED), 1)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = k.repeat_interleave(HEADS // SHARED, 1), v.repeat_interleave(HEADS // SHARED, 1)
        scores = q @ k.mT * (HEAD if bad("scale") else PER_QUERY) ** -0.5  # bad("scale")
        if not bad("not_capped"):
            scores = capped(scores, CAP)
        away = distances(x.shape[1])
        seen = away >= 0
        if self.local:
            seen = seen & (away <= WINDOW if bad("window") else away < WINDOW)  # bad("window")
        scores = scores.masked_fill(~seen, float("-inf"))  # bad("not_capped") bad("window")
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))  # bad("window")

    def forward(self, x, cos, sin):
        one, two, three, four = self.norms
        x = x + two(self.attend(one(x), cos, sin))
        hidden = self.gate(three(x))
        hidden = F.gelu(hidden) if bad("gelu") else F.gelu(hidden, approximate="tanh")  # bad("gelu")
        return x + four(self.down(hidden * self.up(three(x))))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(i % 2 == 0) for i in range(LAYERS))
        self.norm = Norm()

    def forward(self, ids):
        angles = torch.outer(torch.arange(ids.shape[1]).float(), 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD))
        cos, sin = angles.cos(), angles.sin()
        x = self.words(ids) * WIDTH**0.5
        for layer in self.layers:
            x = layer(x, cos, sin)
        return capped(self.norm(x) @ self.words.weight.T, LAST_CAP)


def carried_over(golden):
    own, of = Own(), golden.model
    with torch.no_grad():
        own.words.weight.copy_(of.embed_tokens.weight)
        own.norm.offset.copy_(of.norm.weight)
        for layer, its in zip(own.layers, of.layers, strict=True):
            a = its.self_attn
            layer.qkv.weight.copy_(torch.cat([part.weight for part in (a.q_proj, a.k_proj, a.v_proj)]))
            layer.out.weight.copy_(a.o_proj.weight)
            layer.gate.weight.copy_(its.mlp.gate_proj.weight)
            layer.up.weight.copy_(its.mlp.up_proj.weight)
            layer.down.weight.copy_(its.mlp.down_proj.weight)
            norms = (its.input_layernorm, its.post_attention_layernorm,
                     its.pre_feedforward_layernorm, its.post_feedforward_layernorm)  # fmt: skip
            for norm, other in zip(layer.norms, norms, strict=True):
                norm.offset.copy_(other.weight)
    return own


@pair.prepare
def prepare():
    config = Gemma2Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, head_dim=HEAD,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, initializer_range=0.2,
        query_pre_attn_scalar=PER_QUERY, sliding_window=WINDOW, attn_logit_softcapping=CAP,
        final_logit_softcapping=LAST_CAP, attn_implementation="eager",
    )  # fmt: skip
    golden = Gemma2ForCausalLM(config)
    unsettle(golden, "norm")
    own = carried_over(golden)
    batches = [torch.randint(3, WORDS, (2, TOKENS)) for _ in range(STEPS)]

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for ids in batches:
            optimizer.zero_grad()
            loss(ids).backward()
            optimizer.step()

    def original(ids):
        return golden(input_ids=ids, labels=ids, use_cache=False).loss

    def ported(ids):
        return F.cross_entropy(own(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return lambda: train(golden, original), lambda: train(own, ported)


pair.fault("scale", "mul")
pair.fault("not_capped", "masked_fill")
pair.fault("window", "le", "__and__", "masked_fill", "softmax")
pair.fault("gelu", "gelu")
