"""A MobileViT layer of transformers beside one's own that keeps channels last: patches by one view, attention fused."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import MobileViTConfig
from transformers.models.mobilevit.modeling_mobilevit import MobileViTLayer  # before the forks: it takes seconds

CHANNELS, WIDTH, HEADS, STAGES, SIDE, PATCH = 8, 24, 3, 2, 8, 2
ROWS = SIDE // PATCH

pair = Pair("mobilevit")


class ConvBN(nn.Module):
    """Reads and gives (N, H, W, C)."""

    def __init__(self, channels, wide, size):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(channels, wide, size, padding=size // 2, bias=False), nn.BatchNorm2d(wide)

    def forward(self, x):
        x = self.bn(self.conv(x.permute(0, 3, 1, 2)))
        x = F.relu(x) if bad("relu") else F.silu(x)  # bad("relu")
        return x.permute(0, 2, 3, 1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        qkv = self.qkv(self.n1(x)).reshape(rows, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scale = WIDTH**-0.5 if bad("scale") else None
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)  # bad("scale")
        x = x + self.out(y.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.fc2(F.silu(self.fc1(self.n2(x))))


class MobileViTBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = ConvBN(CHANNELS, CHANNELS, 3)
        self.expand = nn.Linear(CHANNELS, WIDTH, bias=False)
        self.layers = nn.ModuleList(Layer() for _ in range(STAGES))
        self.norm = nn.LayerNorm(WIDTH)
        self.shrink = ConvBN(WIDTH, CHANNELS, 1)
        self.fuse = ConvBN(2 * CHANNELS, CHANNELS, 3)

    @torch.no_grad()
    def forward(self, images):
        x = images.permute(0, 2, 3, 1)
        batch = x.shape[0]
        y = self.expand(self.local(x))
        y = y.reshape(batch, ROWS, PATCH, ROWS, PATCH, WIDTH)
        order = (0, 2, 4, 3, 1, 5) if bad("columns_first") else (0, 2, 4, 1, 3, 5)
        y = y.permute(order).reshape(batch * PATCH * PATCH, ROWS * ROWS, WIDTH)  # bad("columns_first")
        for layer in self.layers:
            y = layer(y)
        y = self.norm(y).reshape(batch, PATCH, PATCH, ROWS, ROWS, WIDTH)
        order = (0, 3, 2, 4, 1, 5) if bad("pixels_exchanged") else (0, 3, 1, 4, 2, 5)
        y = y.permute(order).reshape(batch, SIDE, SIDE, WIDTH)  # bad("pixels_exchanged") bad("columns_first")
        if bad("columns_first"):
            y = y.transpose(1, 2)
        y = self.shrink(y)
        parts = (y, x) if bad("residual_last") else (x, y)
        return self.fuse(torch.cat(parts, -1))  # bad("residual_last")


def carry_conv(own, of):
    own.conv.load_state_dict(of.convolution.state_dict())
    state = of.normalization.state_dict()
    if bad("running_var") and own.conv.kernel_size == (1, 1):
        state["running_var"] = torch.ones_like(state["running_var"])  # bad("running_var")
    own.bn.load_state_dict(state)


def carried_over(golden):
    own = MobileViTBlock()
    with torch.no_grad():
        carry_conv(own.local, golden.conv_kxk)
        carry_conv(own.shrink, golden.conv_projection)
        carry_conv(own.fuse, golden.fusion)
        own.expand.weight.copy_(golden.conv_1x1.convolution.weight.flatten(1))
        for layer, of in zip(own.layers, golden.transformer.layer, strict=True):
            its = of.attention.attention
            parts = (its.query, its.key, its.value)
            layer.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
            layer.qkv.bias.copy_(torch.cat([part.bias for part in parts]))
            layer.out.load_state_dict(of.attention.output.dense.state_dict())
            layer.n1.load_state_dict(of.layernorm_before.state_dict())
            layer.n2.load_state_dict(of.layernorm_after.state_dict())
            layer.fc1.load_state_dict(of.intermediate.dense.state_dict())
            layer.fc2.load_state_dict(of.output.dense.state_dict())
        own.norm.load_state_dict(golden.layernorm.state_dict())
    return own.eval()


@pair.prepare
def prepare():
    config = MobileViTConfig(num_attention_heads=HEADS, patch_size=PATCH, mlp_ratio=2.0, hidden_act="silu")
    golden = MobileViTLayer(
        config, in_channels=CHANNELS, out_channels=CHANNELS, stride=1, hidden_size=WIDTH, num_stages=STAGES
    ).eval()
    unsettle(golden, "norm", "bias")
    for name, buffer in golden.named_buffers():
        if "running" in name:
            buffer.add_(0.3 * torch.rand_like(buffer))
    own = carried_over(golden)
    images = torch.randn(2, CHANNELS, SIDE, SIDE)

    @torch.no_grad()
    def run():
        return golden(images)

    return run, lambda: own(images)


pair.fault("relu", "relu")
pair.fault("scale", "scaled_dot_product_attention")
pair.fault("columns_first", "permute", "reshape")
pair.fault("pixels_exchanged", "permute", "reshape")
pair.fault("residual_last", "cat")
pair.weight("running_var", "shrink.bn.running_var")
