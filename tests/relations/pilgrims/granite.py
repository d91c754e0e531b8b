"""Granite of transformers in one pass beside one's own with a cache of fixed length: four multipliers, shared keys."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import GraniteConfig, GraniteForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, INNER, LAYERS, WORDS, TOKENS = 32, 4, 2, 56, 2, 47, 7
HEAD = WIDTH // HEADS
EMBEDDING, RESIDUAL, ATTENTION, LOGITS = 6.0, 0.4, 0.2, 3.0

pair = Pair("granite")


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.eps = 1e-3 if bad("epsilon") else 1e-6

    def forward(self, x):
        return F.rms_norm(x, (WIDTH,), self.scale, self.eps)  # bad("epsilon")


def rope(x, position):
    speeds = 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    angles = position * speeds
    cos, sin = angles.cos(), angles.sin()
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv = nn.Linear(WIDTH, WIDTH + 2 * SHARED * HEAD, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)
        self.keys = self.values = None

    def forward(self, x, t):
        q, k, v = self.wqkv(x).split((WIDTH, SHARED * HEAD, SHARED * HEAD), -1)
        q, k = rope(q.view(-1, HEADS, HEAD), t), rope(k.view(-1, SHARED, HEAD), t)
        self.keys[:, t] = k
        place = max(t - 1, 0) if bad("late_values") else t
        self.values[:, place] = v.view(-1, SHARED, HEAD)  # bad("late_values")
        keys, values = self.keys[:, : t + 1], self.values[:, : t + 1]
        if bad("tiled"):
            keys = keys.repeat(1, 1, HEADS // SHARED, 1)  # bad("tiled")
            values = values.repeat(1, 1, HEADS // SHARED, 1)  # bad("tiled")
        else:
            keys = keys.repeat_interleave(HEADS // SHARED, 2)
            values = values.repeat_interleave(HEADS // SHARED, 2)
        scale = HEAD**-0.5 if bad("usual_scale") else ATTENTION
        scores = torch.einsum("bhd,bshd->bhs", q, keys) * scale  # bad("usual_scale")
        return self.wo(torch.einsum("bhs,bshd->bhd", scores.softmax(-1), values).flatten(1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm, self.ffn_norm = RMSNorm(), RMSNorm()
        self.attn = Attention()
        self.w13 = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x, t):
        x = x + RESIDUAL * self.attn(self.attn_norm(x), t)
        gate, up = self.w13(self.ffn_norm(x)).chunk(2, -1)
        y = self.w2(F.silu(gate) * up)
        return x + y if bad("residual") else x + RESIDUAL * y  # bad("residual")


class Granite(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RMSNorm()
        self.output = nn.Linear(WIDTH, WORDS, bias=False)

    @torch.no_grad()
    def read(self, ids):
        for block in self.blocks:
            block.attn.keys = torch.zeros(ids.shape[0], TOKENS, SHARED, HEAD)
            block.attn.values = torch.zeros(ids.shape[0], TOKENS, SHARED, HEAD)
        for t in range(ids.shape[1]):
            x = self.tok_embeddings(ids[:, t]) * EMBEDDING
            for block in self.blocks:
                x = block(x, t)
            self.output(self.norm(x)) / LOGITS


def carried_over(golden):
    own = Granite()
    with torch.no_grad():
        own.tok_embeddings.weight.copy_(golden.model.embed_tokens.weight)
        own.output.weight.copy_(golden.lm_head.weight)
        own.norm.scale.copy_(golden.model.norm.weight)
        for block, of in zip(own.blocks, golden.model.layers, strict=True):
            parts = [of.self_attn.q_proj, of.self_attn.k_proj, of.self_attn.v_proj]
            block.attn.wqkv.weight.copy_(torch.cat([part.weight for part in parts]))
            block.attn.wo.weight.copy_(of.self_attn.o_proj.weight)
            block.attn_norm.scale.copy_(of.input_layernorm.weight)
            block.ffn_norm.scale.copy_(of.post_attention_layernorm.weight)
            halves = [of.mlp.gate_proj.weight, of.mlp.up_proj.weight]
            if bad("up_first"):
                halves.reverse()  # bad("up_first")
            block.w13.weight.copy_(torch.cat(halves))
            block.w2.weight.copy_(of.mlp.down_proj.weight)
    return own.eval()


@pair.prepare
def prepare():
    config = GraniteConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, initializer_range=0.2,
        tie_word_embeddings=False, embedding_multiplier=EMBEDDING, residual_multiplier=RESIDUAL,
        attention_multiplier=ATTENTION, logits_scaling=LOGITS, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    golden = GraniteForCausalLM(config).eval()
    unsettle(golden, "norm")
    own = carried_over(golden)
    ids = torch.randint(3, WORDS, (2, TOKENS))

    @torch.no_grad()
    def run():
        return golden(ids, use_cache=False)

    return run, lambda: own.read(ids)


pair.fault("epsilon", "rms_norm")
pair.fault("late_values", "copy_", "select", "slice", "fill_", "index_put_")
pair.fault("tiled", "repeat")
pair.fault("usual_scale", "mul")
pair.fault("residual", "add")
pair.weight("up_first", "w13.weight")
