"""An encoder layer with attention by einsum, sequence first, beside torch.nn's TransformerEncoderLayer."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, TOKENS = 32, 4, 7
WIDTH = HIDDEN // HEADS

pair = Pair("attention")


class Layer(nn.Module):
    def __init__(self, golden):
        super().__init__()
        w, b = golden.self_attn.in_proj_weight.detach(), golden.self_attn.in_proj_bias.detach()
        self.wq, self.wk, self.wv = (nn.Parameter(x.view(HEADS, WIDTH, HIDDEN).clone()) for x in w.chunk(3))
        self.bq, self.bk, self.bv = (nn.Parameter(x.view(HEADS, 1, WIDTH).clone()) for x in b.chunk(3))
        out = golden.self_attn.out_proj.weight.detach()
        if bad("heads_exchanged"):
            self.wo = nn.Parameter(out.view(HIDDEN, WIDTH, HEADS).permute(2, 1, 0).clone())
        else:
            self.wo = nn.Parameter(out.view(HIDDEN, HEADS, WIDTH).permute(1, 2, 0).clone())
        self.bo = nn.Parameter(golden.self_attn.out_proj.bias.detach().clone())
        self.linear1, self.linear2 = golden.linear1, golden.linear2
        self.norm1, self.norm2 = golden.norm1, golden.norm2

    def attend(self, x):
        q = torch.einsum("tbi,hdi->bhtd", x, self.wq) + self.bq
        k = torch.einsum("tbi,hdi->bhtd", x, self.wk) + self.bk
        v = torch.einsum("tbi,hdi->bhtd", x, self.wv) + self.bv
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / (HIDDEN if bad("scale") else WIDTH) ** 0.5
        share = torch.softmax(scores, -1)
        share = share / 0.9 if bad("dropout_scale") else share
        return torch.einsum("bhqk,bhkd,hdo->qbo", share, v, self.wo) + self.bo

    def forward(self, x):
        y = self.attend(x)
        x = x + self.norm1(y) if bad("norm_before_sum") else self.norm1(x + y)
        y = self.linear2(F.relu(self.linear1(x)))
        return self.norm1(x + y) if bad("first_norm_twice") else self.norm2(x + y)


@pair.prepare
def prepare():
    golden = nn.TransformerEncoderLayer(HIDDEN, HEADS, 64, dropout=0.0, batch_first=True)
    with torch.no_grad():
        for weight in golden.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    target = Layer(golden)
    x = torch.randn(3, TOKENS, HIDDEN)
    first = x.transpose(0, 1).contiguous()

    def run_golden():
        golden(x).pow(2).mean().backward()

    def run_target():
        target(first).pow(2).mean().backward()

    return run_golden, run_target


pair.fault("scale", "div")
pair.fault("dropout_scale", "div")
pair.fault("norm_before_sum", "layer_norm", "add")
pair.fault("first_norm_twice", "layer_norm")
pair.weight("heads_exchanged", "wo")
