"""An autoencoder with a codebook: distances by a library's function beside their squares written out."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

CODES, WIDTH, LENGTH, CHANNELS = 24, 10, 16, 6

pair = Pair("codebook")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Sequential(nn.Conv1d(2, CHANNELS, 4, 2, 1), nn.GroupNorm(2, CHANNELS), nn.SiLU())
        self.code = nn.Conv1d(CHANNELS, WIDTH, 1)
        self.book = nn.Embedding(CODES, WIDTH)
        self.back = nn.ConvTranspose1d(WIDTH, CHANNELS, 4, 2, 1)
        self.norm, self.last = nn.GroupNorm(2, CHANNELS), nn.Conv1d(CHANNELS, 2, 3, padding=1)

    def forward(self, x):
        z = self.code(self.into(x)).transpose(1, 2)
        chosen = torch.cdist(z, self.book.weight[None].expand(x.shape[0], -1, -1)).argmin(-1)
        near = self.book(chosen)
        y = self.back((z + (near - z)).transpose(1, 2))
        return self.last(F.silu(self.norm(y))), F.mse_loss(near, z)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("half_a_book"):
            own["book_weight"] = torch.cat((own["book_weight"][: CODES // 2], torch.randn(CODES // 2, WIDTH)))
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        y = x.view(x.shape[0], 3 if bad("three_groups") else 2, -1)  # bad("three_groups")
        y = F.layer_norm(y, y.shape[-1:], eps=1e-5).view_as(x)  # bad("three_groups")
        return y * self.w[f"{name}_weight"][:, None] + self.w[f"{name}_bias"][:, None]

    def back(self, x):
        b, _, n = x.shape
        wide = torch.zeros(b, x.shape[1], 2 * n - 1)
        wide[:, :, ::2] = x
        kernel = self.w["back_weight"].transpose(0, 1)
        kernel = kernel if bad("not_flipped") else kernel.flip(-1)
        return F.conv1d(wide, kernel, self.w["back_bias"], padding=2)  # bad("not_flipped")

    def forward(self, x):
        y = self.norm(F.conv1d(x, self.w["into_0_weight"], self.w["into_0_bias"], 2, 1), "into_1")
        y = y * torch.sigmoid(y)
        z = torch.einsum("bcl,wc->blw", y, self.w["code_weight"][..., 0]) + self.w["code_bias"]
        book = self.w["book_weight"]
        apart = z.square().sum(-1, keepdim=True) + book.square().sum(-1) - 2 * (z @ book.t())
        chosen = apart.argmax(-1) if bad("farthest") else apart.argmin(-1)  # bad("farthest")
        near = book[chosen]
        y = self.norm(self.back((z if bad("not_rounded") else near).transpose(1, 2)), "norm")  # bad("not_rounded")
        y = F.conv1d(y * torch.sigmoid(y), self.w["last_weight"], self.w["last_bias"], padding=1)
        return y, (near - z).square().mean()


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm", "into.1")
    target, x = Own(golden), torch.randn(3, 2, LENGTH)
    return lambda: golden(x), lambda: target(x)


pair.weight("half_a_book", "book_weight")
pair.fault("three_groups", "view", "layer_norm")
pair.fault("not_flipped", "conv1d")
pair.fault("farthest", "argmax")
pair.fault("not_rounded", "transpose", "copy_")
