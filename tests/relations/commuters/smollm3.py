"""SmolLM3 of transformers, of whose layers some turn nothing, in training beside one's own with tokens flattened."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import SmolLM3Config, SmolLM3ForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, INNER, LAYERS, WORDS, TOKENS, ROWS, STEPS = 24, 4, 2, 36, 3, 45, 8, 2, 2
HEAD = WIDTH // HEADS

pair = Pair("smollm3")


def rms(x, gain):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gain


class Layer(nn.Module):
    def __init__(self, turns):
        super().__init__()
        self.turns = turns
        self.norm1, self.norm2 = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(WIDTH))
        self.wq, self.wo = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.wkv = nn.Linear(WIDTH, 2 * SHARED * HEAD, bias=False)
        self.w1, self.w3 = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def heads(self, x, count):
        return x.view(ROWS, -1, count, HEAD).transpose(1, 2)

    def turned(self, x, table):
        if not self.turns and not bad("all_turned"):
            return x
        low, high = x.chunk(2, -1)
        cos, sin = table
        return torch.cat((low * cos - high * sin, low * sin + high * cos), -1)  # bad("all_turned")

    def forward(self, x, table):
        y = rms(x, self.norm1)
        k, v = self.wkv(y).chunk(2, -1)
        q, k = self.turned(self.heads(self.wq(y), HEADS), table), self.turned(self.heads(k, SHARED), table)
        y = F.scaled_dot_product_attention(q, k, self.heads(v, SHARED), is_causal=True, enable_gqa=True)
        x = x + self.wo(y.transpose(1, 2).flatten(2).flatten(0, 1))
        y = rms(x, self.norm2)
        if bad("gelu"):
            return x + self.w2(F.gelu(self.w1(y)) * self.w3(y))  # bad("gelu")
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.ones(WIDTH))
        self.layers = nn.ModuleList(Layer(i != 1) for i in range(LAYERS))

    def forward(self, ids):
        angles = torch.outer(torch.arange(TOKENS).float(), 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))
        table = angles.cos(), angles.sin()
        x = self.words(ids.flatten())
        for layer in self.layers:
            x = layer(x, table)
        return rms(x, self.norm) @ self.words.weight.T


def carried_over(golden):
    own, of = Own(), golden.model
    with torch.no_grad():
        own.words.weight.copy_(of.embed_tokens.weight)
        own.norm.copy_(of.norm.weight)
        for layer, its in zip(own.layers, of.layers, strict=True):
            a = its.self_attn
            layer.norm1.copy_(its.input_layernorm.weight)
            layer.norm2.copy_(its.post_attention_layernorm.weight)
            layer.wq.weight.copy_(a.q_proj.weight)
            layer.wkv.weight.copy_(torch.cat((a.k_proj.weight, a.v_proj.weight)))
            layer.wo.weight.copy_(a.o_proj.weight)
            layer.w1.weight.copy_(its.mlp.gate_proj.weight)
            layer.w3.weight.copy_(its.mlp.up_proj.weight)
            layer.w2.weight.copy_(its.mlp.down_proj.weight)
    return own


@pair.prepare
def prepare():
    config = SmolLM3Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, initializer_range=0.2,
        no_rope_layers=[1, 0, 1], pad_token_id=0, bos_token_id=1, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    golden = SmolLM3ForCausalLM(config)
    unsettle(golden, "norm")
    own = carried_over(golden)
    batches = [torch.randint(3, WORDS, (ROWS, TOKENS)) for _ in range(STEPS)]

    def train(model, loss):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for ids in batches:
            optimizer.zero_grad()
            loss(ids).backward()
            optimizer.step()

    def original(ids):
        return golden(input_ids=ids, labels=ids, use_cache=False).loss

    def ported(ids):
        logits = own(ids).view(ROWS, TOKENS, WORDS)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return lambda: train(golden, original), lambda: train(own, ported)


pair.fault("all_turned", "mul", "sub", "add", "cat")
pair.fault("gelu", "gelu")
