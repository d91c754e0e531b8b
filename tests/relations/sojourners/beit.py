"""BEiT of transformers beside one's own in the style of timm: one weight for q, k and v, keys without a bias."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import BeitConfig, BeitModel  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, SIDE, PATCH = 24, 3, 48, 2, 12, 4
ACROSS = SIDE // PATCH
TABLE = (2 * ACROSS - 1) ** 2 + 3

pair = Pair("beit")


def relative_index():
    place = torch.stack(torch.meshgrid(torch.arange(ACROSS), torch.arange(ACROSS), indexing="ij")).flatten(1)
    away = place[:, :, None] - place[:, None, :] + ACROSS - 1
    index = torch.empty(ACROSS**2 + 1, ACROSS**2 + 1, dtype=torch.long)
    index[1:, 1:] = away[0] * (2 * ACROSS - 1) + away[1]
    index[0, :], index[:, 0] = TABLE - 3, TABLE - 2
    index[0, 0] = TABLE - 1
    return index


class Norm(nn.Module):
    def __init__(self, dim, eps=1e-12):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        variance = x.var(-1, keepdim=True, unbiased=bad("ddof"))  # bad("ddof")
        return (x - x.mean(-1, keepdim=True)) / (variance + self.eps).sqrt() * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.relative_position_bias_table = nn.Parameter(torch.zeros(TABLE, HEADS))
        self.register_buffer("relative_position_index", relative_index())
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        qkv = F.linear(x, self.qkv.weight, torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias)))
        q, k, v = qkv.reshape(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        q = q * (dim if bad("scale") else dim // HEADS) ** -0.5  # bad("scale")
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(tokens, tokens, -1)
        bias = bias.permute(2, 1, 0) if bad("bias_turned") else bias.permute(2, 0, 1)  # bad("bias_turned")
        attn = q @ k.transpose(-2, -1) + bias.unsqueeze(0)
        x = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, tokens, dim)
        return self.proj(x)


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        x = self.fc1(x)
        x = x * torch.sigmoid(1.702 * x) if bad("quick_gelu") else F.gelu(x)  # bad("quick_gelu")
        return self.fc2(x)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.norm2 = Norm(dim), Norm(dim)
        self.attn, self.mlp = Attention(dim), Mlp(dim, INNER)
        self.gamma_1, self.gamma_2 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        x = x + self.gamma_1 * self.attn(self.norm1(x))
        if bad("no_gamma"):
            return x + self.mlp(self.norm2(x))  # bad("no_gamma")
        return x + self.gamma_2 * self.mlp(self.norm2(x))


class Beit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.blocks = nn.ModuleList(Block(WIDTH) for _ in range(LAYERS))
        self.fc_norm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        for block in self.blocks:
            x = block(x)
        return self.fc_norm(x.mean(1) if bad("class_pooled") else x[:, 1:].mean(1))  # bad("class_pooled")


def carried_over(golden):
    own = Beit()
    with torch.no_grad():
        own.patch_embed.load_state_dict(golden.embeddings.patch_embeddings.projection.state_dict())
        own.cls_token.copy_(golden.embeddings.cls_token)
        for block, layer in zip(own.blocks, golden.layers, strict=True):
            theirs = layer.attention
            block.attn.qkv.weight.copy_(torch.cat([theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight]))
            block.attn.q_bias.copy_(theirs.q_proj.bias)
            block.attn.v_bias.copy_(theirs.v_proj.bias)
            block.attn.relative_position_bias_table.copy_(layer.relative_position_bias.relative_position_bias_table)
            block.attn.proj.load_state_dict(theirs.o_proj.state_dict())
            block.norm1.load_state_dict(layer.layernorm_before.state_dict())
            block.norm2.load_state_dict(layer.layernorm_after.state_dict())
            block.mlp.load_state_dict(layer.mlp.state_dict())
            block.gamma_1.copy_(layer.lambda_1)
            block.gamma_2.copy_(layer.lambda_2)
        own.fc_norm.load_state_dict(golden.pooler.layernorm.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = BeitConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        image_size=SIDE, patch_size=PATCH, use_relative_position_bias=True, layer_scale_init_value=0.5,
        use_mean_pooling=True, use_mask_token=False, initializer_range=0.2, attn_implementation="eager",
    )  # fmt: skip
    golden = BeitModel(config).eval()
    unsettle(golden, "norm", "bias", "lambda", "cls_token", "table")
    own, images = carried_over(golden), torch.randn(2, 3, SIDE, SIDE)

    def run(model):
        with torch.no_grad():
            return model(images)

    return lambda: run(golden), lambda: run(own)


pair.fault("ddof", "var")
pair.fault("scale", "mul")
pair.fault("bias_turned", "permute")
pair.fault("quick_gelu", "mul", "sigmoid")
pair.fault("no_gamma", "add")
pair.fault("class_pooled", "mean")
