"""SigLIP's image tower of transformers beside one's own: patches by a product, explicit attention, one probe."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import SiglipVisionConfig, SiglipVisionModel  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, SIDE, PATCH = 24, 3, 40, 2, 12, 4
PATCHES = (SIDE // PATCH) ** 2

pair = Pair("siglip")


def split_heads(x):
    return x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)


def attention(q, k, v):
    weights = torch.softmax(split_heads(q) @ split_heads(k).mT * (WIDTH // HEADS) ** -0.5, -1)
    y = weights @ split_heads(v)
    return y.transpose(1, 2).flatten(2)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        x = self.up(x)
        x = F.gelu(x) if bad("exact_gelu") else F.gelu(x, approximate="tanh")  # bad("exact_gelu")
        return self.down(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mlp = MLP()

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.to_out(attention(self.to_q(y), self.to_k(y), self.to_v(y)))
        return x + self.mlp(self.ln_2(x))


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.latent = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.q, self.kv, self.proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.mlp = nn.LayerNorm(WIDTH, eps=1e-6), MLP()

    def forward(self, x):
        k, v = self.kv(x).chunk(2, -1)
        if bad("pool_scaled_twice"):
            k = k * (WIDTH // HEADS) ** -0.5  # bad("pool_scaled_twice")
        x = self.proj(attention(self.q(self.latent.expand(x.shape[0], -1, -1)), k, v))
        y = self.norm(x)
        return ((y if bad("normed_residual") else x) + self.mlp(y))[:, 0]  # bad("normed_residual")


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Linear(3 * PATCH * PATCH, WIDTH)
        self.pos = nn.Parameter(torch.zeros(PATCHES, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.post = nn.LayerNorm(WIDTH, eps=1e-6)
        self.pool = Pool()

    def cut(self, images):
        x = images.reshape(images.shape[0], 3, SIDE // PATCH, PATCH, SIDE // PATCH, PATCH)
        order = (0, 2, 4, 1, 5, 3) if bad("pixels_turned") else (0, 2, 4, 1, 3, 5)
        return x.permute(order).reshape(x.shape[0], PATCHES, -1)  # bad("pixels_turned")

    @torch.no_grad()
    def forward(self, images):
        x = self.patch(self.cut(images))
        pos = self.pos.flip(0) if bad("places_flipped") else self.pos  # bad("places_flipped")
        x = x + pos  # bad("places_flipped")
        for block in self.blocks:
            x = block(x)
        return self.pool(self.post(x))


def carried_over(golden):
    own = Tower()
    of = getattr(golden, "vision_model", golden)
    with torch.no_grad():
        own.patch.weight.copy_(of.embeddings.patch_embedding.weight.flatten(1))
        own.patch.bias.copy_(of.embeddings.patch_embedding.bias)
        own.pos.copy_(of.embeddings.position_embedding.weight)
        for block, layer in zip(own.blocks, of.encoder.layers, strict=True):
            attn = layer.self_attn
            names = ("v_proj", "k_proj", "q_proj") if bad("q_for_v") else ("q_proj", "k_proj", "v_proj")
            block.to_q.load_state_dict(getattr(attn, names[0]).state_dict())  # bad("q_for_v")
            block.to_k.load_state_dict(getattr(attn, names[1]).state_dict())
            block.to_v.load_state_dict(getattr(attn, names[2]).state_dict())
            block.to_out.load_state_dict(attn.out_proj.state_dict())
            block.ln_1.load_state_dict(layer.layer_norm1.state_dict())
            block.ln_2.load_state_dict(layer.layer_norm2.state_dict())
            carry_mlp(block.mlp, layer.mlp)
        own.post.load_state_dict(of.post_layernorm.state_dict())
        head = of.head
        own.pool.latent.copy_(head.probe)
        own.pool.q.weight.copy_(head.attention.in_proj_weight[:WIDTH])
        own.pool.q.bias.copy_(head.attention.in_proj_bias[:WIDTH])
        own.pool.kv.weight.copy_(head.attention.in_proj_weight[WIDTH:])
        own.pool.kv.bias.copy_(head.attention.in_proj_bias[WIDTH:])
        own.pool.proj.load_state_dict(head.attention.out_proj.state_dict())
        own.pool.norm.load_state_dict(head.layernorm.state_dict())
        carry_mlp(own.pool.mlp, head.mlp)
    return own.eval()


def carry_mlp(own, of):
    own.up.load_state_dict(of.fc1.state_dict())
    own.down.load_state_dict(of.fc2.state_dict())


@pair.prepare
def prepare():
    config = SiglipVisionConfig(
        hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        image_size=SIDE, patch_size=PATCH,
    )  # fmt: skip
    golden = SiglipVisionModel(config).eval()
    for weight in golden.parameters():
        weight.data.add_(0.15 * torch.randn_like(weight))
    unsettle(golden, "norm", "bias", "probe")
    own = carried_over(golden)
    images = torch.randn(3, 3, SIDE, SIDE)

    @torch.no_grad()
    def run():
        return golden(images)

    return run, lambda: own(images)


pair.fault("exact_gelu", "gelu")
pair.fault("normed_residual", "add")
pair.fault("pixels_turned", "permute", "reshape")
pair.fault("places_flipped", "flip", "add")
pair.fault("pool_scaled_twice", "mul")
pair.weight("q_for_v", "to_")
