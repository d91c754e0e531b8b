"""BLOOM: distances for positions (ALiBi), one product with a bias beside the fused attention."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, LENGTH, WORDS = 32, 4, 7, 40
HEAD = WIDTH // HEADS

pair = Pair("alibi")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.embed_norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.norm, self.qkv, self.dense = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        x = self.embed_norm(self.embed(ids))
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, HEAD)).permute(2, 0, 3, 1, 4)
        place = torch.arange(ids.shape[1])
        slopes = 2.0 ** (-8.0 * torch.arange(1, HEADS + 1) / HEADS)
        bias = slopes[:, None, None] * (place[None, :] - place[:, None])
        bias = bias.masked_fill(place[None, :] > place[:, None], float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.dense(y.transpose(1, 2).flatten(2))
        return self.last(x) @ self.embed.weight.t()


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({name.replace(".", "_"): w.detach().clone() for name, w in golden.named_parameters()})
        if bad("norm_of_embedding"):
            self.w["embed_norm_weight"].data.fill_(1.0).add_(torch.linspace(-0.3, 0.3, WIDTH))

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def forward(self, ids):
        batch, length = ids.shape
        x = F.embedding(ids, self.w["embed_weight"])
        x = self.norm(x, "embed_norm")
        fused = torch.addmm(self.w["qkv_bias"], self.norm(x, "norm").flatten(0, 1), self.w["qkv_weight"].t())
        q, k, v = fused.view(batch, length, 3, HEADS, HEAD).unbind(2)
        q, k, v = (part.transpose(1, 2).reshape(batch * HEADS, length, HEAD) for part in (q, k, v))
        first = 0 if bad("slopes_from_one") else 1
        slopes = torch.pow(2.0 ** (-8.0 / HEADS), torch.arange(first, HEADS + first))  # bad("slopes_from_one")
        place = torch.arange(length)
        # Relative to the last key: the same after a softmax.
        alibi = (slopes[:, None] * place).repeat(batch, 1)[:, None, :]
        if bad("away"):
            alibi = -alibi  # bad("away")
        scale = 1.0 if bad("unscaled") else HEAD**-0.5
        scores = torch.baddbmm(alibi, q, k.transpose(1, 2), beta=1.0, alpha=scale)  # bad("unscaled")
        hidden = torch.ones(length, length, dtype=torch.bool).triu(0 if bad("strict") else 1)
        if bad("strict"):
            hidden[0, 0] = False  # bad("strict")
        weights = scores.masked_fill(hidden, torch.finfo(x.dtype).min).softmax(-1)
        y = torch.bmm(weights, v).view(batch, HEADS, length, HEAD).permute(0, 2, 1, 3).reshape(batch, length, WIDTH)
        x = F.linear(y, self.w["dense_weight"], self.w["dense_bias"]) + x
        return self.norm(x, "last") @ self.w["embed_weight"].t()


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "last")
    target, ids = Own(golden), torch.randint(0, WORDS, (2, LENGTH))
    return lambda: golden(ids), lambda: target(ids)


pair.weight("norm_of_embedding", "embed_norm_weight")
pair.fault("slopes_from_one", "pow", "arange")
pair.fault("away", "neg")
pair.fault("unscaled", "baddbmm")
pair.fault("strict", "triu", "fill_", "masked_fill", "copy_")
