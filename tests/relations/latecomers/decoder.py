"""A decoder that reads an encoded picture: a library's layer beside attention by hand, with a loss and gradients."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, LENGTH, SEEN, WORDS, BATCH = 16, 4, 6, 5, 18, 2
HEAD = WIDTH // HEADS

pair = Pair("decoder")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer = nn.TransformerDecoderLayer(WIDTH, HEADS, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, seen, labels):
        x = self.embed(ids) * WIDTH**0.5 + self.place(torch.arange(LENGTH))
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        x = self.norm(self.layer(x, seen, tgt_mask=mask, tgt_is_causal=True))
        loss = F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten(), label_smoothing=0.1)
        loss.backward()


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for part in ("weight", "bias"):
            q, k, v = own.pop(f"layer_multihead_attn_in_proj_{part}").chunk(3)
            if bad("keys_for_values"):
                k, v = v, k
            own[f"cross_q_{part}"], own[f"cross_kv_{part}"] = q.clone(), torch.cat((k, v))
        self.w = nn.ParameterDict(own)

    def linear(self, x, name):
        return F.linear(x, self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def attend(self, q, k, v, hidden=None):
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.mT * HEAD**-0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, ids, seen, labels):
        x = F.embedding(ids, self.w["embed_weight"])
        x = x if bad("not_scaled") else x * WIDTH**0.5
        x = x + self.w["place_weight"][:LENGTH]  # bad("not_scaled")
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        y = self.norm(x, "layer_norm1")
        y = F.linear(y, self.w["layer_self_attn_in_proj_weight"], self.w["layer_self_attn_in_proj_bias"])
        x = x + self.linear(self.attend(*y.chunk(3, -1), hidden), "layer_self_attn_out_proj")
        y = x if bad("not_normed") else self.norm(x, "layer_norm2")
        k, v = self.linear(seen, "cross_kv").chunk(2, -1)
        q = F.linear(y, self.w["cross_q_weight"], self.w["cross_q_bias"])  # bad("not_normed")
        x = x + self.linear(self.attend(q, k, v), "layer_multihead_attn_out_proj")
        y = self.linear(self.norm(x, "layer_norm3"), "layer_linear1")
        y = F.gelu(y, approximate="tanh" if bad("tanh") else "none")  # bad("tanh")
        x = self.norm(x + self.linear(y, "layer_linear2"), "norm")
        each = (x @ self.w["head_weight"].t()).log_softmax(-1)
        right = each.gather(-1, labels[..., None]).squeeze(-1)
        share = 0.2 if bad("smoothing") else 0.1
        loss = -((1 - share) * right + share * each.mean(-1)).mean()  # bad("smoothing")
        loss.backward()


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, ids, seen = Own(golden), torch.randint(0, WORDS, (BATCH, LENGTH)), torch.randn(BATCH, SEEN, WIDTH)
    labels = torch.randint(0, WORDS, (BATCH, LENGTH))
    return lambda: golden(ids, seen, labels), lambda: target(ids, seen, labels)


pair.weight("keys_for_values", "cross_kv")
pair.fault("not_scaled", "add")
pair.fault("not_normed", "linear")
pair.fault("tanh", "gelu")
pair.fault("smoothing", "mul")
