"""A ShuffleNet unit in training: modules with channels first beside products of windows with channels last."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

CHANNELS, SIDE, CLASSES, BATCH = 12, 6, 5, 3
HALF = CHANNELS // 2

pair = Pair("shuffle")


class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.bn1 = nn.Conv2d(HALF, HALF, 1, bias=False), nn.BatchNorm2d(HALF)
        self.depth, self.bn2 = nn.Conv2d(HALF, HALF, 3, padding=1, groups=HALF, bias=False), nn.BatchNorm2d(HALF)
        self.two, self.bn3 = nn.Conv2d(HALF, HALF, 1, bias=False), nn.BatchNorm2d(HALF)

    def forward(self, x):
        kept, y = x.chunk(2, 1)
        y = F.relu(self.bn1(self.one(y)))
        y = F.relu(self.bn3(self.two(self.bn2(self.depth(y)))))
        return F.channel_shuffle(torch.cat((kept, y), 1), 2)


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn0 = nn.Conv2d(3, CHANNELS, 3, padding=1, bias=False), nn.BatchNorm2d(CHANNELS)
        self.units = nn.ModuleList(Unit() for _ in range(2))
        self.head = nn.Linear(CHANNELS, CLASSES)

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.bn0(self.stem(x))), 2)
        for unit in self.units:
            x = unit(x)
        loss = F.cross_entropy(self.head(x.mean((2, 3))), labels, label_smoothing=0.1)
        loss.backward()
        return loss


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for name, weight in own.items():
            if weight.dim() == 4:
                own[name] = weight.permute(2, 3, 1, 0).contiguous()
        if bad("units_exchanged"):
            own["units_0_two_weight"], own["units_1_two_weight"] = own["units_1_two_weight"], own["units_0_two_weight"]
        self.w = nn.ParameterDict(own)

    def norm(self, x, name):
        spread = x.var((0, 1, 2), correction=1 if bad("ddof") else 0)  # bad("ddof")
        x = (x - x.mean((0, 1, 2))) * (spread + 1e-5).rsqrt()
        return x * self.w[f"{name}_weight"] + self.w[f"{name}_bias"]

    def windows(self, x):
        return F.pad(x, (0, 0, 1, 1, 1, 1)).unfold(1, 3, 1).unfold(2, 3, 1)

    def unit(self, x, name):
        if bad("other_half"):
            y, kept = x.chunk(2, -1)  # bad("other_half")
        else:
            kept, y = x.chunk(2, -1)
        y = self.norm(y @ self.w[f"{name}_one_weight"][0, 0], f"{name}_bn1").clamp(min=0)
        y = torch.einsum("bijcuv,uvc->bijc", self.windows(y), self.w[f"{name}_depth_weight"].squeeze(2))
        y = self.norm(y, f"{name}_bn2") @ self.w[f"{name}_two_weight"][0, 0]
        y = self.norm(y, f"{name}_bn3").clamp(min=0)
        if bad("not_shuffled"):
            return torch.cat((kept, y), -1)  # bad("not_shuffled")
        return torch.stack((kept, y), -1).flatten(-2)

    def forward(self, x, labels):
        x = torch.einsum("bijcuv,uvco->bijo", self.windows(x), self.w["stem_weight"])
        x = self.norm(x, "bn0").clamp(min=0)
        around = x.unfold(1, 2, 2).unfold(2, 2, 2)
        x = around.mean((-2, -1)) if bad("mean_pool") else around.amax((-2, -1))
        for i in range(2):
            x = self.unit(x, f"units_{i}")
        logs = (x.mean((1, 2)) @ self.w["head_weight"].T + self.w["head_bias"]).log_softmax(-1)
        right = F.one_hot(labels, CLASSES) if bad("hard_labels") else F.one_hot(labels, CLASSES) * 0.9 + 0.1 / CLASSES
        loss = -(logs * right).sum(-1).mean()  # bad("hard_labels")
        loss.backward()
        return loss


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "bn")
    target = Own(golden)
    x, labels = torch.randn(BATCH, 3, SIDE, SIDE).mul(2).add(1), torch.randint(0, CLASSES, (BATCH,))
    own = x.permute(0, 2, 3, 1).contiguous()
    return lambda: golden(x, labels), lambda: target(own, labels)


pair.fault("ddof", "var")
pair.fault("other_half", "chunk", "split")
pair.fault("not_shuffled", "cat")
pair.fault("mean_pool", "mean")
pair.fault("hard_labels", "one_hot", "mul", "scatter", "sum")
pair.weight("units_exchanged", "two_weight")
