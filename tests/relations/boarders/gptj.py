"""GPT-J of transformers beside one's own in the style of nanoGPT: one product for q, k and v, rotation by pairs."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import GPTJConfig, GPTJForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, TURNED, LAYERS, WORDS, TOKENS = 32, 4, 4, 2, 50, 9
HEAD = WIDTH // HEADS

pair = Pair("gptj")


def tables(length):
    base = 1000.0 if bad("rope_base") else 10000.0
    speeds = 1.0 / base ** (torch.arange(0, TURNED, 2).float() / TURNED)  # bad("rope_base")
    angles = torch.arange(length).float()[:, None] * speeds
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    turned, rest = x[..., :TURNED], x[..., TURNED:]
    if bad("in_halves"):
        first, second = turned.chunk(2, -1)  # bad("in_halves")
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    else:
        even, odd = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)
    return torch.cat((turned, rest), -1)


class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, HEAD).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1))
        cos, sin = tables(length)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        size = WIDTH if bad("scale") else HEAD
        scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(size))  # bad("scale")
        past = torch.ones(length, length, dtype=torch.bool).tril(1 if bad("mask") else 0)  # bad("mask")
        scores = scores.masked_fill(~past, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.attn = CausalSelfAttention()
        self.c_fc, self.c_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.ln_1(x)
        inner = x if bad("not_normed") else y
        inner = self.c_fc(inner)  # bad("not_normed")
        return x + self.attn(y) + self.c_proj(F.gelu(inner, approximate="tanh"))


class GPTJ(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, WORDS)

    @torch.no_grad()
    def forward(self, ids):
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def carried_over(golden):
    own = GPTJ()
    with torch.no_grad():
        own.wte.weight.copy_(golden.transformer.wte.weight)
        for block, of in zip(own.h, golden.transformer.h, strict=True):
            block.ln_1.load_state_dict(of.ln_1.state_dict())
            parts = (of.attn.q_proj.weight, of.attn.k_proj.weight, of.attn.v_proj.weight)
            block.attn.c_attn.weight.copy_(torch.cat(parts))
            block.attn.c_proj.weight.copy_(of.attn.out_proj.weight)
            block.c_fc.load_state_dict(of.mlp.fc_in.state_dict())
            block.c_proj.load_state_dict(of.mlp.fc_out.state_dict())
        own.ln_f.load_state_dict(golden.transformer.ln_f.state_dict())
        own.lm_head.weight.copy_(golden.lm_head.weight)
        if bad("tied"):
            own.lm_head.weight.copy_(golden.transformer.wte.weight)  # bad("tied")
        own.lm_head.bias.copy_(golden.lm_head.bias)
    return own.eval()


@pair.prepare
def prepare():
    config = GPTJConfig(
        vocab_size=WORDS, n_positions=32, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, rotary_dim=TURNED,
        initializer_range=0.2, tie_word_embeddings=False,
    )  # fmt: skip
    golden = GPTJForCausalLM(config).eval()
    unsettle(golden, "ln", "bias")
    own = carried_over(golden)
    ids = torch.randint(0, WORDS, (2, TOKENS))

    @torch.no_grad()
    def run():
        return golden(ids, use_cache=False)

    return run, lambda: own(ids)


pair.fault("rope_base", "pow")
pair.fault("in_halves", "chunk")
pair.fault("scale", "mul")
pair.fault("mask", "tril")
pair.fault("not_normed", "linear")
pair.weight("tied", "lm_head.weight")
