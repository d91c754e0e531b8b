"""CvT of transformers for inference beside one's own: maps stay maps, its batch norms are in the depthwise kernels."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import CvtConfig, CvtForImageClassification  # before the forks: it takes seconds

WIDTHS, HEADS, DEPTHS, SIDE, CLASSES = (16, 24), (2, 3), (1, 2), 16, 5

pair = Pair("cvt")


def folded(convolution, norm):
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return convolution.weight * factor[:, None, None, None], norm.bias - norm.running_mean * factor


class Look(nn.Module):
    """A depthwise convolution and a product."""

    def __init__(self, width, stride):
        super().__init__()
        self.near = nn.Conv2d(width, width, 3, stride, 1, groups=width)
        self.all = nn.Linear(width, width)

    def forward(self, image, first):
        x = self.near(image).flatten(2).transpose(1, 2)
        if first is not None:
            x = torch.cat((x, first), 1) if bad("class_behind") else torch.cat((first, x), 1)  # bad("class_behind")
        return self.all(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.width = heads, width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = Look(width, 1), Look(width, 2), Look(width, 2)
        self.proj = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def attend(self, x, side, has_first):
        first, rest = (x[:, :1], x[:, 1:]) if has_first else (None, x)
        image = rest.unflatten(1, (side, side)).permute(0, 3, 1, 2)
        if bad("turned_map"):
            image = image.transpose(2, 3)  # bad("turned_map")
        q, k, v = (
            look(image, first).unflatten(-1, (self.heads, -1)).transpose(1, 2) for look in (self.q, self.k, self.v)
        )
        scale = (self.width // self.heads) ** -0.5 if bad("by_head") else self.width**-0.5
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)  # bad("by_head")
        return self.proj(y.transpose(1, 2).flatten(2))

    def forward(self, x, side, has_first):
        x = x + self.attend(self.norm1(x), side, has_first)
        y = self.up(self.norm2(x))
        y = y * torch.sigmoid(1.702 * y) if bad("quick") else F.gelu(y)  # bad("quick")
        return x + self.down(y)


class Cvt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.ModuleList((nn.Conv2d(3, WIDTHS[0], 3, 2, 1), nn.Conv2d(WIDTHS[0], WIDTHS[1], 3, 2, 1)))
        self.embed_norm = nn.ModuleList(nn.LayerNorm(width) for width in WIDTHS)
        self.stages = nn.ModuleList(
            nn.ModuleList(Block(width, heads) for _ in range(depth))
            for width, heads, depth in zip(WIDTHS, HEADS, DEPTHS, strict=True)
        )
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTHS[-1]))
        self.norm, self.head = nn.LayerNorm(WIDTHS[-1]), nn.Linear(WIDTHS[-1], CLASSES)

    @torch.no_grad()
    def forward(self, image):
        side = SIDE
        for i, blocks in enumerate(self.stages):
            side //= 2
            x = self.embed_norm[i](self.embed[i](image).flatten(2).transpose(1, 2))
            has_first = i == 1
            if has_first:
                x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), 1)
            for block in blocks:
                x = block(x, side, has_first)
            if not has_first:
                image = x.transpose(1, 2).unflatten(2, (side, side))
        x = x[:, 1:].mean(1) if bad("mean") else x[:, 0]  # bad("mean")
        return self.head(self.norm(x))


def carried_over(golden):
    own = Cvt()
    with torch.no_grad():
        for i, stage in enumerate(golden.cvt.encoder.stages):
            own.embed[i].load_state_dict(stage.embedding.convolution_embeddings.projection.state_dict())
            own.embed_norm[i].load_state_dict(stage.embedding.convolution_embeddings.normalization.state_dict())
            for block, layer in zip(own.stages[i], stage.layers, strict=True):
                carry_layer(block, layer)
        own.first.copy_(golden.cvt.encoder.stages[1].cls_token)
    own.norm.load_state_dict(golden.layernorm.state_dict())
    own.head.load_state_dict(golden.classifier.state_dict())
    return own.eval()


def carry_layer(block, layer):
    its = layer.attention.attention
    names = {"q": "query", "k": "key", "v": "value"}
    for name, full in names.items():
        look = getattr(block, name)
        near = getattr(its, f"convolution_projection_{full}").convolution_projection
        weight, bias = folded(near.convolution, near.normalization)
        look.near.weight.copy_(weight)
        look.near.bias.copy_(bias)
        source = "value" if bad("v_for_k") and name == "k" else full
        look.all.load_state_dict(getattr(its, f"projection_{source}").state_dict())  # bad("v_for_k")
    block.proj.load_state_dict(layer.attention.output.dense.state_dict())
    block.norm1.load_state_dict(layer.layernorm_before.state_dict())
    block.norm2.load_state_dict(layer.layernorm_after.state_dict())
    block.up.load_state_dict(layer.intermediate.dense.state_dict())
    block.down.load_state_dict(layer.output.dense.state_dict())


@pair.prepare
def prepare():
    config = CvtConfig(
        num_channels=3, patch_sizes=[3, 3], patch_stride=[2, 2], patch_padding=[1, 1], embed_dim=list(WIDTHS),
        num_heads=list(HEADS), depth=list(DEPTHS), mlp_ratio=[2.0, 2.0], attention_drop_rate=[0.0, 0.0],
        drop_rate=[0.0, 0.0], drop_path_rate=[0.0, 0.0], qkv_bias=[True, True], cls_token=[False, True],
        qkv_projection_method=["dw_bn", "dw_bn"], kernel_qkv=[3, 3], padding_kv=[1, 1], stride_kv=[2, 2],
        padding_q=[1, 1], stride_q=[1, 1], initializer_range=0.2, num_labels=CLASSES,
    )  # fmt: skip
    golden = CvtForImageClassification(config).eval()
    unsettle(golden, "norm", "bias", "cls_token")
    for module in golden.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
    own = carried_over(golden)
    images = torch.randn(2, 3, SIDE, SIDE)

    @torch.no_grad()
    def original():
        golden(images)

    return original, lambda: own(images)


pair.fault("class_behind", "cat")
pair.fault("turned_map", "transpose")
pair.fault("by_head", "scaled_dot_product_attention")
pair.fault("quick", "mul", "sigmoid")
pair.fault("mean", "mean", "slice")
pair.weight("v_for_k", "k.all")
