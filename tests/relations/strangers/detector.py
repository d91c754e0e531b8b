"""A feature pyramid with a head: strided convolutions as products of patches, sizes doubled, scores and boxes apart."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

CHANNELS, SIDE, CLASSES, ANCHORS = 8, 16, 3, 2

pair = Pair("detector")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 4, stride=4)
        self.deep = nn.Conv2d(CHANNELS, 2 * CHANNELS, 2, stride=2)
        self.side1, self.side2 = nn.Conv2d(CHANNELS, CHANNELS, 1), nn.Conv2d(2 * CHANNELS, CHANNELS, 1)
        self.smooth = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.scores = nn.Conv2d(CHANNELS, ANCHORS * CLASSES, 1)
        self.boxes = nn.Conv2d(CHANNELS, ANCHORS * 4, 1)

    def forward(self, x):
        c1 = F.gelu(self.stem(x))
        c2 = F.gelu(self.deep(c1))
        p2 = self.side2(c2)
        p1 = self.smooth(self.side1(c1) + F.interpolate(p2, scale_factor=2, mode="nearest"))
        out = []
        for level in (p1, p2):
            score = self.scores(level).unflatten(1, (ANCHORS, CLASSES)).permute(0, 3, 4, 1, 2).flatten(1, 3)
            box = self.boxes(level).unflatten(1, (ANCHORS, 4)).permute(0, 3, 4, 1, 2).flatten(1, 3)
            out.append(torch.cat((score.sigmoid(), box[..., :2], box[..., 2:].exp()), -1))
        return torch.cat(out, 1)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for name in ("stem", "deep", "side1", "side2", "scores", "boxes"):
            weight = own[f"{name}_weight"]
            own[f"{name}_weight"] = weight.permute(2, 3, 1, 0).flatten(0, 2)
        if bad("patch_order"):
            own["deep_weight"] = golden.deep.weight.detach().flatten(1).t().contiguous()
        self.w = nn.ParameterDict(own)

    def patches(self, x, size, name):
        b, h, w, c = x.shape
        x = x.view(b, h // size, size, w // size, size, c).transpose(2, 3).reshape(b, h // size, w // size, -1)
        return x @ self.w[f"{name}_weight"] + self.w[f"{name}_bias"]

    def forward(self, x):
        c1 = F.gelu(self.patches(x.permute(0, 2, 3, 1), 4, "stem"))
        c2 = F.gelu(self.patches(c1, 2, "deep"))
        if bad("tanh_gelu"):
            c2 = F.gelu(self.patches(c1, 2, "deep"), approximate="tanh")  # bad("tanh_gelu")
        p2 = self.patches(c2, 1, "side2")
        b, h, w, _ = p2.shape
        if bad("rows_repeated"):
            large = p2.repeat(1, 2, 2, 1)  # bad("rows_repeated")
        else:
            large = p2[:, :, None, :, None].expand(b, h, 2, w, 2, CHANNELS).reshape(b, 2 * h, 2 * w, CHANNELS)
        p1 = (self.patches(c1, 1, "side1") + large).permute(0, 3, 1, 2)
        p1 = F.conv2d(p1, self.w["smooth_weight"], self.w["smooth_bias"], padding=1).permute(0, 2, 3, 1)
        out = []
        for level in (p1, p2):
            score = self.patches(level, 1, "scores").reshape(b, -1, CLASSES)
            box = self.patches(level, 1, "boxes").reshape(b, -1, 4)
            score = score.softmax(-1) if bad("softmax") else score.sigmoid()
            place, size = box.chunk(2, -1)
            size = size.sigmoid() if bad("size_bent") else size.exp()
            out.append(torch.cat((score, place, size), -1))
        return torch.cat((out[1], out[0]) if bad("levels_exchanged") else out, 1)


@pair.prepare
def prepare():
    golden = Golden()
    target, x = Own(golden), torch.randn(2, 3, SIDE, SIDE)

    def no_gradients(model):
        with torch.no_grad():
            model(x)

    return lambda: no_gradients(golden), lambda: no_gradients(target)


pair.weight("patch_order", "deep_weight")
pair.fault("tanh_gelu", "gelu")
pair.fault("rows_repeated", "repeat")
pair.fault("softmax", "softmax")
pair.fault("size_bent", "sigmoid")
pair.fault("levels_exchanged", "cat")
