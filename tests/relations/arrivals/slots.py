"""Slots that compete for what is seen: a library's recurrent cell beside gates by hand, all heads of one product."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, SLOTS, SEEN, TURNS, INNER, BATCH = 16, 3, 10, 3, 24, 2

pair = Pair("slots")


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.gru = nn.GRUCell(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(inplace=True), nn.Linear(INNER, WIDTH))
        self.norm_input, self.norm_slots, self.norm_ff = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.scale, self.eps = WIDTH**-0.5, 1e-8

    def forward(self, inputs, slots):
        b, _, d = slots.shape
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(TURNS):
            slots_prev = slots
            slots = self.norm_slots(slots)
            q = self.to_q(slots)
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d))
            slots = slots.reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_ff(slots))
        return slots


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        for part in ("weight", "bias"):
            own[f"to_kv_{part}"] = torch.cat([own.pop(f"to_{n}_{part}") for n in "kv"])
        if bad("update_first"):
            for side in ("ih", "hh"):
                reset, update, new = own[f"gru_weight_{side}"].chunk(3)
                own[f"gru_weight_{side}"] = torch.cat((update, reset, new))
        self.w = nn.ParameterDict(own)

    def linear(self, x, name):
        return torch.addmm(self.w[f"{name}_bias"], x, self.w[f"{name}_weight"].t())

    def norm(self, x, name):
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def cell(self, x, h):
        read, kept = (
            F.linear(value, self.w[f"gru_weight_{n}"], self.w[f"gru_bias_{n}"]).chunk(3, -1)  # bad("normed_state")
            for value, n in ((x, "ih"), (h, "hh"))
        )
        r, z = (read[0] + kept[0]).sigmoid(), (read[1] + kept[1]).sigmoid()
        new = (read[2] + r * kept[2]).tanh()
        if bad("kept_for_new"):
            return torch.lerp(h, new, z)  # bad("kept_for_new")
        return torch.lerp(new, h, z)  # bad("normed_state")

    def forward(self, inputs, slots):
        x = self.norm(inputs, "norm_input").flatten(0, 1)
        k, v = self.linear(x, "to_kv").unflatten(0, (BATCH, SEEN)).chunk(2, -1)
        h = slots.flatten(0, 1)
        for _ in range(TURNS):
            normed = self.norm(h, "norm_slots")
            q = self.linear(normed, "to_q").unflatten(0, (BATCH, SLOTS))
            scores = k @ q.mT * WIDTH**-0.5
            shares = scores.softmax(1 if bad("over_inputs") else -1) + 1e-8  # bad("over_inputs")
            if not bad("not_weighted"):
                shares = shares / shares.sum(1, keepdim=True)
            read = (shares.mT @ v).flatten(0, 1)  # bad("not_weighted")
            h = self.cell(read, normed if bad("normed_state") else h)  # bad("normed_state")
            h = h + self.linear(self.linear(self.norm(h, "norm_ff"), "mlp_0").relu(), "mlp_2")
        return h


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    target, x, slots = Own(golden), torch.randn(BATCH, SEEN, WIDTH), torch.randn(BATCH, SLOTS, WIDTH)
    return lambda: golden(x, slots), lambda: target(x, slots)


pair.weight("update_first", "gru_weight")
pair.fault("kept_for_new", "lerp")
pair.fault("over_inputs", "softmax")
pair.fault("not_weighted", "matmul")
# The first operator that reads the state reads the normed one: the product with the state's weight in cell().
pair.fault("normed_state", "linear", "lerp")
