"""Flux of diffusers, two streams and then one, beside one's own as its authors wrote it: q, k, v and more joined."""

import math

import torch
import torch.nn.functional as F
from diffusers import FluxTransformer2DModel  # before the forks: it takes seconds
from planted import Pair, bad, unsettle
from torch import nn

CHANNELS, WIDTH, HEADS, TEXT, POOLED, AXES = 8, 32, 2, 20, 12, (4, 6, 6)
HIDDEN = WIDTH // HEADS
WORDS, SIDE = 5, 3

pair = Pair("flux")


def rope(ids):
    parts = []
    for i, dim in enumerate(AXES):
        base = 100.0 if bad("rope_base") else 10000.0
        omega = 1.0 / base ** (torch.arange(0, dim, 2) / dim)  # bad("rope_base")
        parts.append(ids[:, i, None] * omega)
    angles = torch.cat(parts, -1)
    return torch.stack((angles.cos(), -angles.sin(), angles.sin(), angles.cos()), -1).unflatten(-1, (2, 2))


def turned(x, pe):
    x = x.reshape(*x.shape[:-1], -1, 1, 2)
    return (pe[..., 0] * x[..., 0] + pe[..., 1] * x[..., 1]).flatten(3)


def attention(q, k, v, pe):
    y = F.scaled_dot_product_attention(turned(q, pe), turned(k, pe), v)
    return y.transpose(1, 2).flatten(2)


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        mean = (x**2).mean(-1, keepdim=True)
        if bad("mean_of_squares"):
            mean = x.abs().mean(-1, keepdim=True) ** 2  # bad("mean_of_squares")
        return x * torch.rsqrt(mean + 1e-6) * self.scale


class Modulation(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.lin, self.count = nn.Linear(WIDTH, count * WIDTH), count

    def forward(self, vec):
        return self.lin(F.silu(vec))[:, None, :].chunk(self.count, dim=-1)


def normed(x):
    return F.layer_norm(x, (x.shape[-1],), eps=1e-6)


class Stream(nn.Module):
    def __init__(self):
        super().__init__()
        self.mod = Modulation(6)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query_norm, self.key_norm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)
        approximate = "none" if bad("gelu") else "tanh"
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate), nn.Linear(4 * WIDTH, WIDTH))

    def open(self, x, vec):
        self.parts = self.mod(vec)
        shift, scale = self.parts[:2]
        q, k, v = self.qkv((1 + scale) * normed(x) + shift).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.query_norm(q), self.key_norm(k), v

    def close(self, x, y, gated=True):
        _, _, gate, shift, scale, last = self.parts
        x = x + gate * self.proj(y)
        y = self.mlp((1 + scale) * normed(x) + shift)  # bad("gelu")
        if not gated:
            return x + y  # bad("gate_left_out")
        return x + last * y


class DoubleBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.img, self.txt = Stream(), Stream()

    def forward(self, img, txt, vec, pe):
        both = zip(self.txt.open(txt, vec), self.img.open(img, vec), strict=True)
        y = attention(*(torch.cat(parts, 2) for parts in both), pe)
        txt_y, img_y = y[:, : txt.shape[1]], y[:, txt.shape[1] :]
        return self.img.close(img, img_y), self.txt.close(txt, txt_y, gated=not bad("gate_left_out"))


class SingleBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.modulation = Modulation(3)
        self.linear1, self.linear2 = nn.Linear(WIDTH, 7 * WIDTH), nn.Linear(5 * WIDTH, WIDTH)
        self.query_norm, self.key_norm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)

    def forward(self, x, vec, pe):
        shift, scale, gate = self.modulation(vec)
        qkv, mlp = self.linear1((1 + scale) * normed(x) + shift).split([3 * WIDTH, 4 * WIDTH], -1)
        q, k, v = qkv.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = attention(self.query_norm(q), self.key_norm(k), v, pe)
        return x + gate * self.linear2(torch.cat((y, F.gelu(mlp, approximate="tanh")), 2))


