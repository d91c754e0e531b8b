"""Densely joined convolutions with a squeeze of channels: modules beside patches and products."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

START, GROWTH, LAYERS, SIDE, CLASSES = 8, 4, 3, 10, 6
WIDE = START + LAYERS * GROWTH

pair = Pair("dense")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, START, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(START + i * GROWTH) for i in range(LAYERS))
        self.convs = nn.ModuleList(nn.Conv2d(START + i * GROWTH, GROWTH, 3, padding=1) for i in range(LAYERS))
        self.squeeze, self.excite = nn.Linear(WIDE, 5), nn.Linear(5, WIDE)
        self.last, self.head = nn.BatchNorm2d(WIDE), nn.Linear(WIDE, CLASSES)

    def forward(self, x):
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs, strict=True):
            x = torch.cat((x, conv(F.relu(norm(x)))), 1)
        share = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean((2, 3))))))
        x = F.avg_pool2d(F.relu(self.last(x * share[:, :, None, None])), 2)
        return self.head(x.amax((2, 3)))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.state_dict().items() if w.is_floating_point()}
        if bad("kernel_turned"):
            own["convs_1_weight"] = own["convs_1_weight"].transpose(2, 3).contiguous()
        self.w = nn.ParameterDict({n: nn.Parameter(w, requires_grad=False) for n, w in own.items()})

    def norm(self, x, name):
        w, b, mean, var = (self.w[f"{name}_{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        return F.batch_norm(x, mean, var, w, b)

    def conv(self, x, name):
        weight, side = self.w[f"{name}_weight"], x.shape[-1]
        y = weight.flatten(1) @ F.unfold(x, 3, padding=1)  # bad("no_relu")
        return y.unflatten(-1, (side, side)) + self.w[f"{name}_bias"][:, None, None]

    def forward(self, x):
        parts = [self.conv(x, "stem")]
        for i in range(LAYERS):
            x = torch.cat(parts[::-1] if bad("newest_first") and i == 2 else parts, 1)  # bad("newest_first")
            y = self.norm(x, f"norms_{i}")
            y = y if bad("no_relu") and i == 1 else y.clamp(min=0)
            parts.append(self.conv(y, f"convs_{i}"))  # bad("no_relu")
        x = torch.cat(parts, 1)
        y = x.amax((2, 3)) if bad("most_for_mean") else x.flatten(2).mean(-1)  # bad("most_for_mean")
        y = F.linear(y, self.w["squeeze_weight"], self.w["squeeze_bias"]).relu()
        y = F.linear(y, self.w["excite_weight"], self.w["excite_bias"])
        y = F.softmax(y, -1) if bad("softmax") else y.sigmoid()  # bad("softmax")
        x = self.norm(torch.einsum("bchw,bc->bchw", x, y), "last").relu()
        x = x.unflatten(-1, (SIDE // 2, 2)).unflatten(-3, (SIDE // 2, 2)).mean((-1, -3))
        return F.linear(x.flatten(2).max(-1).values, self.w["head_weight"], self.w["head_bias"])


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norms", "last")
    for name, buffer in golden.named_buffers():
        if "running" in name:
            buffer.add_(0.3 * torch.rand_like(buffer))
    golden.eval()
    target, x = Own(golden), torch.randn(2, 3, SIDE, SIDE)
    return lambda: golden(x), lambda: target(x)


pair.weight("kernel_turned", "convs_1_weight")
pair.fault("newest_first", "cat")
pair.fault("no_relu", "im2col", "unfold", "matmul")
pair.fault("most_for_mean", "amax")
pair.fault("softmax", "softmax")
