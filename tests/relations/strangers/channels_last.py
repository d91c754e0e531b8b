"""Convolutions from a framework with channels last: kernels (h, w, in, out), padding and flattening its way."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

SIDE, CLASSES = 10, 6

pair = Pair("channels_last")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3)
        self.norm = nn.BatchNorm2d(8)
        self.fc1, self.fc2 = nn.Linear(12 * 9, 20), nn.Linear(20, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv1(x))), 2)
        x = F.relu(self.conv2(x))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {name.replace(".", "_"): w.detach().clone() for name, w in golden.named_parameters()}
        for name in ("conv1_weight", "conv2_weight"):
            own[name] = own[name].permute(2, 3, 1, 0).contiguous()
        if bad("kernel_transposed"):
            own["conv2_weight"] = own["conv2_weight"].transpose(0, 1).contiguous()
        for name in ("fc1_weight", "fc2_weight"):
            own[name] = own[name].t().contiguous()
        self.w = nn.ParameterDict(own)

    def conv(self, x, name, padding=0):
        kernel = self.w[f"{name}_weight"]
        x = F.pad(x, (0, 0, padding, padding, padding, padding))
        windows = x.unfold(1, kernel.shape[0], 1).unfold(2, kernel.shape[1], 1)
        return torch.einsum("bhwcij,ijco->bhwo", windows, kernel) + self.w[f"{name}_bias"]

    def norm(self, x):
        axes = (0, 1) if bad("axes_of_norm") else (0, 1, 2)
        mean = x.mean(axes, keepdim=True)  # bad("axes_of_norm")
        var = (x - mean).square().mean(axes, keepdim=True)
        eps = 1e-3 if bad("eps") else 1e-5
        return (x - mean) * torch.rsqrt(var + eps) * self.w["norm_weight"] + self.w["norm_bias"]  # bad("eps")

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).contiguous()
        x = self.norm(self.conv(x, "conv1", 1)).relu()
        tiles = x.unflatten(1, (-1, 2)).unflatten(3, (-1, 2))
        x = tiles.mean((2, 4)) if bad("mean_pool") else tiles.amax((2, 4))
        x = self.conv(x, "conv2").relu()
        x = x.flatten(1) if bad("flat_as_it_is") else x.permute(0, 3, 1, 2).flatten(1)
        x = torch.relu(x @ self.w["fc1_weight"] + self.w["fc1_bias"])  # bad("flat_as_it_is")
        return x @ self.w["fc2_weight"] + self.w["fc2_bias"]


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, x = Own(golden), torch.randn(4, 3, SIDE, SIDE)
    y = torch.randint(0, CLASSES, (4,))

    def golden_step():
        F.cross_entropy(golden(x), y).backward()

    def target_step():
        scores = target(x).log_softmax(-1)
        F.nll_loss(scores, y).backward()

    return golden_step, target_step


pair.weight("kernel_transposed", "conv2_weight")
pair.fault("axes_of_norm", "mean")
pair.fault("eps", "add", "rsqrt")
pair.fault("mean_pool", "mean")
pair.fault("flat_as_it_is", "flatten", "matmul", "view", "reshape")
