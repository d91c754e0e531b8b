"""A mixer of patches and channels: transposed linears beside products with the tokens in place."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

SIDE, PATCH, WIDTH, TOKENS, HIDDEN, CLASSES, LAYERS = 12, 3, 20, 16, 24, 7, 2

pair = Pair("mixer")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.token_up, self.token_down = nn.Linear(TOKENS, HIDDEN), nn.Linear(HIDDEN, TOKENS)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm1(x).transpose(1, 2)
        x = x + self.token_down(F.gelu(self.token_up(y))).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        own["stem_weight"] = own["stem_weight"].flatten(1)
        for i in range(LAYERS):
            for part in ("up", "down"):
                own[f"blocks_{i}_{part}_weight"] = own[f"blocks_{i}_{part}_weight"].t().contiguous()
        if bad("bias_not_loaded"):
            own["blocks_1_token_up_bias"].zero_()
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        spread, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        eps = 1e-2 if bad("epsilon") else 1e-5
        x = (x - mean) * torch.rsqrt(spread + eps)  # bad("epsilon")
        return x * self.w[f"{name}_weight"] + self.w[f"{name}_bias"]

    def block(self, x, name):
        y = self.norm(x, f"{name}_norm1")
        y = torch.matmul(self.w[f"{name}_token_up_weight"], y) + self.w[f"{name}_token_up_bias"][:, None]
        y = y if bad("no_gelu") and name == "blocks_1" else F.gelu(y)
        y = torch.matmul(self.w[f"{name}_token_down_weight"], y)  # bad("no_gelu")
        y = y + self.w[f"{name}_token_down_bias"][:, None]
        x = x + y
        y = F.gelu(self.norm(x, f"{name}_norm2") @ self.w[f"{name}_up_weight"] + self.w[f"{name}_up_bias"])
        return x + (y @ self.w[f"{name}_down_weight"] + self.w[f"{name}_down_bias"])

    def forward(self, x):
        b, n = x.shape[0], SIDE // PATCH
        x = x.view(b, 3, n, PATCH, n, PATCH)
        order = (0, 4, 2, 1, 3, 5) if bad("columns_first") else (0, 2, 4, 1, 3, 5)
        x = x.permute(order).reshape(b, TOKENS, -1)  # bad("columns_first")
        x = F.linear(x, self.w["stem_weight"], self.w["stem_bias"])
        for i in range(LAYERS):
            x = self.block(x, f"blocks_{i}")
        x = self.norm(x, "norm")
        x = x[:, 0] if bad("first_token") else x.mean(1)
        return F.linear(x, self.w["head_weight"], self.w["head_bias"])  # bad("first_token")


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, x = Own(golden), torch.randn(2, 3, SIDE, SIDE)
    return lambda: golden(x), lambda: target(x)


pair.weight("bias_not_loaded", "blocks_1_token_up_bias")
pair.fault("epsilon", "add", "rsqrt")
pair.fault("no_gelu", "matmul", "expand", "bmm")
pair.fault("columns_first", "permute", "reshape")
pair.fault("first_token", "select", "linear")
