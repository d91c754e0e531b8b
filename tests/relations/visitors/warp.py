"""A spatial transformer: pictures turned by a small network; a library's grid beside four looked-up corners."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

SIDE, CHANNELS, WIDTH, CLASSES, BATCH = 10, 3, 12, 9, 4

pair = Pair("warp")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.look, self.locate = nn.Conv2d(CHANNELS, 6, 3, stride=2), nn.Linear(6 * 16, 6)
        self.conv, self.head = nn.Conv2d(CHANNELS, WIDTH, 3, padding=1), nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        theta = self.locate(F.relu(self.look(x)).flatten(1)).view(-1, 2, 3) + torch.eye(2, 3)
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        x = F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
        return self.head(F.elu(self.conv(x)).mean((2, 3)))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("turned_matrix"):
            order = [0, 3, 1, 4, 2, 5]
            own["locate_weight"], own["locate_bias"] = own["locate_weight"][order], own["locate_bias"][order]
        self.w = nn.ParameterDict(own)

    def places(self, x):
        frames = F.unfold(x, 3, stride=2)
        y = self.w["look_weight"].flatten(1) @ frames + self.w["look_bias"][:, None]
        y = y.clamp(min=0).flatten(1) @ self.w["locate_weight"].T + self.w["locate_bias"]
        theta = y.view(-1, 2, 3) + torch.eye(2, 3)
        steps = torch.linspace(-1, 1, SIDE) if bad("corners") else (2 * torch.arange(SIDE) + 1) / SIDE - 1
        down, along = torch.meshgrid(steps, steps, indexing="ij")
        points = torch.stack((along, down, torch.ones_like(down)), -1).view(-1, 3)  # bad("corners")
        return points @ theta.mT

    def sampled(self, x, places):
        at = ((places + 1) * SIDE - 1) / 2
        first = at.floor()
        right, below = (at - first).unbind(-1)
        column, row = first.long().unbind(-1)
        if bad("axes_exchanged"):
            column, row = row, column
        result = 0
        for down in (0, 1):
            for along in (0, 1):
                r, c = row + down, column + along
                inside = (r >= 0) & (r < SIDE) & (c >= 0) & (c < SIDE)
                flat = r.clamp(0, SIDE - 1) * SIDE + c.clamp(0, SIDE - 1)
                found = x.flatten(2).gather(2, flat[:, None].expand(-1, CHANNELS, -1))  # bad("axes_exchanged")
                share = (below if down else 1 - below) * (right if along else 1 - right)
                if not bad("border"):
                    share = share * inside
                result = result + found * share[:, None]  # bad("border")
        return result.view(x.shape)

    def forward(self, x):
        x = self.sampled(x, self.places(x))
        y = F.conv2d(x, self.w["conv_weight"], self.w["conv_bias"], padding=1)
        y = F.celu(y, 0.5) if bad("celu") else torch.where(y > 0, y, y.expm1())  # bad("celu")
        return F.linear(y.flatten(2).mean(-1), self.w["head_weight"], self.w["head_bias"])


@pair.prepare
def prepare():
    golden = Golden()
    golden.locate.weight.data.mul_(0.5)
    target, x = Own(golden), torch.randn(BATCH, CHANNELS, SIDE, SIDE)

    def run(model):
        with torch.no_grad():
            return model(x)

    return lambda: run(golden), lambda: run(target)


pair.weight("turned_matrix", "locate")
pair.fault("corners", "stack", "view")
pair.fault("axes_exchanged", "gather")
pair.fault("border", "mul", "add")
pair.fault("celu", "celu")
