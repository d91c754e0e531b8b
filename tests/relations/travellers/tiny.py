"""The tiny decoder of diffusers beside products of patches over channels that come last."""

import torch
import torch.nn.functional as F
from diffusers.models.autoencoders.vae import DecoderTiny  # before the forks: it takes seconds
from planted import Pair, bad

LATENT, WIDTH, SIDE, BATCH = 4, 12, 5, 2

pair = Pair("tiny")


def conv(x, w, name):
    if bad("edges_repeated") and name == "layers.4":
        x = F.pad(x.permute(0, 3, 1, 2), (1, 1, 1, 1), mode="replicate")  # bad("edges_repeated")
    else:
        x = F.pad(x.permute(0, 3, 1, 2), (1, 1, 1, 1))
    patches = x.unfold(2, 3, 1).unfold(3, 3, 1).permute(0, 2, 3, 1, 4, 5).flatten(3)
    y = patches @ w[f"{name}.weight"]
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def block(x, w, name):
    y = conv(x, w, f"{name}.conv.0").relu()
    y = conv(y, w, f"{name}.conv.2")
    y = conv(y.relu(), w, f"{name}.conv.4")
    if bad("past_bend") and name == "layers.2":
        return F.relu(y) + x  # bad("past_bend")
    return F.relu(y + x)


def decode(w, x):
    x = (3 * torch.tanh(x / 3)).permute(0, 2, 3, 1)
    x = block(conv(x, w, "layers.0").relu(), w, "layers.2")
    high = x.repeat(1, 2, 2, 1) if bad("tiled") else x.repeat_interleave(2, 1).repeat_interleave(2, 2)  # bad("tiled")
    x = conv(high, w, "layers.4")
    x = conv(block(x, w, "layers.5"), w, "layers.6").permute(0, 3, 1, 2)
    return x - 1 if bad("not_stretched") else 2 * x - 1  # bad("not_stretched")


def carried_over(golden):
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    for name, weight in own.items():
        if name.endswith("weight"):
            turned = weight.mT if bad("kernel_turned") and name == "layers.5.conv.2.weight" else weight
            own[name] = turned.flatten(1).t().contiguous()
    return own


@pair.prepare
def prepare():
    golden = DecoderTiny(LATENT, 3, (1, 1), (WIDTH, WIDTH), 2, "relu", "nearest").eval()
    own, x = carried_over(golden), 3 * torch.randn(BATCH, LATENT, SIDE, SIDE)

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, x), lambda: run(decode, own, x)


pair.fault("edges_repeated", "pad", "replication_pad2d")
pair.fault("past_bend", "relu", "add")
pair.fault("tiled", "repeat")
pair.fault("not_stretched", "sub")
pair.weight("kernel_turned", "layers.5.conv.2.weight")
