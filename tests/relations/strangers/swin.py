"""Swin: shifted windows with a mask and a table of biases, window after window in a loop."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, HEADS, SIDE, WINDOW, SHIFT = 16, 2, 8, 4, 2
HEAD, TOKENS, COUNT = WIDTH // HEADS, WINDOW**2, SIDE // WINDOW

pair = Pair("swin")


def places():
    grid = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
    apart = grid[:, :, None] - grid[:, None, :] + WINDOW - 1
    return apart[0] * (2 * WINDOW - 1) + apart[1]


def hidden():
    number = torch.zeros(SIDE, SIDE)
    cuts = (slice(0, -WINDOW), slice(-WINDOW, -SHIFT), slice(-SHIFT, None))
    for i, rows in enumerate(cuts):
        for j, columns in enumerate(cuts):
            number[rows, columns] = 3 * i + j
    number = number.view(COUNT, WINDOW, COUNT, WINDOW).transpose(1, 2).reshape(-1, TOKENS)
    return torch.where(number[:, None] == number[:, :, None], 0.0, -100.0)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.table = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, HEADS))
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, place, mask):
        y = self.norm1(x).roll((-SHIFT, -SHIFT), (1, 2))
        y = y.view(-1, COUNT, WINDOW, COUNT, WINDOW, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, TOKENS, WIDTH)
        q, k, v = self.qkv(y).view(-1, TOKENS, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        bias = self.table[place.flatten()].view(TOKENS, TOKENS, HEADS).permute(2, 0, 1)
        bias = bias[None] + mask.repeat(x.shape[0], 1, 1)[:, None]
        y = self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))
        y = y.view(-1, COUNT, COUNT, WINDOW, WINDOW, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, SIDE, SIDE, WIDTH)
        x = x + y.roll((SHIFT, SHIFT), (1, 2))
        return x + self.mlp(self.norm2(x))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def attend(self, x, bias, mask):
        fused = F.linear(x.flatten(1, 2), self.w["qkv_weight"], self.w["qkv_bias"])
        q, k, v = fused.chunk(3, -1)
        q, k, v = (part.unflatten(-1, (HEADS, HEAD)).transpose(1, 2) for part in (q, k, v))
        scores = (q * HEAD**-0.5) @ k.mT + (bias.mT if bad("bias_transposed") else bias)
        if not bad("no_mask"):
            scores = scores + mask
        y = scores.softmax(-1) @ v  # bad("no_mask")
        return F.linear(y.transpose(1, 2).flatten(2), self.w["proj_weight"], self.w["proj_bias"]).view_as(x)

    def forward(self, x, place, mask):
        y = torch.roll(self.norm(x, "norm1"), (SHIFT, SHIFT) if bad("shift_ahead") else (-SHIFT, -SHIFT), (1, 2))
        bias = F.embedding(place, self.w["table"]).permute(2, 0, 1)
        rows = []
        for i in range(COUNT):
            row = []
            for j in range(COUNT):
                window = y[:, i * WINDOW : (i + 1) * WINDOW, j * WINDOW : (j + 1) * WINDOW]
                number = j * COUNT + i if bad("masks_exchanged") else i * COUNT + j
                row.append(self.attend(window, bias, mask[number]))  # bad("masks_exchanged")
            rows.append(torch.cat(row, 2))
        y = torch.cat(rows, 1)
        if not bad("not_shifted_back"):
            y = torch.roll(y, (SHIFT, SHIFT), (1, 2))
        x = x + y  # bad("not_shifted_back")
        y = F.gelu(F.linear(self.norm(x, "norm2"), self.w["mlp_0_weight"], self.w["mlp_0_bias"]))
        return x + F.linear(y, self.w["mlp_2_weight"], self.w["mlp_2_bias"])


@pair.prepare
def prepare():
    golden = Golden()
    target, x, place, mask = Own(golden), torch.randn(2, SIDE, SIDE, WIDTH), places(), hidden()
    return lambda: golden(x, place, mask), lambda: target(x, place, mask)


pair.fault("bias_transposed", "add", "mt", "transpose", "numpy_t", "matrix_h", "t")
pair.fault("no_mask", "softmax")
pair.fault("shift_ahead", "roll")
pair.fault("masks_exchanged", "select", "add")
pair.fault("not_shifted_back", "add")
