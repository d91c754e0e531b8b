"""Columns of a table as tokens: one layer for each number, beside one product for all; the first token decides."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

NUMBERS, KINDS, WIDTH, HEADS, CLASSES, BATCH = 5, (4, 6, 3), 24, 3, 9, 4
HEAD = WIDTH // HEADS

pair = Pair("tabular")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.numbers = nn.ModuleList(nn.Linear(1, WIDTH) for _ in range(NUMBERS))
        self.tables = nn.ModuleList(nn.Embedding(kinds, WIDTH) for kinds in KINDS)
        self.start = nn.Parameter(torch.randn(WIDTH))
        self.attention, self.norm = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), nn.LayerNorm(WIDTH)
        self.gate, self.down = nn.Linear(WIDTH, 2 * 32), nn.Linear(32, WIDTH)
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, numbers, kinds):
        tokens = [self.start.expand(len(numbers), WIDTH)]
        tokens += [layer(numbers[:, i : i + 1]) for i, layer in enumerate(self.numbers)]
        tokens += [table(kinds[:, i]) for i, table in enumerate(self.tables)]
        x = torch.stack(tokens, 1)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        a, b = self.gate(x).chunk(2, -1)
        x = x + self.down(a * F.relu(b))
        return self.head(F.relu(self.last(x[:, 0])))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        w = {n.replace(".", "_"): one.detach().clone() for n, one in golden.named_parameters()}
        scales, shifts = ([w.pop(f"numbers_{i}_{n}") for i in range(NUMBERS)] for n in ("weight", "bias"))
        w["scales"], w["shifts"] = torch.stack(scales)[..., 0], torch.stack(shifts)
        tables = [w.pop(f"tables_{i}_weight") for i in range(len(KINDS))]
        w["table"] = torch.cat(tables[::-1] if bad("tables_reversed") else tables)
        self.w = nn.ParameterDict(w)
        self.offsets = torch.tensor([0, *KINDS[:-1]]).cumsum(0)

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def attend(self, x):
        y = F.linear(x, self.w["attention_in_proj_weight"], self.w["attention_in_proj_bias"])
        q, k, v = y.view(*x.shape[:2], 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        y = ((q @ k.mT) / HEAD**0.5).softmax(-1) @ v
        return F.linear(
            y.transpose(1, 2).flatten(2), self.w["attention_out_proj_weight"], self.w["attention_out_proj_bias"]
        )

    def forward(self, numbers, kinds):
        of_numbers = numbers[..., None] * self.w["scales"] + self.w["shifts"]
        of_kinds = F.embedding(kinds + self.offsets, self.w["table"])
        x = torch.cat((self.w["start"].expand(len(numbers), 1, WIDTH), of_numbers, of_kinds), 1)
        x = x + self.attend(self.norm(x, "norm"))
        a, b = F.linear(x, self.w["gate_weight"], self.w["gate_bias"]).chunk(2, -1)
        x = x + F.linear(a * b.clamp(min=0), self.w["down_weight"], self.w["down_bias"])
        x = x.mean(1) if bad("mean_of_all") else x[:, 0]  # bad("mean_of_all")
        return F.linear(self.norm(x, "last").relu(), self.w["head_weight"], self.w["head_bias"])


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "last", "bias")
    target, numbers = Own(golden), torch.randn(BATCH, NUMBERS)
    kinds = torch.stack([torch.randint(0, kinds, (BATCH,)) for kinds in KINDS], 1)

    def run(model):
        with torch.no_grad():
            return model(numbers, kinds)

    return lambda: run(golden), lambda: run(target)


pair.weight("tables_reversed", "table")
pair.fault("mean_of_all", "mean")
