"""GLM of transformers beside one's own for inference: q, k and v as one, pairs turned by complex numbers."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import GlmConfig, GlmForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, INNER, LAYERS, WORDS, TOKENS = 32, 4, 2, 48, 2, 47, 7
HEAD = WIDTH // HEADS
TURNED = HEAD // 2

pair = Pair("glm")


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True) / WIDTH**0.5
        return self.gain * x / scale.clamp(min=1e-6)


def turns(length):
    speeds = 1.0 / 10000.0 ** (torch.arange(0, TURNED, 2).float() / TURNED)
    places = torch.arange(length).float()
    if bad("interpolated"):
        places = places / 2  # bad("interpolated")
    angles = torch.outer(places, speeds)
    return torch.polar(torch.ones_like(angles), angles)


def turn(x, by):
    pairs = torch.view_as_complex(x[..., :TURNED].float().unflatten(-1, (-1, 2)))
    if bad("conjugate"):
        by = by.conj()  # bad("conjugate")
    turned = torch.view_as_real(pairs * by[:, None]).flatten(-2)  # bad("conjugate")
    return torch.cat((turned, x[..., TURNED:]), -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_in, self.norm_mlp = Norm(), Norm()
        self.wqkv = nn.Linear(WIDTH, (HEADS + 2 * SHARED) * HEAD)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def attend(self, x, by):
        q, k, v = self.wqkv(x).unflatten(-1, (-1, HEAD)).split((HEADS, SHARED, SHARED), 2)
        q, k = turn(q, by), turn(k, by)
        k, v = k.repeat_interleave(HEADS // SHARED, 2), v.repeat_interleave(HEADS // SHARED, 2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / HEAD**0.5
        past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        if not bad("not_masked"):
            scores = scores.masked_fill(~past, float("-inf"))
        weights = scores.softmax(-1)  # bad("not_masked")
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))

    def forward(self, x, by):
        x = x + self.attend(self.norm_in(x), by)
        gate, up = self.gate_up(self.norm_mlp(x)).chunk(2, -1)
        if bad("gate_of_up"):
            gate, up = up, gate
        y = self.down(F.silu(gate) * up)  # bad("gate_of_up")
        if bad("not_added"):
            return y + self.norm_mlp(x)  # bad("not_added")
        return x + y


class Glm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, WORDS, bias=False)

    @torch.no_grad()
    def forward(self, ids):
        x, by = self.words(ids), turns(ids.shape[1])
        for layer in self.layers:
            x = layer(x, by)
        return self.head(self.norm(x))


def carried_over(golden):
    own = Glm()
    with torch.no_grad():
        own.words.weight.copy_(golden.model.embed_tokens.weight)
        own.head.weight.copy_(golden.lm_head.weight)
        own.norm.gain.copy_(golden.model.norm.weight)
        for i, (layer, its) in enumerate(zip(own.layers, golden.model.layers, strict=True)):
            parts = (its.self_attn.q_proj, its.self_attn.k_proj, its.self_attn.v_proj)
            layer.wqkv.weight.copy_(torch.cat([part.weight for part in parts]))
            if i == 0 or not bad("bias_left"):
                layer.wqkv.bias.copy_(torch.cat([part.bias for part in parts]))  # bad("bias_left")
            layer.wo.weight.copy_(its.self_attn.o_proj.weight)
            layer.norm_in.gain.copy_(its.input_layernorm.weight)
            layer.norm_mlp.gain.copy_(its.post_attention_layernorm.weight)
            layer.gate_up.load_state_dict(its.mlp.gate_up_proj.state_dict())
            layer.down.load_state_dict(its.mlp.down_proj.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = GlmConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, head_dim=HEAD,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, max_position_embeddings=32, initializer_range=0.2,
        attention_bias=True, rms_norm_eps=1e-12, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": TURNED / HEAD},
    )  # fmt: skip
    golden = GlmForCausalLM(config).eval()
    unsettle(golden, "norm", "bias")
    own = carried_over(golden)
    ids = torch.randint(3, WORDS, (2, TOKENS))

    @torch.no_grad()
    def original():
        golden(ids)

    return original, lambda: own(ids)


pair.fault("interpolated", "div")
pair.fault("conjugate", "conj", "mul", "_conj", "conj_physical", "resolve_conj")
pair.fault("not_masked", "softmax")
pair.fault("gate_of_up", "silu", "mul")
pair.fault("not_added", "add")
pair.weight("bias_left", "layers.1.wqkv.bias")
