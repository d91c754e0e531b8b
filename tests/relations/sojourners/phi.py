"""Phi of transformers in one pass beside one's own with a cache: a prompt of four tokens, then token by token."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import PhiConfig, PhiForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, INNER, LAYERS, WORDS, TOKENS, PROMPT = 32, 4, 64, 2, 50, 8, 4
WIDTH, TURNED = HIDDEN // HEADS, HIDDEN // HEADS // 2

pair = Pair("phi")


def rotate(x, cos, sin):
    turned, rest = x[..., :TURNED], x[..., TURNED:]
    low, high = turned.chunk(2, dim=-1)
    turned = torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)
    return torch.cat((turned, rest), dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.proj = nn.Linear(HIDDEN, HIDDEN)
        self.cache = None

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.cache is not None:
            k, v = torch.cat((self.cache[0], k), dim=2), torch.cat((self.cache[1], v), dim=2)  # bad("stale_cache")
        if self.cache is None or not bad("stale_cache"):
            self.cache = (k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        return self.proj(y.transpose(1, 2).reshape(batch, length, HIDDEN))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(HIDDEN)
        self.attn = Attention()
        self.fc1, self.fc2 = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)

    def forward(self, x, cos, sin):
        h = self.ln(x)
        attention = self.attn(h, cos, sin)
        if bad("serial"):
            x = x + attention
            return x + self.fc2(F.gelu(self.fc1(self.ln(x)), approximate="tanh"))  # bad("serial")
        h = F.gelu(self.fc1(h), approximate="none" if bad("gelu") else "tanh")  # bad("gelu")
        return x + attention + self.fc2(h)


class Phi(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, WORDS)
        base = 500.0 if bad("rope_base") else 10000.0
        self.speeds = lambda: 1.0 / base ** (torch.arange(0, TURNED, 2) / TURNED)  # bad("rope_base")

    def forward(self, ids, start):
        x = self.embed(ids)
        if bad("positions") and start > 0:
            start = start - 1
        positions = torch.arange(start, start + ids.shape[1]).float()  # bad("positions")
        angles = torch.outer(positions, self.speeds())
        cos, sin = angles.cos(), angles.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.ln_f(x))

    @torch.no_grad()
    def read(self, ids):
        for block in self.blocks:
            block.attn.cache = None
        self(ids[:, :PROMPT], 0)
        for t in range(PROMPT, ids.shape[1]):
            self(ids[:, t : t + 1], t)


def carried_over(golden):
    own = Phi()
    with torch.no_grad():
        own.embed.weight.copy_(golden.model.embed_tokens.weight)
        for block, layer in zip(own.blocks, golden.model.layers, strict=True):
            parts = [getattr(layer.self_attn, f"{n}_proj") for n in "qkv"]
            block.attn.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            block.attn.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            block.attn.proj.load_state_dict(layer.self_attn.dense.state_dict())
            block.ln.load_state_dict(layer.input_layernorm.state_dict())
            block.fc1.load_state_dict(layer.mlp.fc1.state_dict())
            if not bad("not_carried"):
                block.fc2.load_state_dict(layer.mlp.fc2.state_dict())
        own.ln_f.load_state_dict(golden.model.final_layernorm.state_dict())
        own.head.load_state_dict(golden.lm_head.state_dict())  # bad("not_carried")
    return own.eval()


@pair.prepare
def prepare():
    config = PhiConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, max_position_embeddings=64, initializer_range=0.2,
    )  # fmt: skip
    golden = PhiForCausalLM(config).eval()
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    ids = torch.randint(0, WORDS, (2, TOKENS))

    @torch.no_grad()
    def run():
        return golden(ids, use_cache=False)

    return run, lambda: own.read(ids)


pair.fault("stale_cache", "cat")
pair.fault("serial", "layer_norm")
pair.fault("gelu", "gelu")
pair.fault("rope_base", "pow")
pair.fault("positions", "arange")
pair.weight("not_carried", "fc2.weight")
