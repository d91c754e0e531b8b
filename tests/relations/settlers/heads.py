"""An encoder of torch.nn beside one in the style of flax: kernels with an axis for each of heads and widths."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, INNER, LAYERS, LENGTH, BATCH = 24, 4, 40, 2, 7, 2
HEAD = WIDTH // HEADS

pair = Pair("heads")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


def normed(params, x):
    mean = x.mean(-1, keepdim=True)
    spread = (x * x).mean(-1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(spread + 1e-5) * params["scale"] + params["bias"]


def attention(params, x):
    q, k, v = (torch.einsum("bld,dhk->blhk", x, params[n]["kernel"]) + params[n]["bias"] for n in ("q", "k", "v"))
    scores = torch.einsum("bqhk,bthk->bhqt", q / HEAD**0.5, k)
    weights = scores.softmax(-2) if bad("over_queries") else scores.softmax(-1)  # bad("over_queries")
    y = torch.einsum("bhqt,bthk->bqhk", weights, v)
    return torch.einsum("bqhk,hkd->bqd", y, params["out"]["kernel"]) + params["out"]["bias"]


def encoder(params, x):
    for i in range(LAYERS):
        own = params[f"layer_{i}"]
        x = x + attention(own["attention"], normed(own["norm_0"], x))
        y = normed(own["norm_1"], x) @ own["mlp_0"]["kernel"] + own["mlp_0"]["bias"]
        x = x + F.gelu(y) @ own["mlp_1"]["kernel"] + own["mlp_1"]["bias"]
    return normed(params["norm"], x)


def carried_over(golden):
    w = {name.removeprefix("encoder."): weight.detach().clone() for name, weight in golden.named_parameters()}
    params = {"norm": {"scale": w["norm.weight"], "bias": w["norm.bias"]}}
    for i in range(LAYERS):
        name, attend = f"layers.{i}", {}
        kernels, biases = w[f"{name}.self_attn.in_proj_weight"].chunk(3), w[f"{name}.self_attn.in_proj_bias"].chunk(3)
        for part, kernel, bias in zip("qkv", kernels, biases, strict=True):
            attend[part] = {"kernel": kernel.t().reshape(WIDTH, HEADS, HEAD), "bias": bias.view(HEADS, HEAD)}
        kernel = w[f"{name}.self_attn.out_proj.weight"].t()
        if bad("out_by_width") and i == 1:
            kernel = kernel.reshape(HEAD, HEADS, WIDTH).transpose(0, 1)
        attend["out"] = {
            "kernel": kernel.reshape(HEADS, HEAD, WIDTH).contiguous(),
            "bias": w[f"{name}.self_attn.out_proj.bias"],
        }
        params[f"layer_{i}"] = {
            "attention": attend,
            **{
                f"norm_{j}": {"scale": w[f"{name}.norm{j + 1}.weight"], "bias": w[f"{name}.norm{j + 1}.bias"]}
                for j in (0, 1)
            },
            **{
                f"mlp_{j}": {
                    "kernel": w[f"{name}.linear{j + 1}.weight"].t().contiguous(),
                    "bias": w[f"{name}.linear{j + 1}.bias"],
                }
                for j in (0, 1)
            },
        }
    return params


@pair.prepare
def prepare():
    golden = Golden().train()
    unsettle(golden, "norm", "bias")
    params, x = carried_over(golden), torch.randn(BATCH, LENGTH, WIDTH)

    def run(function, *given):
        with torch.no_grad():
            return function(*given)

    return lambda: run(golden, x), lambda: run(encoder, params, x)


pair.fault("over_queries", "softmax")
pair.weight("out_by_width", "out_proj.weight")
