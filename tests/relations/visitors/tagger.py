"""A tagger trained by sums over all ways through a sentence: in logarithms step by step, beside products of shares."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WORDS, WIDTH, TAGS, LENGTH, BATCH = 30, 12, 5, 6, 3

pair = Pair("tagger")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.conv = nn.Embedding(WORDS, WIDTH), nn.Conv1d(WIDTH, 16, 3, padding=1)
        self.head = nn.Linear(16, TAGS)
        self.first, self.moves = nn.Parameter(torch.randn(TAGS)), nn.Parameter(torch.randn(TAGS, TAGS))

    def forward(self, ids, tags):
        x = torch.tanh(self.conv(self.embed(ids).transpose(1, 2))).transpose(1, 2)
        scores = self.head(x)
        right = self.first[tags[:, 0]] + scores.gather(2, tags[..., None]).sum((1, 2))
        right = right + self.moves[tags[:, :-1], tags[:, 1:]].sum(1)
        ways = self.first + scores[:, 0]
        for t in range(1, LENGTH):
            ways = torch.logsumexp(ways[:, :, None] + self.moves, 1) + scores[:, t]
        loss = (torch.logsumexp(ways, 1) - right).mean()
        loss.backward()
        return loss


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        own["conv_weight"] = own["conv_weight"].permute(2, 1, 0).contiguous()
        if bad("moves_turned"):
            own["moves"] = own["moves"].t().contiguous()
        self.w = nn.ParameterDict(own)

    def scores(self, ids):
        x = F.embedding(ids, self.w["embed_weight"])
        around = F.pad(x, (0, 0, 1, 1))
        if bad("ahead"):
            around = F.pad(x, (0, 0, 0, 2))  # bad("ahead")
        y = sum(around[:, i : i + LENGTH] @ self.w["conv_weight"][i] for i in range(3)) + self.w["conv_bias"]
        y = torch.sigmoid(2 * y) * 2 - 1
        return y @ self.w["head_weight"].t() + self.w["head_bias"]

    def forward(self, ids, tags):
        scores, w = self.scores(ids), self.w
        one_hot = F.one_hot(tags, TAGS).to(scores.dtype)
        right = (scores * one_hot).sum((1, 2))
        moved = torch.einsum("bti,ij,btj->b", one_hot[:, :-1], w["moves"], one_hot[:, 1:])
        begun = 0 if bad("first_left_out") else one_hot[:, 0] @ w["first"]
        right = right + moved + begun  # bad("first_left_out")
        ways, size = (w["first"] + scores[:, 0]).exp(), 0
        for t in range(1, LENGTH):
            ways = (ways @ w["moves"].exp()) * scores[:, t].exp()
            total = ways.amax(1, keepdim=True) if bad("largest") else ways.sum(1, keepdim=True)
            ways, size = ways / total, size + total.log()  # bad("largest")
        last = ways.amax(1, keepdim=True) if bad("largest") else ways.sum(1, keepdim=True)
        all_ways = (size + last.log()).squeeze(1)  # bad("largest")
        loss = (all_ways - right).sum()  # bad("sum_for_mean")
        if not bad("sum_for_mean"):
            loss = loss / BATCH
        loss.backward()
        return loss


@pair.prepare
def prepare():
    golden = Golden()
    target, ids = Own(golden), torch.randint(0, WORDS, (BATCH, LENGTH))
    tags = torch.randint(0, TAGS, (BATCH, LENGTH))
    return lambda: golden(ids, tags), lambda: target(ids, tags)


pair.weight("moves_turned", "moves")
pair.fault("ahead", "pad", "constant_pad_nd")
pair.fault("first_left_out", "add")
pair.fault("largest", "log", "add", "squeeze")
pair.fault("sum_for_mean", "sum")
