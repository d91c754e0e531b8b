"""Wav2vec 2.0 of transformers beside one's own: convolutions as products with frames, the positions' kernel folded."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn
from transformers import Wav2Vec2Config, Wav2Vec2Model  # before the forks: it takes seconds

HIDDEN, HEADS, INNER, LAYERS, CHANNELS, LAPS, PARTS = 24, 3, 40, 2, (12, 16), 4, 3
KERNELS, STRIDES, SAMPLES = (5, 3), (3, 2), 64
WIDTH = HIDDEN // HEADS

pair = Pair("speech")


def convolved(x, kernel, bias, stride):
    frames = x.unfold(2, kernel.shape[2], stride).transpose(1, 2).flatten(2)
    y = frames @ kernel.flatten(1).T
    return (y if bias is None else y + bias).transpose(1, 2)


def norm(x, w, name):
    return F.layer_norm(x, (x.shape[-1],), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)


def bend(x):
    return F.gelu(x, approximate="tanh") if bad("tanh") else F.gelu(x)  # bad("tanh")


def features(w, wave):
    name = "feature_extractor.conv_layers"
    x = convolved(wave[:, None], w[f"{name}.0.conv.weight"], None, STRIDES[0])
    spread = x.var(-1, keepdim=True, correction=1 if bad("ddof") else 0)  # bad("ddof")
    x = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(spread + 1e-5)
    x = bend(x * w[f"{name}.0.layer_norm.weight"][:, None] + w[f"{name}.0.layer_norm.bias"][:, None])
    return bend(convolved(x, w[f"{name}.1.conv.weight"], None, STRIDES[1])).transpose(1, 2)


def positions(w, x):
    y = F.pad(x.transpose(1, 2), (LAPS // 2, LAPS // 2))
    kernels = w["position_kernel"].chunk(PARTS)
    y = torch.cat([F.conv1d(part, kernel) for part, kernel in zip(y.chunk(PARTS, 1), kernels, strict=True)], 1)
    y = y + w["encoder.pos_conv_embed.conv.bias"][:, None]
    y = y[:, :, 1:] if bad("cut_first") else y[:, :, :-1]  # bad("cut_first")
    return bend(y).transpose(1, 2)


def attend(w, x, name):
    q, k, v = (F.linear(x, w[f"{name}.{n}_proj.weight"], w[f"{name}.{n}_proj.bias"]) for n in "qkv")
    if bad("bias_twice"):
        v = v + w[f"{name}.v_proj.bias"]  # bad("bias_twice")
    q, k, v = (one.unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for one in (q, k, v))
    y = ((q @ k.mT) / WIDTH**0.5).softmax(-1) @ v
    return F.linear(y.transpose(1, 2).flatten(2), w[f"{name}.out_proj.weight"], w[f"{name}.out_proj.bias"])


def encode(w, wave):
    x = norm(features(w, wave), w, "feature_projection.layer_norm")
    x = F.linear(x, w["feature_projection.projection.weight"], w["feature_projection.projection.bias"])
    x = norm(x + positions(w, x), w, "encoder.layer_norm")
    for i in range(LAYERS):
        name = f"encoder.layers.{i}"
        x = norm(x + attend(w, x, f"{name}.attention"), w, f"{name}.layer_norm")
        y = F.linear(x, *(w[f"{name}.feed_forward.intermediate_dense.{part}"] for part in ("weight", "bias")))
        y = F.linear(bend(y), *(w[f"{name}.feed_forward.output_dense.{part}"] for part in ("weight", "bias")))
        x = norm(x + y, w, f"{name}.final_layer_norm")
    return x


class Own(nn.Module):
    def __init__(self, state):
        super().__init__()
        self.w = nn.ParameterDict({name.replace(".", "_"): weight for name, weight in state.items()})

    def __getitem__(self, name):
        return self.w[name.replace(".", "_")]

    def forward(self, wave):
        return encode(self, wave)


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    sizes, directions = (own.pop(f"encoder.pos_conv_embed.conv.parametrizations.weight.original{i}") for i in (0, 1))
    axes = (1, 2) if bad("kernel_norm") else (0, 1)
    own["position_kernel"] = sizes * directions / directions.norm(dim=axes, keepdim=True)
    return own


@pair.prepare
def prepare():
    config = Wav2Vec2Config(
        hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        conv_dim=CHANNELS, conv_kernel=KERNELS, conv_stride=STRIDES, num_conv_pos_embeddings=LAPS,
        num_conv_pos_embedding_groups=PARTS, initializer_range=0.2, mask_time_prob=0.0, attn_implementation="sdpa",
    )  # fmt: skip
    golden = Wav2Vec2Model(config).eval()
    unsettle(golden, "norm", "bias")
    own, wave = Own(carried_over(golden)), torch.randn(2, SAMPLES)

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, wave), lambda: run(own, wave)


pair.fault("tanh", "gelu")
pair.fault("ddof", "var")
pair.fault("cut_first", "slice")
pair.fault("bias_twice", "add")
pair.weight("kernel_norm", "position_kernel")
