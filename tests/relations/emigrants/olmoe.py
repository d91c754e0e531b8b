"""OLMoE of transformers beside one's own: experts by one product, complex rotations, norms of torch."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import OlmoeConfig, OlmoeForCausalLM  # before the forks: it takes seconds

WIDTH, HEADS, SHARED, INNER, EXPERTS, CHOSEN, LAYERS, WORDS, TOKENS = 32, 4, 2, 24, 5, 2, 2, 53, 7
HEAD = WIDTH // HEADS
EPS = 1e-5

pair = Pair("olmoe")


def paired(weight, heads):
    """Rows of each head so that the two that turn together are neighbours."""
    return weight.unflatten(0, (heads, 2, HEAD // 2)).transpose(1, 2).flatten(0, 2)


def turned(x, by):
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * by[:, None]).flatten(-2)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.gate, self.up = (nn.Parameter(torch.zeros(EXPERTS, WIDTH, INNER)) for _ in range(2))
        self.down = nn.Parameter(torch.zeros(EXPERTS, INNER, WIDTH))

    def forward(self, x):
        chances = self.router(x).softmax(-1)
        best, who = chances.topk(CHOSEN, -1)
        if bad("renormalised"):
            best = best / best.sum(-1, keepdim=True)  # bad("renormalised")
        share = torch.zeros_like(chances).scatter(-1, who, best)
        gate = torch.einsum("btd,edf->btef", x, self.gate)
        up = torch.einsum("btd,edf->btef", x, self.up)
        each = torch.einsum("btef,efd->bted", F.silu(gate) * up, self.down)
        return torch.einsum("bte,bted->btd", share, each)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between, self.q_gain = (nn.Parameter(torch.ones(WIDTH)) for _ in range(3))
        self.k_gain = nn.Parameter(torch.ones(SHARED * HEAD))
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, SHARED * HEAD, bias=False) for _ in range(2))
        self.experts = Experts()

    def attend(self, x, by):
        q, k = self.q(x), self.k(x)
        if bad("norm_of_heads"):
            gain = self.q_gain.unflatten(0, (HEADS, HEAD))
            q = F.rms_norm(q.unflatten(-1, (HEADS, HEAD)), (HEAD,), None, EPS) * gain  # bad("norm_of_heads")
        else:
            q = F.rms_norm(q, (WIDTH,), self.q_gain, EPS).unflatten(-1, (HEADS, HEAD))
        k = F.rms_norm(k, (SHARED * HEAD,), self.k_gain, EPS).unflatten(-1, (SHARED, HEAD))
        v = self.v(x).unflatten(-1, (SHARED, HEAD))
        q, k = turned(q, by), turned(k, by)
        if bad("tiled"):
            k = k.repeat(1, 1, HEADS // SHARED, 1)  # bad("tiled")
            v = v.repeat(1, 1, HEADS // SHARED, 1)  # bad("tiled")
        else:
            k, v = (part.repeat_interleave(HEADS // SHARED, 2) for part in (k, v))
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))

    def forward(self, x, by):
        x = x + self.attend(F.rms_norm(x, (WIDTH,), self.before, EPS), by)
        return x + self.experts(F.rms_norm(x, (WIDTH,), self.between, EPS))


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.Parameter(torch.ones(WIDTH))

    @torch.no_grad()
    def forward(self, ids):
        speeds = 1.0 / 10000.0 ** (torch.arange(0, HEAD, 2).float() / HEAD)
        places = torch.arange(ids.shape[1]).float()
        if bad("from_one"):
            places = torch.arange(1, ids.shape[1] + 1).float()
        angles = torch.outer(places, speeds)
        by = torch.polar(torch.ones_like(angles), angles)
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, by)
        return self.head(F.rms_norm(x, (WIDTH,), self.last, EPS))


def carried_over(golden):
    own, of = Own(), golden.model
    with torch.no_grad():
        own.words.weight.copy_(of.embed_tokens.weight)
        own.head.weight.copy_(golden.lm_head.weight)
        own.last.copy_(of.norm.weight)
        for layer, its in zip(own.layers, of.layers, strict=True):
            a, mlp = its.self_attn, its.mlp
            layer.before.copy_(its.input_layernorm.weight)
            layer.between.copy_(its.post_attention_layernorm.weight)
            layer.q.weight.copy_(paired(a.q_proj.weight, HEADS))
            layer.q_gain.copy_(paired(a.q_norm.weight, HEADS))
            layer.k.weight.copy_(paired(a.k_proj.weight, SHARED))
            layer.k_gain.copy_(
                a.k_norm.weight if bad("gain_not_paired") else paired(a.k_norm.weight, SHARED)
            )  # bad("gain_not_paired")
            layer.v.weight.copy_(a.v_proj.weight)
            layer.o.weight.copy_(a.o_proj.weight)
            layer.experts.router.weight.copy_(mlp.gate.weight)
            gate, up = mlp.experts.gate_up_proj.chunk(2, 1)
            layer.experts.gate.copy_(gate.mT)
            layer.experts.up.copy_(up.mT)
            layer.experts.down.copy_(mlp.experts.down_proj.mT)
    return own.eval()


@pair.prepare
def prepare():
    config = OlmoeConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, num_experts=EXPERTS, num_experts_per_tok=CHOSEN,
        norm_topk_prob=False, max_position_embeddings=32, initializer_range=0.2, rms_norm_eps=EPS, pad_token_id=0,
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    golden = OlmoeForCausalLM(config).eval()
    unsettle(golden, "norm")
    own = carried_over(golden)
    ids = torch.randint(3, WORDS, (2, TOKENS))

    @torch.no_grad()
    def original():
        golden(ids)

    return original, lambda: own(ids)


pair.fault("renormalised", "div")
pair.fault("norm_of_heads", "rms_norm", "mul")
pair.fault("tiled", "repeat")
pair.weight("gain_not_paired", "k_gain")
