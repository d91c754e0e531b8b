"""XLNet of transformers, whose scores of distances are shifted by a reshape, beside one that looks distances up."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import XLNetConfig, XLNetModel  # before the forks: it takes seconds

WIDTH, HEADS, INNER, LAYERS, WORDS, LENGTH, BATCH = 24, 3, 40, 2, 40, 6, 2
HEAD = WIDTH // HEADS

pair = Pair("xlnet")


def waves(distances):
    rates = 10000 ** -(torch.arange(0, WIDTH, 2).float() / WIDTH)
    angles = distances[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), -1)


def attend(w, x, table):
    q, k, v = (x @ w[f"rel_attn.{n}"] for n in "qkv")
    q, k, v = (part.view(BATCH, LENGTH, HEADS, HEAD).transpose(1, 2) for part in (q, k, v))
    far = (table @ w["rel_attn.r"]).view(-1, HEADS, HEAD)
    places = torch.arange(LENGTH)
    distance = places[:, None] - places
    if bad("other_side"):
        distance = places - places[:, None]  # bad("other_side")
    far = far[distance + LENGTH - 1]  # bad("other_side")
    content = w["rel_attn.r_r_bias"] if bad("one_bias") else w["rel_attn.r_w_bias"]
    own = (q + content[:, None]) @ k.mT  # bad("one_bias")
    by_place = torch.einsum("bhqd,qkhd->bhqk", q + w["rel_attn.r_r_bias"][:, None], far)
    scale = HEAD**-0.5
    scores = own * scale + by_place if bad("content_scaled") else (own + by_place) * scale
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
    return y @ w["rel_attn.o"].t()


def norm(x, w, name):
    return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)


def xlnet(w, ids):
    x = w["word_embedding.weight"][ids]
    table = waves(torch.arange(1 - LENGTH, LENGTH))
    for i in range(LAYERS):
        own = {name.removeprefix(f"layer.{i}."): weight for name, weight in w.items() if f"layer.{i}." in name}
        x = norm(x + attend(own, x, table), own, "rel_attn.layer_norm")
        y = F.gelu(F.linear(x, own["ff.layer_1.weight"], own["ff.layer_1.bias"]))
        x = norm(x + F.linear(y, own["ff.layer_2.weight"], own["ff.layer_2.bias"]), own, "ff.layer_norm")
    return x


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    return {name: weight.flatten(1) if weight.dim() == 3 else weight for name, weight in own.items()}


@pair.prepare
def prepare():
    config = XLNetConfig(
        vocab_size=WORDS, d_model=WIDTH, n_layer=LAYERS, n_head=HEADS, d_inner=INNER, dropout=0.0, mem_len=None,
        initializer_range=0.2,
    )  # fmt: skip
    golden = XLNetModel(config).eval()
    unsettle(golden, "norm", "bias")
    own, ids = carried_over(golden), torch.randint(0, WORDS, (BATCH, LENGTH))

    def run(function, *given):
        with torch.no_grad():
            return function(*given)

    return lambda: run(golden, ids), lambda: run(xlnet, own, ids)


pair.fault("other_side", "sub", "add", "index")
pair.fault("one_bias", "add", "matmul")
pair.fault("content_scaled", "mul", "add")
