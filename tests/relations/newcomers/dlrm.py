"""A recommender: bags of embeddings, products of all pairs, and two towers."""

import torch
from planted import Pair, bad
from torch import nn

BATCH, DENSE, TABLES, ROWS, WIDTH, BAG = 10, 6, 4, 30, 8, 3

pair = Pair("dlrm")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum") for _ in range(TABLES))
        self.bottom = nn.Sequential(nn.Linear(DENSE, 16), nn.ReLU(), nn.Linear(16, WIDTH), nn.ReLU())
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(nn.Linear(WIDTH + pairs, 16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("places", torch.tril_indices(TABLES + 1, TABLES + 1, -1))

    def forward(self, dense, ids):
        x = self.bottom(dense)
        all_of = torch.stack([x] + [table(ids[:, i]) for i, table in enumerate(self.tables)], 1)
        products = torch.bmm(all_of, all_of.transpose(1, 2))
        flat = products[:, self.places[0], self.places[1]]
        return torch.sigmoid(self.top(torch.cat((x, flat), 1)))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters() if "tables" not in n}
        tables = [table.weight.detach() for table in golden.tables]
        if bad("tables_exchanged"):
            tables[1], tables[2] = tables[2], tables[1]
        own["table"] = torch.cat(tables)
        self.w = nn.ParameterDict(own)
        self.register_buffer("starts", torch.arange(TABLES)[:, None] * ROWS)

    def dense(self, x, name):
        return torch.addmm(self.w[f"{name}_bias"], x, self.w[f"{name}_weight"].t())

    def forward(self, dense, ids):
        x = self.dense(dense, "bottom_0").clamp_min(0)
        x = self.dense(x, "bottom_2")
        x = x if bad("no_relu") else x.clamp_min(0)
        looked = self.w["table"][ids + self.starts]
        bags = looked.mean(2) if bad("mean_of_bag") else looked.sum(2)  # bad("mean_of_bag")
        all_of = torch.cat((x[:, None], bags), 1)  # bad("no_relu")
        parts = []
        for i in range(1, TABLES + 1):
            for j in range(i):
                if bad("squared") and (i, j) == (3, 1):
                    parts.append((all_of[:, i] * all_of[:, i]).sum(-1))  # bad("squared")
                else:
                    parts.append((all_of[:, i] * all_of[:, j]).sum(-1))
        flat = torch.stack(parts, 1)
        y = torch.cat((flat, x) if bad("order_of_parts") else (x, flat), 1)
        y = self.dense(y, "top_0")
        y = y.clamp_min(0)
        return 1 / (1 + torch.exp(-self.dense(y, "top_2")))


@pair.prepare
def prepare():
    golden = Golden()
    target, dense = Own(golden), torch.randn(BATCH, DENSE)
    ids = torch.randint(0, ROWS, (BATCH, TABLES, BAG))
    return lambda: golden(dense, ids), lambda: target(dense, ids)


pair.weight("tables_exchanged", "table")
pair.fault("no_relu", "cat", "unsqueeze", "slice")
pair.fault("mean_of_bag", "mean")
pair.fault("squared", "mul", "sum")
pair.fault("order_of_parts", "cat")
