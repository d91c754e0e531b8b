"""A router of experts: one stacked product for all experts beside a loop, and a shared expert with a gate."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, INNER, EXPERTS, BEST, TOKENS = 24, 20, 5, 2, 14

pair = Pair("router")


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.shared, self.shared_gate = Expert(), nn.Linear(WIDTH, 1, bias=False)
        self.head = nn.Linear(WIDTH, 9)

    def forward(self, x):
        y = self.norm(x)
        best, chosen = self.router(y).softmax(-1).topk(BEST, -1)
        out = torch.zeros_like(y)
        for e, expert in enumerate(self.experts):
            rows, place = (chosen == e).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(y[rows]) * best[rows, place, None])
        out = out + torch.sigmoid(self.shared_gate(y)) * self.shared(y)
        return self.head(x + out)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.norm, self.router, self.shared_gate = golden.norm, golden.router, golden.shared_gate
        self.shared, self.head = golden.shared, golden.head
        stacked = {
            n: torch.stack([getattr(e, n).weight.detach() for e in golden.experts]) for n in ("gate", "up", "down")
        }
        if bad("experts_rolled"):
            stacked["down"] = stacked["down"].roll(1, 0)
        self.gate, self.up = nn.Parameter(stacked["gate"]), nn.Parameter(stacked["up"])
        self.down = nn.Parameter(stacked["down"])

    def forward(self, x):
        y = F.layer_norm(x, (WIDTH,), self.norm.weight, self.norm.bias)
        scores = y @ self.router.weight.t()
        if bad("topk_first"):
            best, chosen = scores.topk(BEST, -1)  # bad("topk_first")
            best = best.softmax(-1)  # bad("topk_first")
        else:
            best, chosen = scores.softmax(-1).topk(BEST, -1)
        if bad("normalised"):
            best = best / best.sum(-1, keepdim=True)  # bad("normalised")
        share = torch.zeros_like(scores).scatter(-1, chosen, best)
        hidden = F.silu(torch.einsum("td,eid->tei", y, self.gate)) * torch.einsum("td,eid->tei", y, self.up)
        out = torch.einsum("tei,edi->ted", hidden, self.down)
        out = (out * share[..., None]).sum(1)
        own = self.shared.down(F.silu(self.shared.gate(y)) * self.shared.up(y))
        gate = self.shared_gate(y)
        own = own * (gate if bad("gate_not_bent") else gate.sigmoid())
        return self.head(x + out + own)


@pair.prepare
def prepare():
    golden = Golden()
    for name, weight in golden.named_parameters():
        weight.data.mul_(3 if "router" in name else 1)
    target, x = Own(golden), torch.randn(TOKENS, WIDTH)
    return lambda: golden(x), lambda: target(x)


pair.weight("experts_rolled", "down")
pair.fault("topk_first", "softmax", "topk")
pair.fault("normalised", "div")
pair.fault("gate_not_bent", "mul")
