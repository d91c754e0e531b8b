"""DeBERTa of transformers beside one's own: scores of contents and of distances looked up for every two."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from transformers import DebertaV2Config, DebertaV2Model  # before the forks: it takes seconds

HIDDEN, HEADS, INNER, LAYERS, WORDS, SPAN, LENGTHS = 24, 3, 40, 2, 50, 4, (8, 5)
WIDTH, LENGTH = HIDDEN // HEADS, max(LENGTHS)

pair = Pair("deberta")


def norm(w, x, name):
    spread, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(spread + 1e-7) * w[f"{name}.weight"] + w[f"{name}.bias"]


def linear(w, x, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]  # bad("places_as_they_are")


def attend(w, x, table, away, seen):
    name = "attention.self"
    q, k, v = (linear(w, x, f"{name}.{n}_proj").unflatten(-1, (HEADS, WIDTH)) for n in ("query", "key", "value"))
    far_q, far_k = (linear(w, table, f"{name}.{n}_proj") for n in ("query", "key"))
    far_q, far_k = far_q.unflatten(-1, (HEADS, WIDTH))[away], far_k.unflatten(-1, (HEADS, WIDTH))[away]
    scores = torch.einsum("bihd,bjhd->bhij", q, k)
    scores = scores + torch.einsum("bihd,ijhd->bhij", q, far_k)  # bad("one_way")
    if not bad("one_way"):
        scores = scores + torch.einsum("bjhd,ijhd->bhij", k, far_q)
    scores = scores / (WIDTH * (2 if bad("two_parts") else 3)) ** 0.5  # bad("two_parts"); bad("one_way")
    both = seen[:, None, :, None] & seen[:, None, None, :]
    share = scores.masked_fill(~both, torch.finfo(torch.float32).min).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", share, v).flatten(2)


def deberta(w, ids, seen):
    x = norm(w, w["embeddings.word_embeddings.weight"][ids], "embeddings.LayerNorm") * seen[..., None]
    table = w["encoder.rel_embeddings.weight"]
    if not bad("places_as_they_are"):
        table = norm(w, table, "encoder.LayerNorm")
    places = torch.arange(LENGTH)
    away = places[None, :] - places[:, None] if bad("turned") else places[:, None] - places[None, :]  # bad("turned")
    away = (away + SPAN).clamp(0, 2 * SPAN - 1)
    for i in range(LAYERS):
        own = {name.removeprefix(f"encoder.layer.{i}."): one for name, one in w.items() if f"layer.{i}." in name}
        y = linear(own, attend(own, x, table, away, seen), "attention.output.dense")
        x = norm(own, x + y, "attention.output.LayerNorm")
        y = linear(own, x, "intermediate.dense")
        y = F.gelu(y, approximate="tanh") if bad("tanh_gelu") else y * 0.5 * (1 + torch.erf(y / 2**0.5))
        x = norm(own, x + linear(own, y, "output.dense"), "output.LayerNorm")
    return x


@pair.prepare
def prepare():
    config = DebertaV2Config(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=32, relative_attention=True, max_relative_positions=SPAN,
        position_biased_input=False, pos_att_type="c2p|p2c", share_att_key=True, norm_rel_ebd="layer_norm",
        initializer_range=0.2,
    )  # fmt: skip
    golden = DebertaV2Model(config).eval()
    unsettle(golden, "Norm", "bias")
    own, ids = (
        {name: weight.clone() for name, weight in golden.state_dict().items()},
        torch.randint(1, WORDS, (2, LENGTH)),
    )
    if bad("norm_of_the_first"):
        own["encoder.layer.1.output.LayerNorm.weight"] = own["encoder.layer.0.output.LayerNorm.weight"].clone()
    seen = torch.arange(LENGTH)[None, :] < torch.tensor(LENGTHS)[:, None]

    def run(model, *given, **named):
        with torch.no_grad():
            return model(*given, **named)

    return lambda: run(golden, ids, attention_mask=seen.long()), lambda: run(deberta, own, ids, seen)


pair.fault("two_parts", "div")
pair.fault("one_way", "div", "add", "einsum")
pair.fault("turned", "sub")
pair.fault("places_as_they_are", "matmul", "add")
pair.fault("tanh_gelu", "gelu")
pair.weight("norm_of_the_first", "output.LayerNorm.weight")
