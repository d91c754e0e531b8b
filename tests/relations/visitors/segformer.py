"""SegFormer of transformers beside one's own in NHWC: keys of reduced maps, a depthwise kernel as a sum of shifts."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import SegformerConfig, SegformerForImageClassification  # before the forks: it takes seconds

WIDTHS, HEADS, RATIOS, DEPTHS, SIDE = (12, 20), (2, 4), (2, 1), (1, 2), 16

pair = Pair("segformer")


def norm(x, w, name):
    eps = 1e-2 if bad("eps") and "layernorm_after" in name else 1e-5
    mean = x.mean(-1, keepdim=True)
    spread = (x - mean).square().mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(spread + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]  # bad("eps")


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def reduced(x, w, name, ratio):
    rows, columns, width = x.shape[1] // ratio, x.shape[2] // ratio, x.shape[3]
    patches = (
        x.view(-1, rows, ratio, columns, ratio, width).transpose(2, 3).reshape(-1, rows, columns, ratio**2 * width)
    )
    y = patches @ w[f"{name}.patch_weight"].T + w[f"{name}.sequence_reduction.bias"]
    return norm(y, w, f"{name}.layer_norm")


def attend(x, w, name, heads, ratio):
    read = reduced(x, w, f"{name}.sequence_reduction", ratio) if ratio > 1 else x
    q, k, v = (linear(y.flatten(1, 2), w, f"{name}.{n}_proj") for y, n in ((x, "q"), (read, "k"), (read, "v")))
    if bad("head_order"):
        v = v.unflatten(-1, (-1, heads)).transpose(2, 3).flatten(2)  # bad("head_order")
    q, k, v = (one.unflatten(-1, (heads, -1)) for one in (q, k, v))
    share = (torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5).softmax(-1)
    y = torch.einsum("bhqk,bkhd->bqhd", share, v).flatten(2)  # bad("head_order")
    return linear(y, w, f"{name}.o_proj").view(x.shape)


def mixed(x, w, name):
    y = linear(x, w, f"{name}.fc1")
    around = F.pad(y, (0, 0, 1, 1, 1, 1))
    rows, columns = y.shape[1:3]
    kernel = w[f"{name}.dwconv.dwconv.weight"][:, 0]
    y = w[f"{name}.dwconv.dwconv.bias"] + sum(
        around[:, i : i + rows, j : j + columns] * kernel[:, i, j] for i in range(3) for j in range(3)
    )
    y = F.relu(y) if bad("relu") else F.gelu(y)  # bad("relu")
    return linear(y, w, f"{name}.fc2")


def classify(w, pixels):
    x = pixels
    for stage, (heads, ratio) in enumerate(zip(HEADS, RATIOS, strict=True)):
        name = f"segformer.stages.{stage}"
        x = F.conv2d(x, w[f"{name}.patch_embeddings.proj.weight"], w[f"{name}.patch_embeddings.proj.bias"], 2, 1)
        x = norm(x.permute(0, 2, 3, 1), w, f"{name}.patch_embeddings.layer_norm")
        for i in range(DEPTHS[stage]):
            block = f"{name}.blocks.{i}"
            y = norm(x, w, f"{block}.layernorm_before")
            before = y if bad("residual_normed") else x
            x = before + attend(y, w, f"{block}.attention", heads, ratio)  # bad("residual_normed")
            x = x + mixed(norm(x, w, f"{block}.layernorm_after"), w, f"{block}.mlp")
        x = norm(x, w, f"{name}.layer_norm").permute(0, 3, 1, 2)
    return linear(x.flatten(2).mean(-1), w, "classifier")


class Own(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.w = nn.ParameterDict({name.replace(".", "_"): weight for name, weight in state.items()})

    def __getitem__(self, name):
        return self.w[name.replace(".", "_")]

    def forward(self, pixels):
        return classify(self, pixels)


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for name in [name for name in own if name.endswith("sequence_reduction.sequence_reduction.weight")]:
        order = (0, 3, 2, 1) if bad("kernel_transposed") else (0, 2, 3, 1)
        own[name.replace("sequence_reduction.weight", "patch_weight")] = own.pop(name).permute(order).flatten(1)
    return own


@pair.prepare
def prepare():
    config = SegformerConfig(
        num_encoder_blocks=2, depths=DEPTHS, sr_ratios=RATIOS, hidden_sizes=WIDTHS, patch_sizes=(3, 3), strides=(2, 2),
        num_attention_heads=HEADS, mlp_ratios=(2, 2), num_labels=10, initializer_range=0.2, drop_path_rate=0.0,
        attn_implementation="sdpa",
    )  # fmt: skip
    golden = SegformerForImageClassification(config).eval()
    unsettle(golden, "norm", "bias")
    own, pixels = Own(carried_over(golden)), torch.randn(2, 3, SIDE, SIDE)

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, pixels), lambda: run(own, pixels)


pair.fault("eps", "add", "sqrt")
pair.fault("head_order", "einsum", "bmm", "transpose", "flatten")
pair.fault("relu", "relu")
pair.fault("residual_normed", "add")
pair.weight("kernel_transposed", "patch_weight")
