"""DeiT of transformers in training beside one's own in the style of timm: one product for q, k and v, two tokens."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import DeiTConfig, DeiTForImageClassification  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, SIDE, PATCH, LABELS, STEPS = 24, 3, 40, 2, 12, 4, 5, 2

pair = Pair("deit")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scale = (WIDTH if bad("scale") else WIDTH // HEADS) ** -0.5
        weights = (q * scale @ k.transpose(-2, -1)).softmax(-1)  # bad("scale")
        y = weights @ v
        return self.proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6), nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = Attention()
        self.fc1, self.fc2 = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        y = self.fc1(x if bad("no_norm") else self.norm2(x))  # bad("no_norm")
        return x + self.fc2(F.gelu(y))


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.cls_token, self.dist_token = (nn.Parameter(torch.zeros(1, 1, WIDTH)) for _ in range(2))
        self.pos_embed = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2 + 2, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-3 if bad("epsilon") else 1e-6)
        self.head = nn.Linear(WIDTH, LABELS)

    def forward(self, images):
        x = self.patch_embed(images)
        x = x.transpose(2, 3).flatten(2) if bad("patches_turned") else x.flatten(2)  # bad("patches_turned")
        tokens = (self.cls_token, self.dist_token)
        x = torch.cat([token.expand(images.shape[0], -1, -1) for token in tokens] + [x.transpose(1, 2)], 1)
        x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)  # bad("epsilon")
        return self.head(x[:, 2:].mean(1) if bad("mean_of_patches") else x[:, 0])  # bad("mean_of_patches")


def carried_over(golden):
    own = VisionTransformer()
    of = golden.deit
    with torch.no_grad():
        own.cls_token.copy_(of.embeddings.cls_token)
        own.dist_token.copy_(of.embeddings.distillation_token)
        own.pos_embed.copy_(of.embeddings.position_embeddings)
        own.patch_embed.load_state_dict(of.embeddings.patch_embeddings.projection.state_dict())
        for block, layer in zip(own.blocks, layers_of(of), strict=True):
            parts = (layer.attention.q_proj, layer.attention.k_proj, layer.attention.v_proj)
            block.attn.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            if not bad("bias_forgotten"):
                block.attn.qkv.bias.copy_(torch.cat([part.bias for part in parts]))  # bad("bias_forgotten")
            block.attn.proj.load_state_dict(layer.attention.o_proj.state_dict())
            block.norm1.load_state_dict(layer.layernorm_before.state_dict())
            block.norm2.load_state_dict(layer.layernorm_after.state_dict())
            block.fc1.load_state_dict(layer.mlp.fc1.state_dict())
            block.fc2.load_state_dict(layer.mlp.fc2.state_dict())
    own.norm.load_state_dict(of.layernorm.state_dict())
    own.head.load_state_dict(golden.classifier.state_dict())
    return own


def layers_of(of):
    return [module for module in of.modules() if type(module).__name__ == "DeiTLayer"]


@pair.prepare
def prepare():
    config = DeiTConfig(
        hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        image_size=SIDE, patch_size=PATCH, num_labels=LABELS, layer_norm_eps=1e-6, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, initializer_range=0.2,
    )  # fmt: skip
    golden = DeiTForImageClassification(config)
    unsettle(golden, "norm", "bias", "token", "position")
    own = carried_over(golden)
    batches = [(torch.randn(4, 3, SIDE, SIDE), torch.randint(0, LABELS, (4,))) for _ in range(STEPS)]

    def train(model, logits_of):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for images, labels in batches:
            optimizer.zero_grad()
            F.cross_entropy(logits_of(model(images)), labels).backward()
            optimizer.step()

    return lambda: train(golden, lambda out: out.logits), lambda: train(own, lambda out: out)


pair.fault("scale", "mul")
pair.fault("no_norm", "linear")
pair.fault("epsilon", "layer_norm")
pair.fault("patches_turned", "transpose", "flatten", "reshape")
pair.fault("mean_of_patches", "slice", "mean")
pair.weight("bias_forgotten", "qkv.bias")
