"""OLMo 2 of transformers in training: norms behind each part, of queries and keys, beside one's own."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import Olmo2Config, Olmo2ForCausalLM  # before the forks: it takes seconds

HIDDEN, HEADS, SHARED, INNER, LAYERS, WORDS, TOKENS, STEPS = 32, 4, 2, 48, 2, 60, 7, 2
HEAD = HIDDEN // HEADS

pair = Pair("olmo")


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        epsilon = 1e-2 if bad("epsilon") else 1e-5
        return self.scale * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon))  # bad("epsilon")


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.wkv = nn.Linear(HIDDEN, 2 * SHARED * HEAD, bias=False)
        self.wo = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.q_norm, self.k_norm = Norm(HIDDEN), Norm(SHARED * HEAD)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = self.q_norm(self.wq(x))
        k, v = self.wkv(x).chunk(2, -1)
        if not bad("keys_not_normed"):
            k = self.k_norm(k)
        q = q.view(batch, length, HEADS, HEAD).transpose(1, 2)
        k = k.view(batch, length, SHARED, HEAD).transpose(1, 2)  # bad("keys_not_normed")
        v = v.view(batch, length, SHARED, HEAD).transpose(1, 2)
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if bad("heads_in_turn"):
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)  # bad("heads_in_turn")
        else:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.w1, self.w3 = nn.Linear(HIDDEN, INNER, bias=False), nn.Linear(HIDDEN, INNER, bias=False)
        self.w2 = nn.Linear(INNER, HIDDEN, bias=False)
        self.attention_norm, self.ffn_norm = Norm(HIDDEN), Norm(HIDDEN)

    def forward(self, x, cos, sin):
        x = x + self.attention_norm(self.attention(x, cos, sin))
        y = self.w2(F.silu(self.w1(x)) * self.w3(x))
        if bad("norm_of_sum"):
            return self.ffn_norm(x + y)  # bad("norm_of_sum")
        return x + self.ffn_norm(y)


class Olmo(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm(HIDDEN)
        self.output = nn.Linear(HIDDEN, WORDS, bias=False)
        rates = 1.0 / 10000.0 ** (torch.arange(0, HEAD, 2).float() / HEAD)
        angles = torch.outer(torch.arange(16).float(), rates)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids):
        length = ids.shape[1]
        start = 1 if bad("positions") else 0
        cos = self.cos[start : length + start]  # bad("positions")
        sin = self.sin[:length]
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.output(self.norm(x))


def carried_over(golden):
    own = Olmo()
    with torch.no_grad():
        own.tok_embeddings.weight.copy_(golden.model.embed_tokens.weight)
        own.norm.scale.copy_(golden.model.norm.weight)
        own.output.weight.copy_(golden.lm_head.weight)
        for block, layer in zip(own.layers, golden.model.layers, strict=True):
            of = layer.self_attn
            block.attention.wq.weight.copy_(of.q_proj.weight)
            block.attention.wkv.weight.copy_(torch.cat((of.k_proj.weight, of.v_proj.weight)))
            block.attention.wo.weight.copy_(of.o_proj.weight)
            block.attention.q_norm.scale.copy_(of.q_norm.weight)
            block.attention.k_norm.scale.copy_(of.k_norm.weight)
            gate, up = layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight
            if bad("exchanged"):
                gate, up = up, gate  # bad("exchanged")
            block.w1.weight.copy_(gate)
            block.w3.weight.copy_(up)
            block.w2.weight.copy_(layer.mlp.down_proj.weight)
            block.attention_norm.scale.copy_(layer.post_attention_layernorm.weight)
            block.ffn_norm.scale.copy_(layer.post_feedforward_layernorm.weight)
    return own


@pair.prepare
def prepare():
    config = Olmo2Config(
        vocab_size=WORDS, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, rms_norm_eps=1e-5,
        initializer_range=0.15, pad_token_id=None,
    )  # fmt: skip
    golden = Olmo2ForCausalLM(config)
    unsettle(golden, "norm")
    own = carried_over(golden)
    batches = [torch.randint(0, WORDS, (2, TOKENS)) for _ in range(STEPS)]

    def loss_of(logits, ids):
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    def train(model, loss):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for ids in batches:
            optimizer.zero_grad()
            loss(ids).backward()
            optimizer.step()

    return (
        lambda: train(golden, lambda ids: golden(input_ids=ids, labels=ids, use_cache=False).loss),
        lambda: train(own, lambda ids: loss_of(own(ids), ids)),
    )


pair.fault("epsilon", "add")
pair.fault("keys_not_normed", "view", "transpose")
pair.fault("heads_in_turn", "repeat")
pair.fault("norm_of_sum", "add")
pair.fault("positions", "slice")
pair.weight("exchanged", "w1")
