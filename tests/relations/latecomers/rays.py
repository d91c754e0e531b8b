"""A field along rays: colours and densities of sampled points, joined from front to back."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

RAYS, SAMPLES, BANDS, WIDTH = 6, 9, 3, 20
CODED = 3 + 6 * BANDS

pair = Pair("rays")


def coded(x):
    parts = [x]
    for i in range(BANDS):
        parts += [torch.sin(2.0**i * x), torch.cos(2.0**i * x)]
    return torch.cat(parts, -1)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(CODED, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.third = nn.Linear(WIDTH + CODED, WIDTH)
        self.density, self.feature = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, WIDTH)
        self.mix, self.colour = nn.Linear(WIDTH + 3, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, start, way, depth):
        points = start[:, None] + way[:, None] * depth[..., None]
        code = coded(points)
        h = F.relu(self.second(F.relu(self.first(code))))
        h = F.relu(self.third(torch.cat((h, code), -1)))
        density = F.relu(self.density(h)).squeeze(-1)
        h = torch.cat((self.feature(h), F.normalize(way, dim=-1)[:, None].expand(-1, SAMPLES, -1)), -1)
        colour = torch.sigmoid(self.colour(F.relu(self.mix(h))))
        gap = torch.cat((depth[:, 1:] - depth[:, :-1], torch.full((RAYS, 1), 0.5)), 1)
        alpha = 1 - torch.exp(-density * gap)
        seen = torch.cumprod(torch.cat((torch.ones(RAYS, 1), 1 - alpha), 1), 1)[:, :-1]
        return ((alpha * seen)[..., None] * colour).sum(1)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("skip_columns"):
            own["third_weight"] = torch.cat((own["third_weight"][:, WIDTH:], own["third_weight"][:, :WIDTH]), 1)
        self.w = nn.ParameterDict(own)

    def linear(self, x, name):
        return torch.addmm(self.w[f"{name}_bias"], x, self.w[f"{name}_weight"].t())

    def forward(self, start, way, depth):
        points = torch.addcmul(start[:, None], way[:, None], depth[..., None]).flatten(0, 1)
        scaled = points[:, None] * (2.0 ** torch.arange(BANDS))[:, None]
        if bad("bands_of_pi"):
            scaled = scaled * torch.pi  # bad("bands_of_pi")
        code = torch.cat((points, torch.cat((scaled.sin(), scaled.cos()), -1).flatten(1)), 1)
        h = self.linear(self.linear(code, "first").clamp_min(0), "second").clamp_min(0)
        h = self.linear(torch.cat((h, code), 1), "third").clamp_min(0)
        density = self.linear(h, "density")
        density = F.softplus(density) if bad("softplus") else density.clamp_min(0)  # bad("softplus")
        ways = way if bad("way_not_normal") else way / way.norm(dim=-1, keepdim=True)
        h = torch.cat((self.linear(h, "feature"), ways.repeat_interleave(SAMPLES, 0)), 1)  # bad("way_not_normal")
        colour = self.linear(self.linear(h, "mix").clamp_min(0), "colour").sigmoid().view(RAYS, SAMPLES, 3)
        gap = torch.cat((depth.diff(dim=1), torch.full((RAYS, 1), 0.5)), 1)
        passed = density.view(RAYS, SAMPLES) * gap
        before = passed.cumsum(1)
        if not bad("with_itself"):
            before = before - passed
        light = torch.exp(-before) * (1 - torch.exp(-passed))  # bad("with_itself")
        return torch.einsum("rs,rsc->rc", light, colour)


@pair.prepare
def prepare():
    golden = Golden()
    target, start, way = Own(golden), torch.randn(RAYS, 3), torch.randn(RAYS, 3)
    depth = torch.rand(RAYS, SAMPLES).cumsum(1)
    return lambda: golden(start, way, depth), lambda: target(start, way, depth)


pair.weight("skip_columns", "third_weight")
pair.fault("bands_of_pi", "mul")
pair.fault("softplus", "softplus")
pair.fault("way_not_normal", "repeat_interleave", "cat")
pair.fault("with_itself", "neg", "exp")
