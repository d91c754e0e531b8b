"""A selective scan: the golden one step after the other, the other with all steps' decays at once."""

import torch
import torch.nn.functional as F
from planted import Pair, bad
from torch import nn

WIDTH, INNER, STATES, RANK, KERNEL, LENGTH = 16, 24, 4, 3, 3, 8

pair = Pair("mamba")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.into = nn.RMSNorm(WIDTH, eps=1e-5), nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.conv = nn.Conv1d(INNER, INNER, KERNEL, padding=KERNEL - 1, groups=INNER)
        self.x_proj, self.dt_proj = nn.Linear(INNER, RANK + 2 * STATES, bias=False), nn.Linear(RANK, INNER)
        self.a_log = nn.Parameter(
            torch.log(torch.arange(1, STATES + 1.0).repeat(INNER, 1)) + 0.1 * torch.randn(INNER, 1)
        )
        self.d, self.out = nn.Parameter(torch.randn(INNER)), nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x):
        h, z = self.into(self.norm(x)).chunk(2, -1)
        h = F.silu(self.conv(h.transpose(1, 2))[..., :LENGTH].transpose(1, 2))
        dt, b, c = self.x_proj(h).split((RANK, STATES, STATES), -1)
        dt = F.softplus(self.dt_proj(dt))
        a = -torch.exp(self.a_log)
        state, ys = h.new_zeros(x.shape[0], INNER, STATES), []
        for t in range(LENGTH):
            decay = torch.exp(dt[:, t, :, None] * a)
            state = decay * state + dt[:, t, :, None] * b[:, t, None, :] * h[:, t, :, None]
            ys.append((state * c[:, t, None, :]).sum(-1))
        y = torch.stack(ys, 1) + h * self.d
        return x + self.out(y * F.silu(z))


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        self.w = nn.ParameterDict({n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()})

    def forward(self, x):
        w = self.w
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w["norm_weight"]
        h, z = (y @ w["into_weight"].t()).split(INNER, -1)
        padded = F.pad(h, (0, 0, 1, 1) if bad("centred") else (0, 0, KERNEL - 1, 0))
        h = sum(padded[:, k : k + LENGTH] * w["conv_weight"][:, 0, k] for k in range(KERNEL)) + w["conv_bias"]
        h = h * torch.sigmoid(h)
        dt, b, c = (h @ w["x_proj_weight"].t()).split((RANK, STATES, STATES), -1)
        if bad("b_c_exchanged"):
            b, c = c, b
        if bad("no_dt_bias"):
            dt = F.softplus(F.linear(dt, w["dt_proj_weight"]))  # bad("no_dt_bias")
        else:
            dt = F.softplus(F.linear(dt, w["dt_proj_weight"], w["dt_proj_bias"]))
        a = -torch.exp(w["a_log"])
        decays = torch.exp(torch.einsum("btd,ds->btds", dt, a))
        added = torch.einsum("btd,bts,btd->btds", dt, b, h)  # bad("b_c_exchanged")
        states = [added[:, 0]]
        for t in range(1, LENGTH):
            states.append(decays[:, t - 1 if bad("decay_late") else t] * states[-1] + added[:, t])  # bad("decay_late")
        y = torch.einsum("btds,bts->btd", torch.stack(states, 1), c)
        if not bad("no_skip"):
            y = y + w["d"] * h
        y = y * z.sigmoid() if bad("sigmoid_gate") else y * F.silu(z)  # bad("no_skip")
        return y @ w["out_weight"].t() + x


@pair.prepare
def prepare():
    golden = Golden()
    golden.norm.weight.data.add_(0.1 * torch.randn(WIDTH))
    target, x = Own(golden), torch.randn(2, LENGTH, WIDTH)
    return lambda: golden(x), lambda: target(x)


pair.fault("centred", "pad", "constant_pad_nd")
pair.fault("b_c_exchanged", "einsum", "mul", "bmm", "permute")
pair.fault("no_dt_bias", "linear", "softplus")
pair.fault("decay_late", "select", "mul", "add")
pair.fault("no_skip", "mul")
pair.fault("sigmoid_gate", "mul", "sigmoid")
