"""Retention: one product behind a mask of decays, a norm for each head, beside a state carried over chunks."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HEADS, INNER, LAYERS, WORDS, CHUNK, CHUNKS = 24, 3, 40, 2, 30, 3, 3
HEAD, LENGTH = WIDTH // HEADS, CHUNK * CHUNKS
DECAYS = 1 - 2.0 ** (-1.0 - torch.arange(HEADS))

pair = Pair("retention")


class GoldenLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.g, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(5))
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.group = nn.GroupNorm(HEADS, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x, decay):
        y = self.norm1(x)
        q, k, v = (p(y).unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for p in (self.q, self.k, self.v))
        z = ((q @ k.mT) * HEAD**-0.5 * decay) @ v
        z = self.group(z.transpose(1, 2).flatten(2).flatten(0, 1)).view(x.shape)
        x = x + self.o(F.silu(self.g(y)) * z)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers = nn.Embedding(WORDS, WIDTH), nn.ModuleList(GoldenLayer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        away = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        decay = torch.where(away >= 0, DECAYS[:, None, None] ** away.clamp(min=0), 0.0)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, decay)
        return self.head(x)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for i in range(LAYERS):
            parts = [own.pop(f"layers_{i}_{n}_weight") for n in "qkvg"]
            if bad("gate_first") and i == 1:
                parts = [parts[3], *parts[:3]]
            own[f"layers_{i}_four"] = torch.cat(parts).t().contiguous()
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def kept(self, q, k, v):
        inner = torch.arange(CHUNK)
        away = inner[:, None] - inner
        mask = (DECAYS[:, None, None] ** away).tril()
        since = DECAYS[:, None] ** (inner + (0 if bad("one_step_less") else 1))
        left = DECAYS[:, None] ** (CHUNK - 1 - inner)
        state, out = torch.zeros(q.shape[0], HEADS, HEAD, HEAD), []
        for a, b, c in zip(q.split(CHUNK, 2), k.split(CHUNK, 2), v.split(CHUNK, 2), strict=True):
            before = (a @ state) * since[..., None]  # bad("one_step_less")
            out.append((a @ b.mT * mask) @ c + before)
            add = (b * left[..., None]).mT @ c
            faded = state if bad("never_forgets") else state * DECAYS[:, None, None] ** CHUNK
            state = faded + add  # bad("never_forgets")
        return torch.cat(out, 2)

    def forward(self, ids):
        x = F.embedding(ids, self.w["embed_weight"])
        for i in range(LAYERS):
            name = f"layers_{i}"
            q, k, v, g = (self.norm(x, f"{name}_norm1") @ self.w[f"{name}_four"]).chunk(4, -1)
            q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (q, k, v))
            z = self.kept(q * HEAD**-0.5, k, v).transpose(1, 2)
            axes = (-2, -1) if bad("norm_of_all") else (-1,)
            spread = z.var(axes, correction=0, keepdim=True)
            z = (z - z.mean(axes, keepdim=True)) / (spread + 1e-5).sqrt()  # bad("norm_of_all")
            z = z.flatten(2) * self.w[f"{name}_group_weight"] + self.w[f"{name}_group_bias"]
            g = g.sigmoid() if bad("sigmoid") else F.silu(g)  # bad("sigmoid")
            x = x + (g * z) @ self.w[f"{name}_o_weight"].t()
            y = F.linear(self.norm(x, f"{name}_norm2"), self.w[f"{name}_up_weight"], self.w[f"{name}_up_bias"])
            x = x + F.linear(F.gelu(y), self.w[f"{name}_down_weight"], self.w[f"{name}_down_bias"])
        return x @ self.w["head_weight"].t() + self.w["head_bias"]


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "group")
    target, ids = Own(golden), torch.randint(0, WORDS, (2, LENGTH))

    def run(model):
        with torch.no_grad():
            return model(ids)

    return lambda: run(golden), lambda: run(target)


pair.weight("gate_first", "_four")
pair.fault("one_step_less", "mul")
pair.fault("never_forgets", "add")
pair.fault("norm_of_all", "mean", "sub", "div")
pair.fault("sigmoid", "sigmoid")