class Flux(nn.Module):
    def __init__(self):
        super().__init__()
        self.img_in, self.txt_in = nn.Linear(CHANNELS, WIDTH), nn.Linear(TEXT, WIDTH)
        self.time_in = nn.Sequential(nn.Linear(256, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.vector_in = nn.Sequential(nn.Linear(POOLED, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.double_blocks = nn.ModuleList([DoubleBlock()])
        self.single_blocks = nn.ModuleList([SingleBlock(), SingleBlock()])
        self.adaLN_modulation, self.final = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, CHANNELS)

    def timestep(self, t):
        angles = 1000.0 * t[:, None] * torch.exp(-math.log(10000.0) * torch.arange(128) / 128)
        if bad("sines_first"):
            return torch.cat((angles.sin(), angles.cos()), -1)  # bad("sines_first")
        return torch.cat((angles.cos(), angles.sin()), -1)

    @torch.no_grad()
    def forward(self, img, txt, t, pooled, ids):
        img, txt, pe = self.img_in(img), self.txt_in(txt), rope(ids)
        vec = self.time_in(self.timestep(t)) + self.vector_in(pooled)
        for block in self.double_blocks:
            img, txt = block(img, txt, vec, pe)
        x = torch.cat((txt, img), 1)
        for block in self.single_blocks:
            x = block(x, vec, pe)
        shift, scale = self.adaLN_modulation(F.silu(vec)).chunk(2, dim=1)  # bad("shift_for_scale")
        x = (1 + scale[:, None]) * normed(x[:, txt.shape[1] :]) + shift[:, None]  # bad("shift_for_scale")
        return self.final(x)


def put(linear, *parts):
    linear.weight.data.copy_(torch.cat([part.weight for part in parts]))
    linear.bias.data.copy_(torch.cat([part.bias for part in parts]))


def put_stream(stream, attention, modulation, network):
    for linear, parts in zip((stream.qkv, stream.proj), attention[:2], strict=True):
        put(linear, *parts)
    for norm, their in zip((stream.query_norm, stream.key_norm), attention[2], strict=True):
        norm.scale.data.copy_(their.weight)
    put(stream.mod.lin, modulation)
    put(stream.mlp[0], network.net[0].proj)
    put(stream.mlp[2], network.net[2])


@torch.no_grad()
def carried_over(golden):
    own = Flux()
    put(own.img_in, golden.x_embedder)
    put(own.txt_in, golden.context_embedder)
    for sequence, two in (
        (own.time_in, golden.time_text_embed.timestep_embedder),
        (own.vector_in, golden.time_text_embed.text_embedder),
    ):
        put(sequence[0], two.linear_1)
        put(sequence[2], two.linear_2)
    for block, layer in zip(own.double_blocks, golden.transformer_blocks, strict=True):
        a = layer.attn
        parts = ((a.to_q, a.to_k, a.to_v), (a.to_out[0],), (a.norm_q, a.norm_k))
        put_stream(block.img, parts, layer.norm1.linear, layer.ff)
        parts = (
            (a.add_q_proj, a.add_k_proj, a.add_v_proj), (a.to_add_out,), (a.norm_added_q, a.norm_added_k),
        )  # fmt: skip
        put_stream(block.txt, parts, layer.norm1_context.linear, layer.ff_context)
    for block, layer in zip(own.single_blocks, golden.single_transformer_blocks, strict=True):
        put(block.modulation.lin, layer.norm.linear)
        put(block.linear1, layer.attn.to_q, layer.attn.to_k, layer.attn.to_v, layer.proj_mlp)
        put(block.linear2, layer.proj_out)
        block.query_norm.scale.copy_(layer.attn.norm_q.weight)
        block.key_norm.scale.copy_(layer.attn.norm_k.weight)
    put(own.adaLN_modulation, golden.norm_out.linear)
    if not bad("shift_for_scale"):  # diffusers has the scale first
        for one in (own.adaLN_modulation.weight, own.adaLN_modulation.bias):
            one.copy_(torch.cat(one.chunk(2)[::-1]))
    put(own.final, golden.proj_out)
    return own


@pair.prepare
def prepare():
    golden = FluxTransformer2DModel(
        in_channels=CHANNELS, num_layers=1, num_single_layers=2, attention_head_dim=HIDDEN, num_attention_heads=HEADS,
        joint_attention_dim=TEXT, pooled_projection_dim=POOLED, axes_dims_rope=AXES,
    ).eval()  # fmt: skip
    unsettle(golden, "weight", "bias")
    own = carried_over(golden)
    place = torch.cartesian_prod(torch.zeros(1), torch.arange(SIDE).float(), torch.arange(SIDE).float())
    words = torch.zeros(WORDS, 3)
    ids = torch.cat((words, place))
    img, txt = torch.randn(2, SIDE * SIDE, CHANNELS), torch.randn(2, WORDS, TEXT)
    t, pooled = torch.tensor([0.7, 0.2]), torch.randn(2, POOLED)

    @torch.no_grad()
    def run():
        return golden(img, txt, pooled, t, place, words)

    return run, lambda: own(img, txt, t, pooled, ids)


pair.fault("rope_base", "pow")
pair.fault("mean_of_squares", "abs", "mean", "pow")
pair.fault("gelu", "gelu")
pair.fault("gate_left_out", "add")
pair.fault("sines_first", "cat")
pair.fault("shift_for_scale", "chunk", "add", "mul")
