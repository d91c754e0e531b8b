"""StableLM of transformers in training beside one's own: one table of norms for all heads, k and v together."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import StableLmConfig, StableLmForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, INNER, LAYERS, WORDS, TOKENS, STEPS = 32, 4, 2, 48, 2, 43, 6, 2
HEAD = WIDTH // HEADS
TURNED = HEAD // 2

pair = Pair("stablelm")


class HeadNorm(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(heads, 1, HEAD))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, unbiased=bad("ddof"), keepdim=True)  # bad("ddof")
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.gain


def turn(x):
    base = 100.0 if bad("rope_base") else 10000.0
    speeds = base ** (-torch.arange(0, TURNED, 2).float() / TURNED)  # bad("rope_base")
    angles = torch.arange(x.shape[2]).float()[:, None] * speeds
    cos, sin = torch.cos(angles), torch.sin(angles)
    low, high, rest = x.split((TURNED // 2, TURNED // 2, HEAD - TURNED), -1)  # bad("keys_not_normed")
    if bad("turned_back"):
        sin = -sin  # bad("turned_back")
    return torch.cat((low * cos - high * sin, low * sin + high * cos, rest), -1)  # bad("keys_not_normed")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)
        self.kv = nn.Linear(WIDTH, 2 * SHARED * HEAD)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.q_norm, self.k_norm = HeadNorm(HEADS), HeadNorm(SHARED)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, HEADS, HEAD).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, SHARED, HEAD).permute(2, 0, 3, 1, 4)
        q = self.q_norm(q)
        k = k if bad("keys_not_normed") else self.k_norm(k)
        q, k = turn(q), turn(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_attn, self.ln_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.gate_up, self.down = nn.Linear(WIDTH, 2 * INNER, bias=False), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attn(self.ln_attn(x))
        gate, up = self.gate_up(self.ln_mlp(x)).split(INNER, -1)
        return x + self.down(F.silu(gate) * up)


class StableLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


def carried_over(golden):
    own = StableLM()
    with torch.no_grad():
        own.wte.weight.copy_(golden.model.embed_tokens.weight)
        own.head.weight.copy_(golden.lm_head.weight)
        own.ln_f.load_state_dict(golden.model.norm.state_dict())
        for block, of in zip(own.h, golden.model.layers, strict=True):
            its = of.self_attn
            block.attn.q.load_state_dict(its.q_proj.state_dict())
            pair_of = (its.v_proj, its.k_proj) if bad("values_first") else (its.k_proj, its.v_proj)
            block.attn.kv.weight.copy_(torch.cat([part.weight for part in pair_of]))  # bad("values_first")
            block.attn.kv.bias.copy_(torch.cat([part.bias for part in pair_of]))
            block.attn.o.weight.copy_(its.o_proj.weight)
            for norm, theirs in ((block.attn.q_norm, its.q_layernorm), (block.attn.k_norm, its.k_layernorm)):
                norm.gain.copy_(torch.stack([one.weight for one in theirs.norms])[:, None])
            block.ln_attn.load_state_dict(of.input_layernorm.state_dict())
            block.ln_mlp.load_state_dict(of.post_attention_layernorm.state_dict())
            block.gate_up.weight.copy_(torch.cat((of.mlp.gate_proj.weight, of.mlp.up_proj.weight)))
            block.down.weight.copy_(of.mlp.down_proj.weight)
    return own


@pair.prepare
def prepare():
    config = StableLmConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, initializer_range=0.2,
        use_qkv_bias=True, qk_layernorm=True, hidden_dropout=0.0, attention_dropout=0.0, bos_token_id=1, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": TURNED / HEAD},
    )  # fmt: skip
    golden = StableLmForCausalLM(config)
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    batches = [torch.randint(0, WORDS, (2, TOKENS)) for _ in range(STEPS)]

    def own_loss(ids):
        logits = own(ids)
        if bad("not_shifted"):
            return F.cross_entropy(logits.flatten(0, 1), ids.flatten())  # bad("not_shifted")
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    def train(model, loss):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for ids in batches:
            optimizer.zero_grad()
            loss(ids).backward()
            optimizer.step()

    return lambda: train(golden, lambda ids: golden(ids, labels=ids).loss), lambda: train(own, own_loss)


pair.fault("ddof", "var")
pair.fault("rope_base", "pow")
pair.fault("turned_back", "neg")
pair.fault("keys_not_normed", "mul", "split_with_sizes")
pair.fault("not_shifted", "cross_entropy_loss", "flatten")
pair.weight("values_first", "kv.weight")
