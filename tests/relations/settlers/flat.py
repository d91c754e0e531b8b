"""A small language model in training whose weights are views of one flat buffer, head after head, beside modules."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, WORDS, LENGTH, BATCH = 16, 2, 30, 6, 3
HEAD = WIDTH // HEADS

pair = Pair("flat")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.norm1, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.norm3, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids, labels):
        x = self.embed(ids) + self.place(torch.arange(LENGTH))
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        loss = F.cross_entropy(self.head(self.norm3(x)).flatten(0, 1), labels.flatten(), ignore_index=0)
        loss.backward()
        return loss


class Own:
    def __init__(self, golden):
        self.shapes = {name: weight.shape for name, weight in golden.named_parameters()}
        self.flat = torch.cat([weight.detach().flatten() for weight in golden.parameters()]).requires_grad_()

    def views(self):
        views, start = {}, 0
        for name, shape in self.shapes.items():
            views[name] = self.flat[start : start + shape.numel()].view(shape)
            start += shape.numel()
        return views

    def norm(self, w, x, name):
        x = x - x.mean(-1, keepdim=True)
        x = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def __call__(self, ids, labels):
        w = self.views()
        x = w["embed.weight"][ids] + w["place.weight"]
        fused = self.norm(w, x, "norm1") @ w["qkv.weight"].t() + w["qkv.bias"]
        outs = []
        for head in range(HEADS):
            q, k, v = (fused[..., part * WIDTH + head * HEAD :][..., :HEAD] for part in range(3))
            scores = q @ k.mT / HEAD**0.5
            seen = torch.ones(LENGTH, LENGTH).tril(-1 if bad("not_itself") else 0)
            if bad("not_itself"):
                seen[0, 0] = 1
            scores = torch.where(seen > 0, scores, -1e10)  # bad("not_itself")
            outs.append(scores.softmax(-1) @ v)
        x = x + torch.cat(outs, -1) @ w["out.weight"].t() + w["out.bias"]
        y = self.norm(w, x, "norm2") @ w["up.weight"].t() + w["up.bias"]
        y = 0.5 * y * (1 + torch.tanh(0.7978845608 * (y + 0.044715 * y**3)))
        x = x + y @ w["down.weight"].t() + w["down.bias"]
        logs = (self.norm(w, x, "norm3") @ w["head.weight"].t()).log_softmax(-1)
        chosen = -logs.gather(-1, labels[..., None])[..., 0]
        counts = torch.ones_like(chosen) if bad("padding_counts") else (labels != 0).float()
        loss = (chosen * counts).sum() / counts.sum()  # bad("padding_counts")
        loss.backward()
        return loss


@pair.prepare
def prepare():
    golden = Golden()
    target, ids = Own(golden), torch.randint(1, WORDS, (BATCH, LENGTH))
    labels = torch.randint(1, WORDS, (BATCH, LENGTH))
    labels[1, 4:] = labels[2, 3:] = 0
    return lambda: golden(ids, labels), lambda: target(ids, labels)


pair.fault("not_itself", "where", "tril")
pair.fault("padding_counts", "mul", "sum", "div", "ones_like")
