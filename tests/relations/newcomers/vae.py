"""A variational autoencoder with group norms: modules beside functions, and a step of training's loss."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, LATENT, SIDE, GROUPS = 8, 6, 8, 2

pair = Pair("vae")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.norm1 = nn.Conv2d(3, WIDTH, 3, 2, 1), nn.GroupNorm(GROUPS, WIDTH)
        self.mean, self.spread = nn.Linear(WIDTH * 16, LATENT), nn.Linear(WIDTH * 16, LATENT)
        self.widen, self.norm2 = nn.Linear(LATENT, WIDTH * 16), nn.GroupNorm(GROUPS, WIDTH)
        self.smooth, self.last = nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 1)

    def forward(self, x, noise):
        y = F.silu(self.norm1(self.down(x))).flatten(1)
        mean, spread = self.mean(y), self.spread(y)
        z = mean + torch.exp(0.5 * spread) * noise
        y = F.silu(self.norm2(self.widen(z).view(-1, WIDTH, 4, 4)))
        y = F.leaky_relu(self.smooth(F.interpolate(y, scale_factor=2, mode="nearest")), 0.2)
        out = torch.tanh(self.last(y))
        apart = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(1).mean()
        return F.mse_loss(out, x) + 0.1 * apart


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for part in ("weight", "bias"):
            own[f"both_{part}"] = torch.cat((own.pop(f"mean_{part}"), own.pop(f"spread_{part}")))
        if bad("bias_halves"):
            own["both_bias"] = own["both_bias"].roll(LATENT)
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        y = x.reshape(x.shape[0], GROUPS, -1)
        if bad("ddof") and name == "norm2":
            y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True) + 1e-5).sqrt()  # bad("ddof")
        else:
            y = (y - y.mean(-1, keepdim=True)) / (y.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return y.view_as(x) * self.w[f"{name}_weight"][:, None, None] + self.w[f"{name}_bias"][:, None, None]

    def forward(self, x, noise):
        y = self.norm(F.conv2d(x, self.w["down_weight"], self.w["down_bias"], 2, 1), "norm1")
        y = (y * y.sigmoid()).flatten(1)
        mean, spread = F.linear(y, self.w["both_weight"], self.w["both_bias"]).chunk(2, 1)
        deviation = (spread if bad("not_halved") else spread / 2).exp()
        z = torch.addcmul(mean, deviation, noise)
        y = F.linear(z, self.w["widen_weight"], self.w["widen_bias"]).unflatten(1, (WIDTH, 4, 4))
        y = self.norm(y, "norm2")
        y = y * y.sigmoid()
        if bad("bilinear"):
            y = F.interpolate(y, scale_factor=2, mode="bilinear")  # bad("bilinear")
        else:
            y = y.repeat_interleave(2, 2).repeat_interleave(2, 3)
        y = F.conv2d(y, self.w["smooth_weight"], self.w["smooth_bias"], padding=1)
        slope = 0.01 if bad("slope") else 0.2
        y = torch.where(y > 0, y, slope * y)  # bad("slope")
        out = F.conv2d(y, self.w["last_weight"], self.w["last_bias"]).tanh()
        each = mean.square() + spread.exp() - 1 - spread
        apart = each.mean() / 2 if bad("mean_of_all") else each.sum(1).mean() / 2  # bad("mean_of_all")
        return (out - x).square().mean() + apart * 0.1


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, x, noise = Own(golden), torch.rand(3, 3, SIDE, SIDE), torch.randn(3, LATENT)
    return lambda: golden(x, noise), lambda: target(x, noise)


pair.weight("bias_halves", "both_bias")
pair.fault("ddof", "var", "add", "sqrt", "div")
pair.fault("not_halved", "exp")
pair.fault("bilinear", "upsample_bilinear2d", "interpolate")
pair.fault("slope", "mul", "where")
pair.fault("mean_of_all", "mean")
