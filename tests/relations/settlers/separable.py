"""Separable convolutions with channels last, a pad of its own and moving statistics, beside modules of torch.nn."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

CHANNELS, SIDE, CLASSES, BATCH = 8, 9, 10, 2

pair = Pair("separable")


class GoldenBlock(nn.Module):
    def __init__(self, out, stride):
        super().__init__()
        self.depth = nn.Conv2d(CHANNELS, CHANNELS, 3, stride, 1, groups=CHANNELS, bias=False)
        self.point, self.norm = nn.Conv2d(CHANNELS, out, 1, bias=False), nn.BatchNorm2d(out, eps=1e-3)

    def forward(self, x):
        return F.relu6(self.norm(self.point(self.depth(x))))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, 1, 1)
        self.blocks, self.head = nn.ModuleList([GoldenBlock(8, 1), GoldenBlock(12, 2)]), nn.Linear(12, CLASSES)

    def forward(self, x):
        x = F.hardswish(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {
            n.replace(".", "_"): w.detach().clone() for n, w in (*golden.named_parameters(), *golden.named_buffers())
        }
        for name, weight in own.items():
            if weight.dim() == 4:
                own[name] = weight.permute(2, 3, 1, 0).contiguous()
        if bad("statistics_of_first"):
            own["blocks_1_norm_running_var"] = own["blocks_1_norm_running_var"].fill_(1.0)
        self.w = nn.ParameterDict({n: nn.Parameter(w, requires_grad=False) for n, w in own.items()})

    def norm(self, x, name):
        w, b, mean, var = (self.w[f"{name}_{n}"] for n in ("weight", "bias", "running_mean", "running_var"))
        return (x - mean) * (w / torch.sqrt(var + 1e-3)) + b

    def depthwise(self, x, kernel, stride):
        wide = F.pad(x, (0, 0, 1, 1, 1, 1))
        return torch.einsum("bijcuv,uvc->bijc", wide.unfold(1, 3, stride).unfold(2, 3, stride), kernel[:, :, 0])

    def forward(self, x):
        x = F.conv2d(x.permute(0, 3, 1, 2), self.w["stem_weight"].permute(3, 2, 0, 1), self.w["stem_bias"], padding=1)
        x = x.permute(0, 2, 3, 1)
        x = x * F.relu6(x + 3) / 6
        for i, stride in enumerate((1, 2)):
            x = self.depthwise(x, self.w[f"blocks_{i}_depth_weight"], stride) @ self.w[f"blocks_{i}_point_weight"][0, 0]
            most = 1.0 if bad("bounded_by_one") else 6.0
            x = self.norm(x, f"blocks_{i}_norm").clamp(0, most)  # bad("bounded_by_one")
        return x.flatten(1, 2).mean(1) @ self.w["head_weight"].t() + self.w["head_bias"]


@pair.prepare
def prepare():
    golden = Golden().eval()
    unsettle(golden, "norm")
    for block in golden.blocks:
        block.norm.running_mean.normal_(0, 0.1)
        block.norm.running_var.uniform_(0.05, 0.3)
    target, x = Own(golden), torch.randn(BATCH, 3, SIDE, SIDE)
    own = x.permute(0, 2, 3, 1).contiguous()

    def run(model, *given):
        with torch.no_grad():
            return model(*given)

    return lambda: run(golden, x), lambda: run(target, own)


pair.weight("statistics_of_first", "running_var")
pair.fault("bounded_by_one", "clamp")
