"""PoolFormer of transformers, which mixes by means of windows, beside one's own in NHWC with sums of shifts."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import PoolFormerConfig, PoolFormerForImageClassification  # before the forks: it takes seconds

SIZES, SIDE, KINDS, BATCH, EPSILON = (16, 24), 16, 5, 2, 1e-5

pair = Pair("poolformer")


def norm(x, weight, bias):
    """Over height, width and channels."""
    flat = x.flatten(1)
    mean = flat.mean(1)[:, None, None, None]
    spread = flat.var(1, unbiased=bad("ddof"))[:, None, None, None]  # bad("ddof")
    return (x - mean) / torch.sqrt(spread + (0.1 if bad("epsilon") else EPSILON)) * weight + bias  # bad("epsilon")


def windows(x):
    """The sums of all windows of three by three."""
    height, width = x.shape[1:3]
    x = F.pad(x, (0, 0, 1, 1, 1, 1))
    return sum(x[:, i : i + height, j : j + width] for i in range(3) for j in range(3))


def pooled(x):
    counts = windows(torch.ones_like(x[:1, :, :, :1]))
    if bad("padding_counts"):
        counts = torch.full_like(counts, 9.0)  # bad("padding_counts")
    mean = windows(x) / counts  # bad("padding_counts"), bad("not_without_itself")
    return mean if bad("not_without_itself") else mean - x  # bad("not_without_itself")


def patches(x, kernel, bias, stride, pad):
    """A convolution as a product of patches."""
    size = kernel.shape[0]
    before, after = (0, 2 * pad) if bad("padded_behind") else (pad, pad)
    x = F.pad(x, (0, 0, before, after, before, after))  # bad("padded_behind")
    x = x.unfold(1, size, stride).unfold(2, size, stride)
    return torch.einsum("bhwcij,ijco->bhwo", x, kernel) + bias


def block(w, x):
    mixed = pooled(norm(x, w["before_norm.weight"], w["before_norm.bias"]))
    x = x + mixed * w["layer_scale_1"]  # bad("not_without_itself")
    y = norm(x, w["after_norm.weight"], w["after_norm.bias"])
    y = F.gelu(y @ w["up"] + w["output.conv1.bias"]) @ w["down"] + w["output.conv2.bias"]
    if bad("scaled_by_first"):
        return x + y * w["layer_scale_1"]  # bad("scaled_by_first")
    return x + y * w["layer_scale_2"]


def poolformer(w, pictures):
    x = pictures.permute(0, 2, 3, 1)
    for stage, (stride, pad) in enumerate(((2, 2), (2, 1))):
        x = patches(x, *w[f"patch{stage}"], stride, pad)
        for own in w[f"blocks{stage}"]:
            x = block(own, x)
    x = norm(x, *w["norm"]).mean((1, 2))
    return x @ w["head"] + w["head_bias"]


def of_block(one):
    w = {name: weight.clone() for name, weight in one.state_dict().items()}
    w["up"] = w["output.conv1.weight"].flatten(1).t().contiguous()
    w["down"] = w["output.conv2.weight"].flatten(1).t().contiguous()
    return w


def carried_over(golden):
    encoder, w = golden.poolformer.encoder, {}
    for stage, (embedding, blocks) in enumerate(zip(encoder.patch_embeddings, encoder.block, strict=True)):
        kernel = embedding.projection.weight.permute(2, 3, 1, 0).contiguous()
        w[f"patch{stage}"] = kernel, embedding.projection.bias.clone()
        w[f"blocks{stage}"] = [of_block(one) for one in blocks]
    w["norm"] = golden.norm.weight.clone(), golden.norm.bias.clone()
    w["head"], w["head_bias"] = golden.classifier.weight.t().contiguous(), golden.classifier.bias.clone()
    return w


@pair.prepare
def prepare():
    config = PoolFormerConfig(
        num_channels=3, hidden_sizes=list(SIZES), depths=[2, 1], num_encoder_blocks=2, patch_sizes=[5, 3],
        strides=[2, 2], padding=[2, 1], mlp_ratio=2.0, drop_path_rate=0.0, num_labels=KINDS,
        layer_scale_init_value=0.5,
    )  # fmt: skip
    golden = PoolFormerForImageClassification(config).eval()
    unsettle(golden, "weight", "bias", "layer_scale")
    with torch.no_grad():
        own = carried_over(golden)
    pictures = torch.randn(BATCH, 3, SIDE, SIDE)

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, pictures), lambda: run(poolformer, own, pictures)


pair.fault("ddof", "var")
pair.fault("epsilon", "add")
pair.fault("padding_counts", "full_like", "div")
pair.fault("not_without_itself", "div", "mul")  # the product reads the mean alone
pair.fault("padded_behind", "pad")
pair.fault("scaled_by_first", "mul")
