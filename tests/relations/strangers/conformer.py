"""The convolution module of a Conformer between two half feed-forwards: channels last and windows by hand."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, KERNEL, LENGTH = 24, 5, 11

pair = Pair("conformer")


class FeedForward(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.ff1, self.ff2 = FeedForward(), FeedForward()
        self.norm = nn.LayerNorm(WIDTH)
        self.pointwise1 = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2, groups=WIDTH)
        self.batch_norm = nn.BatchNorm1d(WIDTH)
        self.pointwise2 = nn.Conv1d(WIDTH, WIDTH, 1)
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        y = F.glu(self.pointwise1(self.norm(x).transpose(1, 2)), dim=1)
        y = self.pointwise2(F.silu(self.batch_norm(self.depthwise(y))))
        x = x + y.transpose(1, 2)
        return self.last(x + 0.5 * self.ff2(x))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        state = {name: value.detach().clone() for name, value in golden.state_dict().items()}
        for name in ("pointwise1.weight", "pointwise2.weight", "depthwise.weight"):
            state[name] = state[name].squeeze()
            state[name] = state[name].squeeze(-1)
        if bad("kernel_reversed"):
            state["depthwise.weight"] = state["depthwise.weight"].flip(-1)
        self.w = nn.ParameterDict(
            {name.replace(".", "_"): value for name, value in state.items() if value.is_floating_point()}
        )

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def feed(self, x, name):
        y = F.linear(self.norm(x, f"{name}_0"), self.w[f"{name}_1_weight"], self.w[f"{name}_1_bias"])
        y = y * torch.sigmoid(y)
        y = F.linear(y, self.w[f"{name}_3_weight"], self.w[f"{name}_3_bias"])
        if bad("whole_steps"):
            return x + y  # bad("whole_steps")
        return x + y * 0.5

    def forward(self, x):
        x = self.feed(x, "ff1")
        y = F.linear(self.norm(x, "norm"), self.w["pointwise1_weight"], self.w["pointwise1_bias"])
        one, two = y.chunk(2, -1)
        y = two * one.sigmoid() if bad("gate_first") else one * two.sigmoid()
        padded = F.pad(y, (0, 0, KERNEL - 1, 0) if bad("causal") else (0, 0, KERNEL // 2, KERNEL // 2))
        windows = padded.unfold(1, KERNEL, 1)
        y = (windows * self.w["depthwise_weight"]).sum(-1) + self.w["depthwise_bias"]
        scale = torch.rsqrt(self.w["batch_norm_running_var"] + 1e-5) * self.w["batch_norm_weight"]
        y = (y - self.w["batch_norm_running_mean"]) * scale + self.w["batch_norm_bias"]
        y = F.relu(y) if bad("relu") else F.silu(y)
        x = x + F.linear(y, self.w["pointwise2_weight"], self.w["pointwise2_bias"])
        return self.norm(self.feed(x, "ff2"), "last")


@pair.prepare
def prepare():
    golden = Golden().eval()
    for name, value in golden.state_dict().items():
        if "norm" in name and value.is_floating_point():
            value.add_(0.2 * torch.rand_like(value))
    target, x = Own(golden).eval(), torch.randn(2, LENGTH, WIDTH)

    def no_gradients(model):
        with torch.no_grad():
            model(x)

    return lambda: no_gradients(golden), lambda: no_gradients(target)


pair.weight("kernel_reversed", "depthwise_weight")
pair.fault("whole_steps", "add")
pair.fault("gate_first", "mul", "sigmoid")
pair.fault("causal", "pad", "constant_pad_nd")
pair.fault("relu", "relu")
