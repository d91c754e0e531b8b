"""RWKV: tokens mixed with the one before, and a sum over the past as one matrix of decays."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, LENGTH = 20, 7

pair = Pair("rwkv")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mix_k, self.mix_v, self.mix_r = (nn.Parameter(torch.rand(WIDTH)) for _ in range(3))
        self.decay, self.first = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))
        self.key, self.value, self.receptance, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        before = F.pad(y, (0, 0, 1, -1))
        k = self.key(y * self.mix_k + before * (1 - self.mix_k))
        v = self.value(y * self.mix_v + before * (1 - self.mix_v))
        r = torch.sigmoid(self.receptance(y * self.mix_r + before * (1 - self.mix_r)))
        w = -torch.exp(self.decay)
        top, low, out = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]), []
        for t in range(LENGTH):
            now = torch.exp(self.first + k[:, t])
            out.append((top + now * v[:, t]) / (low + now))
            top = torch.exp(w) * top + torch.exp(k[:, t]) * v[:, t]
            low = torch.exp(w) * low + torch.exp(k[:, t])
        return x + self.output(r * torch.stack(out, 1))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("mixes_exchanged"):
            own["mix_k"], own["mix_v"] = own["mix_v"], own["mix_k"]
        self.w = nn.ParameterDict(own)

    def mixed(self, y, before, name):
        share = self.w[f"mix_{name}"]
        if bad("mix_turned") and name == "r":
            return before.lerp(y, 1 - share)  # bad("mix_turned")
        return before.lerp(y, share)

    def forward(self, x):
        w = self.w
        y = F.layer_norm(x, (WIDTH,), w["norm_weight"], w["norm_bias"])
        before = torch.cat((torch.zeros_like(y[:, :1]), y[:, :-1]), 1)
        k = self.mixed(y, before, "k") @ w["key_weight"].t()
        v = self.mixed(y, before, "v") @ w["value_weight"].t()
        r = self.mixed(y, before, "r") @ w["receptance_weight"].t()
        distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
        steps = distance if bad("one_step_more") else distance - 1
        power = -torch.exp(w["decay"]) * steps[..., None]  # bad("one_step_more")
        power = torch.where(distance[..., None] > 0, power, float("-inf"))
        if not bad("no_bonus"):
            power = torch.where(distance[..., None] == 0, w["first"], power)
        else:
            power = torch.where(distance[..., None] == 0, torch.zeros_like(power), power)  # bad("no_bonus")
        share = torch.softmax(power + k[:, None], 2)
        out = (share * v[:, None]).sum(2)
        out = out * (F.relu(r) if bad("relu") else r.sigmoid())
        return torch.add(x, out @ w["output_weight"].t())


@pair.prepare
def prepare():
    golden = Golden()
    target, x = Own(golden), torch.randn(2, LENGTH, WIDTH)
    return lambda: golden(x), lambda: target(x)


pair.weight("mixes_exchanged", "mix_k")
pair.fault("mix_turned", "lerp", "rsub")
pair.fault("one_step_more", "mul", "unsqueeze")
pair.fault("no_bonus", "where", "zeros_like")
pair.fault("relu", "relu")
