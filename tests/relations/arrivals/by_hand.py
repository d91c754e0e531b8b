"""A language model of characters in training: gradients by PyTorch beside gradients that are written out."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WORDS, WIDTH, CONTEXT, HIDDEN, BATCH = 27, 8, 3, 20, 16
RATE = 0.1

pair = Pair("by_hand")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.first, self.last = nn.Linear(CONTEXT * WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WORDS)
        self.norm = nn.BatchNorm1d(HIDDEN)

    def forward(self, ids):
        return self.last(torch.tanh(self.norm(self.first(self.embed(ids).flatten(1)))))


def train(model, optimizer, ids, labels):
    for i in range(2):
        loss = F.cross_entropy(model(ids[i]), labels[i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def forward(w, ids):
    emb = w["C"][ids]
    embcat = emb.view(BATCH, -1)
    hprebn = embcat @ w["W1"]
    bnmeani = hprebn.mean(0, keepdim=True)
    bndiff = hprebn - bnmeani
    count = BATCH - 1 if bad("ddof") else BATCH
    bnvar = bndiff.square().sum(0, keepdim=True) / count  # bad("ddof")
    bnvar_inv = (bnvar + 1e-5) ** -0.5
    bnraw = bndiff * bnvar_inv
    h = torch.tanh(w["bngain"] * bnraw + w["bnbias"])
    return embcat, bnraw, bnvar_inv, h, h @ w["W2"] + w["b2"]


def backward(w, ids, labels, kept):
    embcat, bnraw, bnvar_inv, h, logits = kept
    dlogits = F.softmax(logits, 1)
    dlogits[range(BATCH), labels] -= 1
    if not bad("summed"):
        dlogits = dlogits / BATCH
    dh = dlogits @ w["W2"].t()  # bad("summed")
    grads = {"W2": h.t() @ dlogits, "b2": dlogits.sum(0)}  # bad("summed")
    slope = 1 - h if bad("tanh_slope") else 1 - h * h  # bad("tanh_slope")
    dhpreact = slope * dh
    grads["bngain"], grads["bnbias"] = (bnraw * dhpreact).sum(0, keepdim=True), dhpreact.sum(0, keepdim=True)
    if bad("norm_as_constant"):
        inner = BATCH * dhpreact - dhpreact.sum(0)  # bad("norm_as_constant")
    else:
        inner = BATCH * dhpreact - dhpreact.sum(0) - bnraw * (dhpreact * bnraw).sum(0)
    dhprebn = w["bngain"] * bnvar_inv / BATCH * inner  # bad("norm_as_constant")
    grads["W1"], demb = embcat.t() @ dhprebn, (dhprebn @ w["W1"].t()).view(BATCH * CONTEXT, WIDTH)
    if bad("last_one_wins"):
        grads["C"] = torch.zeros(WORDS, WIDTH).index_put_((ids.flatten(),), demb)  # bad("last_one_wins")
    else:
        grads["C"] = torch.zeros(WORDS, WIDTH).index_add_(0, ids.flatten(), demb)
    return grads


def train_by_hand(w, ids, labels):
    for i in range(2):
        kept = forward(w, ids[i])
        shifted = kept[-1] - kept[-1].max(1, keepdim=True).values
        logprobs = shifted - shifted.exp().sum(1, keepdim=True).log()
        -logprobs[range(BATCH), labels[i]].mean()
        for name, grad in backward(w, ids[i], labels[i], kept).items():
            w[name] += -RATE * grad


@pair.prepare
def prepare():
    golden = Golden().train()
    unsettle(golden, "norm")
    optimizer = torch.optim.SGD(golden.parameters(), RATE)
    own = {n: p.detach().clone() for n, p in golden.named_parameters()}
    w = {
        "C": own["embed.weight"], "W1": own["first.weight"].t().contiguous(), "bngain": own["norm.weight"][None],
        "bnbias": own["norm.bias"][None], "W2": own["last.weight"].t().contiguous(), "b2": own["last.bias"],
    }  # fmt: skip
    ids, labels = torch.randint(0, WORDS, (2, BATCH, CONTEXT)), torch.randint(0, WORDS, (2, BATCH))
    return lambda: train(golden, optimizer, ids, labels), lambda: train_by_hand(w, ids, labels)


pair.fault("ddof", "div")
pair.fault("summed", "matmul", "sum")
pair.fault("tanh_slope", "rsub")
pair.fault("norm_as_constant", "sub", "mul")
pair.fault("last_one_wins", "index_put_")
