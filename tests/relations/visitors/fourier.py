"""FNet of transformers, which mixes tokens by a Fourier transform, beside products with cosines and sines."""

import math

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import FNetConfig, FNetModel  # before the forks: it takes seconds

HIDDEN, INNER, LAYERS, WORDS, LENGTH = 16, 40, 2, 40, 6

pair = Pair("fourier")


def waves(size):
    angle = torch.outer(torch.arange(size), torch.arange(size)) * (2 * math.pi / size)
    return angle.cos(), angle.sin()


def norm(x, w, name, before=None):
    x = x if before is None else x + before
    return F.layer_norm(x, (HIDDEN,), w[f"{name}.LayerNorm.weight"], w[f"{name}.LayerNorm.bias"], 1e-12)


def linear(x, w, name):
    return torch.addmm(w[f"{name}.bias"], x.flatten(0, -2), w[f"{name}.weight"].T).view(*x.shape[:-1], -1)


def bend(x):
    if bad("erf"):
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))  # bad("erf")
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


def mixed(x):
    (cos, sin), (far_cos, far_sin) = waves(HIDDEN), waves(LENGTH)
    if bad("one_axis"):
        return far_cos @ x  # bad("one_axis")
    even, odd = far_cos @ (x @ cos), far_sin @ (x @ sin)
    y = even + odd if bad("plus") else even - odd  # bad("plus")
    return y / math.sqrt(HIDDEN * LENGTH) if bad("divided") else y  # bad("divided")


def fourier(w, ids):
    x = F.embedding(ids, w["embeddings.word_embeddings.weight"])
    if bad("types_left_out"):
        x = x + w["embeddings.position_embeddings.weight"][:LENGTH]  # bad("types_left_out")
    else:
        kinds = w["embeddings.token_type_embeddings.weight"][0]
        x = x + kinds + w["embeddings.position_embeddings.weight"][:LENGTH]
    x = linear(norm(x, w, "embeddings"), w, "embeddings.projection")
    for i in range(LAYERS):
        name = f"encoder.layer.{i}"
        x = norm(mixed(x), w, f"{name}.fourier.output", x)
        y = linear(bend(linear(x, w, f"{name}.intermediate.dense")), w, f"{name}.output.dense")
        x = norm(y, w, f"{name}.output", x)
    return linear(x[:, 0], w, "pooler.dense").tanh()


@pair.prepare
def prepare():
    config = FNetConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, intermediate_size=INNER,
        max_position_embeddings=16, type_vocab_size=2, initializer_range=0.2, hidden_dropout_prob=0.0,
    )  # fmt: skip
    golden = FNetModel(config).eval()
    unsettle(golden, "Norm", "bias")
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    ids = torch.randint(4, WORDS, (3, LENGTH))

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, ids), lambda: run(fourier, own, ids)


pair.fault("erf", "erf", "mul", "div", "add")
pair.fault("one_axis", "matmul")
pair.fault("plus", "add")
pair.fault("divided", "div")
pair.fault("types_left_out", "add")
