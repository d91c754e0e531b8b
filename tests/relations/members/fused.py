"""Three projections before PyTorch's attention, cut from one weight, beside the one projection."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

HIDDEN, HEADS, TOKENS = 24, 3, 6

pair = Pair("fused")


def heads(x):
    return x.view(*x.shape[:2], HEADS, HIDDEN // HEADS).transpose(1, 2)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x):
        q, k, v = (heads(one) for one in self.qkv(x).split(HIDDEN, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        order = "qvk" if bad("values_for_keys") else "vkq" if bad("values_for_queries") else "qkv"
        self.parts = nn.ModuleDict({name: nn.Linear(HIDDEN, HIDDEN) for name in "qkv"})
        with torch.no_grad():
            for name, weight, bias in zip(order, golden.qkv.weight.chunk(3), golden.qkv.bias.chunk(3), strict=True):
                self.parts[name].weight.copy_(weight)
                self.parts[name].bias.copy_(bias)
        self.out = golden.out

    def forward(self, x):
        q, k, v = (heads(self.parts[name](x)) for name in "qkv")
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))


@pair.prepare
def prepare():
    golden = Golden()
    target, x = Own(golden), torch.randn(2, TOKENS, HIDDEN)

    def runs(model):
        with torch.no_grad():
            return model(x)

    return lambda: runs(golden), lambda: runs(target)


pair.weight("values_for_keys", "parts.")
pair.weight("values_for_queries", "parts.")
