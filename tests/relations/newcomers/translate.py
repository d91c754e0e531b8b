"""A GRU decoder that attends over encoded tokens: step after step beside steps with cells of its own."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, WORDS, SOURCE, STEPS, BATCH = 12, 20, 6, 4, 2

pair = Pair("translate")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.cell = nn.Embedding(WORDS, WIDTH), nn.GRUCell(2 * WIDTH, WIDTH)
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.score, self.head = nn.Linear(WIDTH, 1, bias=False), nn.Linear(2 * WIDTH, WORDS)

    def forward(self, source, hidden, ids, mask):
        state, keys, out = source.mean(1), self.key(source), []
        for t in range(STEPS):
            scores = self.score(torch.tanh(self.query(state)[:, None] + keys)).squeeze(-1)
            share = scores.masked_fill(mask, -1e4).softmax(-1)
            seen = (share[:, None] @ source)[:, 0]
            state = self.cell(torch.cat((self.words(ids[:, t]), seen), -1), state)
            out.append(self.head(torch.cat((state, seen), -1)))
        return torch.stack(out, 1)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("query_transposed"):
            own["query_weight"] = own["query_weight"].t().contiguous()
        self.w = nn.ParameterDict(own)

    def cell(self, x, state):
        a = F.linear(x, self.w["cell_weight_ih"], self.w["cell_bias_ih"])
        b = F.linear(state, self.w["cell_weight_hh"], self.w["cell_bias_hh"])
        (r1, z1, n1), (r2, z2, n2) = a.chunk(3, -1), b.chunk(3, -1)
        r, z = (r1 + r2).sigmoid(), (z1 + z2).sigmoid()
        n = (n1 + r * n2).tanh()
        if bad("gate_turned"):
            return torch.lerp(state, n, z)  # bad("gate_turned")
        return torch.lerp(n, state, z)

    def forward(self, source, hidden, ids, mask):
        state, out = source.sum(1) / SOURCE, []
        keys = F.linear(source, self.w["key_weight"])
        words = self.w["words_weight"][ids]
        for t in range(STEPS):
            query = F.linear(state, self.w["query_weight"], self.w["query_bias"])
            both = torch.tanh(query.unsqueeze(1) + keys)
            scores = (both * self.w["score_weight"]).sum(-1)
            if not bad("mask_left_out"):
                scores = torch.where(mask, -1e4, scores)
            share = torch.softmax(scores, -1)  # bad("mask_left_out")
            seen = torch.einsum("bs,bsw->bw", share, keys if bad("sum_of_keys") else source)  # bad("sum_of_keys")
            x = torch.cat((words[:, max(t - 1, 0) if bad("word_late") else t], seen), -1)  # bad("word_late")
            state = self.cell(x, state)
            y = torch.cat((seen, state) if bad("head_order") else (state, seen), -1)  # bad("head_order")
            out.append(F.linear(y, self.w["head_weight"], self.w["head_bias"]))
        return torch.stack(out, 1)


@pair.prepare
def prepare():
    golden = Golden()
    target, source = Own(golden), torch.randn(BATCH, SOURCE, WIDTH)
    ids = torch.randint(0, WORDS, (BATCH, STEPS))
    mask = torch.arange(SOURCE) >= torch.tensor([[SOURCE], [SOURCE - 2]])
    return lambda: golden(source, None, ids, mask), lambda: target(source, None, ids, mask)


pair.weight("query_transposed", "query")
pair.fault("gate_turned", "lerp")
pair.fault("mask_left_out", "softmax")
pair.fault("sum_of_keys", "einsum", "bmm")
pair.fault("word_late", "cat", "select", "slice")
pair.fault("head_order", "cat")
