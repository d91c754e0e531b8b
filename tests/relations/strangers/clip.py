"""Pictures and words in one space, with a loss both ways, a scale that is learned, and a step of AdamW by hand."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

BATCH, PIXELS, WORDS, LENGTH, WIDTH, SPACE = 6, 30, 40, 5, 20, 12

pair = Pair("clip")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Linear(PIXELS, WIDTH), nn.GELU(), nn.Linear(WIDTH, SPACE, bias=False))
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH + 2, WIDTH)
        self.norm, self.text = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SPACE, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.3))

    def forward(self, pictures, ids):
        a = F.normalize(self.picture(pictures), dim=-1)
        x = self.norm(self.embed(ids) + self.place(torch.arange(2, LENGTH + 2)))
        b = F.normalize(self.text(x.mean(1)), dim=-1)
        logits = self.scale.exp() * a @ b.t()
        labels = torch.arange(BATCH)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def normal(self, x):
        return x / x.norm(p=1 if bad("norm_of_one") else 2, dim=-1, keepdim=True)  # bad("norm_of_one")

    def forward(self, pictures, ids):
        w = self.w
        h = F.gelu(torch.addmm(w["picture_0_bias"], pictures, w["picture_0_weight"].t()))
        a = self.normal(h @ w["picture_2_weight"].t())
        first = 0 if bad("no_offset") else 2
        x = w["embed_weight"][ids] + w["place_weight"][first : first + LENGTH]  # bad("no_offset")
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        x = (x - mean) / torch.sqrt(var + 1e-5) * w["norm_weight"] + w["norm_bias"]
        x = x[:, -1] if bad("last_word") else x.sum(1) / LENGTH
        b = self.normal(x @ w["text_weight"].t())  # bad("last_word")
        logits = (a @ b.t()) * (w["scale"] if bad("no_exp") else w["scale"].exp())
        one, two = logits.log_softmax(1).diag(), logits.log_softmax(0).diag()
        if bad("one_way"):
            return -one.mean()  # bad("one_way")
        return -(one.mean() + two.mean()) / 2


@pair.prepare
def prepare():
    golden = Golden()
    target = Own(golden)
    pictures, ids = torch.randn(BATCH, PIXELS), torch.randint(0, WORDS, (BATCH, LENGTH))
    return lambda: golden(pictures, ids).backward(), lambda: target(pictures, ids).backward()


pair.fault("norm_of_one", "norm", "linalg_vector_norm")
pair.fault("no_offset", "slice")
pair.fault("last_word", "select", "matmul")
pair.fault("no_exp", "mul")
pair.fault("one_way", "mean", "neg")
