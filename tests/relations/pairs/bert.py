"""A BERT of one's own with attention written out, on padded sentences, beside transformers'."""

import torch
import torch.nn.functional as F
from planted import Pair, bad

HIDDEN, HEADS, LAYERS, WORDS, TOKENS = 32, 4, 2, 64, 7

pair = Pair("bert")


def norm(x, weight, bias):
    x = x - x.mean(-1, keepdim=True)  # bad("residual_left_out")
    variance = x.pow(2).sum(-1, keepdim=True) / (HIDDEN - 1 if bad("ddof") else HIDDEN)
    return x / torch.sqrt(variance + 1e-12) * weight + bias


def project(w, name, x):
    return x @ w[name + ".weight"].t() + w[name + ".bias"]


def heads(x):
    return x.view(*x.shape[:2], HEADS, HIDDEN // HEADS).permute(0, 2, 1, 3)


def attend(w, name, x, keep):
    q, k, v = (heads(project(w, f"{name}.self.{part}", x)) for part in ("query", "key", "value"))
    scores = torch.matmul(q, k.transpose(-1, -2)) / (HIDDEN // HEADS) ** 0.5
    if not bad("mask_left_out"):
        scores = scores + (1.0 - keep[:, None, None, :].float()) * (-1.0 if bad("weak_mask") else -1e9)
    share = torch.softmax(scores, 2 if bad("softmax_axis") else -1)  # bad("mask_left_out")
    y = torch.matmul(share, k if bad("value_is_key") else v).permute(0, 2, 1, 3).reshape(x.shape)
    return project(w, f"{name}.output.dense", y)


def layer(w, name, x, keep):
    y = attend(w, name + ".attention", x, keep)
    y = y if bad("residual_left_out") else x + y
    x = norm(y, w[name + ".attention.output.LayerNorm.weight"], w[name + ".attention.output.LayerNorm.bias"])
    y = project(w, name + ".intermediate.dense", x)
    y = F.relu(y) if bad("relu") else F.gelu(y)
    y = project(w, name + ".output.dense", y)
    return norm(x + y, w[name + ".output.LayerNorm.weight"], w[name + ".output.LayerNorm.bias"])


def bert(w, ids, keep):
    kinds = torch.ones_like(ids) if bad("token_types") else torch.zeros_like(ids)
    x = F.embedding(ids, w["embeddings.word_embeddings.weight"])
    first = 1 if bad("positions_from_one") else 0
    places = torch.arange(first, first + ids.shape[1])  # bad("positions_from_one")
    x = x + F.embedding(places, w["embeddings.position_embeddings.weight"])
    kind = F.embedding(kinds, w["embeddings.token_type_embeddings.weight"])
    x = x + (kind * 2 if bad("token_types_twice") else kind)
    x = norm(x, w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"])
    for i in range(LAYERS):
        x = layer(w, f"encoder.layer.{i}", x, keep)
    first = x[:, 1] if bad("second_token") else x[:, 0]
    return torch.tanh(project(w, "pooler.dense", first))


@pair.prepare
def prepare():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=64, max_position_embeddings=16, initializer_range=0.2,
    )  # fmt: skip
    golden = BertModel(config).eval()
    with torch.no_grad():
        for weight in golden.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    own = {name: weight.clone() for name, weight in golden.state_dict().items()}
    ids = torch.randint(0, WORDS, (3, TOKENS))
    keep = (torch.arange(TOKENS) < torch.tensor([7, 4, 5])[:, None]).long()

    def run_golden():
        with torch.no_grad():
            return golden(ids, attention_mask=keep).pooler_output

    def run_target():
        with torch.no_grad():
            return bert(own, ids, keep)

    return run_golden, run_target


pair.fault("ddof", "div")
pair.fault("mask_left_out", "softmax", "_softmax", "add", "div")
pair.fault("weak_mask", "mul", "add")
pair.fault("softmax_axis", "softmax", "_softmax")
pair.fault("value_is_key", "matmul")
pair.fault("residual_left_out", "mean", "add", "sub")
pair.fault("relu", "relu")
pair.fault("token_types", "ones_like", "embedding")
pair.fault("token_types_twice", "mul")
pair.fault("positions_from_one", "arange")
pair.fault("second_token", "select")
