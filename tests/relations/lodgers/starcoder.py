"""StarCoder 2 of transformers beside one's own: shared keys, angles by `exp`, its MLP as two products with biases."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import Starcoder2Config, Starcoder2ForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, INNER, LAYERS, WORDS, TOKENS = 40, 4, 2, 72, 2, 55, 7
HEAD = WIDTH // HEADS

pair = Pair("starcoder")


def angles_of(length):
    base = 500.0 if bad("rope_base") else 10000.0
    steps = torch.arange(0, HEAD, 2).float()
    speeds = torch.exp(steps * (-math.log(base) / HEAD))  # bad("rope_base")
    places = torch.arange(length)
    if bad("places"):
        places = places.flip(0)  # bad("places")
    return places.float()[:, None] * speeds[None]


def turn(x, angles):
    low, high = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_qkv = nn.Linear(WIDTH, WIDTH + 2 * SHARED * HEAD)
        self.attn_out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, angles):
        batch, length, _ = x.shape
        q, k, v = self.attn_qkv(x).split((WIDTH, SHARED * HEAD, SHARED * HEAD), -1)
        q = q.view(batch, length, SHARED, HEADS // SHARED, HEAD).permute(0, 2, 3, 1, 4)
        k = k.view(batch, length, SHARED, HEAD).transpose(1, 2)
        v = v.view(batch, length, SHARED, HEAD).transpose(1, 2)
        q, k = turn(q, angles), turn(k, angles)
        scores = torch.einsum("bghqd,bgkd->bghqk", q, k) / math.sqrt(HEAD)
        if bad("sees_next"):
            scores = scores + torch.full((length, length), float("-inf")).triu(2)  # bad("sees_next")
        else:
            scores = scores + torch.full((length, length), float("-inf")).triu(1)
        mixed = torch.einsum("bghqk,bgkd->bqghd", scores.softmax(-1), v)
        return self.attn_out(mixed.reshape(batch, length, WIDTH))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x, angles):
        x = x + self.attn(self.ln1(x), angles)
        y = self.up(self.ln2(x))
        y = F.silu(y) if bad("silu") else F.gelu(y, approximate="tanh")  # bad("silu")
        y = self.down(y)
        if bad("bias_twice"):
            y = y + self.down.bias  # bad("bias_twice")
        return x + y


class StarCoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.ln = nn.LayerNorm(WIDTH)
        self.unembed = nn.Linear(WIDTH, WORDS, bias=False)

    @torch.no_grad()
    def forward(self, ids):
        x, angles = self.tokens(ids), angles_of(ids.shape[1])
        for layer in self.layers:
            x = layer(x, angles)
        return self.unembed(self.ln(x))


def carried_over(golden):
    own = StarCoder()
    with torch.no_grad():
        own.tokens.weight.copy_(golden.model.embed_tokens.weight)
        own.unembed.weight.copy_(golden.lm_head.weight)
        own.ln.load_state_dict(golden.model.norm.state_dict())
        for layer, of in zip(own.layers, golden.model.layers, strict=True):
            layer.ln1.load_state_dict(of.input_layernorm.state_dict())
            layer.ln2.load_state_dict(of.post_attention_layernorm.state_dict())
            parts = [of.self_attn.q_proj, of.self_attn.k_proj, of.self_attn.v_proj]
            if bad("values_first"):
                parts = [parts[0], parts[2], parts[1]]  # bad("values_first")
            layer.attn.attn_qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            layer.attn.attn_qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            layer.attn.attn_out.load_state_dict(of.self_attn.o_proj.state_dict())
            layer.up.load_state_dict(of.mlp.c_fc.state_dict())
            layer.down.load_state_dict(of.mlp.c_proj.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = Starcoder2Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, sliding_window=None,
        initializer_range=0.2, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    golden = Starcoder2ForCausalLM(config).eval()
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    ids = torch.randint(0, WORDS, (2, TOKENS))

    @torch.no_grad()
    def run():
        return golden(ids, use_cache=False)

    return run, lambda: own(ids)


pair.fault("rope_base", "mul", "exp")
pair.fault("places", "flip")
pair.fault("sees_next", "triu", "add")
pair.fault("silu", "silu")
pair.fault("bias_twice", "add")
pair.weight("values_first", "attn_qkv")
