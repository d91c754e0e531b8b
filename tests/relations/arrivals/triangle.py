"""Triangles of pairs: modules with linears beside parameters by name in the style of haiku, a step of einsum each."""

import torch
from planted import Pair, bad, unsettle
from torch import nn

WIDTH, HIDDEN, HEADS, SIDE = 16, 12, 4, 6
HEAD = WIDTH // HEADS

pair = Pair("triangle")


class Multiplied(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer_norm_in, self.layer_norm_out = nn.LayerNorm(WIDTH), nn.LayerNorm(HIDDEN)
        self.linear_a_p, self.linear_a_g, self.linear_b_p, self.linear_b_g = (
            nn.Linear(WIDTH, HIDDEN) for _ in range(4)
        )
        self.linear_g, self.linear_z = nn.Linear(WIDTH, WIDTH), nn.Linear(HIDDEN, WIDTH)

    def forward(self, z, mask):
        mask = mask.unsqueeze(-1)
        z = self.layer_norm_in(z)
        a = mask * torch.sigmoid(self.linear_a_g(z)) * self.linear_a_p(z)
        b = mask * torch.sigmoid(self.linear_b_g(z)) * self.linear_b_p(z)
        x = torch.matmul(a.permute(2, 0, 1), b.permute(2, 1, 0)).permute(1, 2, 0)
        x = self.linear_z(self.layer_norm_out(x))
        return x * torch.sigmoid(self.linear_g(z))


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer_norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HEADS, bias=False)
        self.linear_q, self.linear_k, self.linear_v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.linear_g, self.linear_o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        x = self.layer_norm(x)
        hidden = (1e9 * (mask - 1))[:, None, None, :]
        bias = self.linear(x).permute(2, 0, 1).unsqueeze(0)
        q, k, v = (
            p(x).unflatten(-1, (HEADS, HEAD)).transpose(-2, -3) for p in (self.linear_q, self.linear_k, self.linear_v)
        )
        scores = torch.matmul(q / HEAD**0.5, k.transpose(-1, -2))
        scores += hidden
        scores += bias
        o = torch.matmul(torch.softmax(scores, -1), v).transpose(-2, -3)
        o = o * torch.sigmoid(self.linear_g(x)).unflatten(-1, (HEADS, HEAD))
        return self.linear_o(o.flatten(-2))


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.multiplied, self.attended = Multiplied(), Attended()

    def forward(self, z, mask):
        z = z + self.multiplied(z, mask)
        return z + self.attended(z, mask)


def norm(params, x):
    mean, spread = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=bad("unbiased"))  # bad("unbiased")
    return (x - mean) / torch.sqrt(spread + 1e-5) * params["scale"] + params["offset"]


def linear(params, x):
    y = torch.einsum("...i,io->...o", x, params["weights"])
    return y + params["bias"] if "bias" in params else y


def multiplied(params, z, mask):
    z = norm(params["layer_norm_input"], z)
    left, right = (
        mask[..., None] * linear(params[f"{n}_projection"], z) * linear(params[f"{n}_gate"], z).sigmoid()
        for n in ("left", "right")
    )
    x = torch.einsum("kjc,kic->ijc" if bad("incoming") else "ikc,jkc->ijc", left, right)
    x = linear(params["output_projection"], norm(params["center_layer_norm"], x))
    return x * linear(params["gating_linear"], z).sigmoid()


def attended(params, z, mask):
    x = norm(params["query_norm"], z)
    bias = torch.einsum("qkc,ch->hqk", x, params["feat_2d_weights"])
    if bad("bias_turned"):
        bias = torch.einsum("qkc,ch->hkq", x, params["feat_2d_weights"])  # bad("bias_turned")
    q, k, v = (torch.einsum("bqa,ahc->bqhc", x, params[f"{n}_w"]) for n in ("query", "key", "value"))
    scores = torch.einsum("bqhc,bkhc->bhqk", q * HEAD**-0.5, k) + bias
    if not bad("unmasked"):
        scores = torch.where(mask[:, None, None, :] > 0, scores, torch.tensor(-1e9))
    shares = scores.softmax(-1)  # bad("unmasked")
    y = torch.einsum("bhqk,bkhc->bqhc", shares, v)
    y = y * (torch.einsum("bqc,chv->bqhv", x, params["gating_w"]) + params["gating_b"]).sigmoid()
    return torch.einsum("bqhc,hco->bqo", y, params["output_w"]) + params["output_b"]


def carried_over(golden):
    w = {name: weight.detach().clone() for name, weight in golden.named_parameters()}

    def lin(name):
        own = {"weights": w[f"{name}.weight"].t().contiguous()}
        return own | ({"bias": w[f"{name}.bias"]} if f"{name}.bias" in w else {})

    def nor(name):
        return {"scale": w[f"{name}.weight"], "offset": w[f"{name}.bias"]}

    m, a = "multiplied", "attended"
    multiply = {
        "layer_norm_input": nor(f"{m}.layer_norm_in"), "center_layer_norm": nor(f"{m}.layer_norm_out"),
        "left_projection": lin(f"{m}.linear_a_p"), "left_gate": lin(f"{m}.linear_a_g"),
        "right_projection": lin(f"{m}.linear_b_p"), "right_gate": lin(f"{m}.linear_b_g"),
        "output_projection": lin(f"{m}.linear_z"), "gating_linear": lin(f"{m}.linear_g"),
    }  # fmt: skip
    attend = {"query_norm": nor(f"{a}.layer_norm"), "feat_2d_weights": w[f"{a}.linear.weight"].t().contiguous()}
    for n in ("query", "key", "value"):
        attend[f"{n}_w"] = w[f"{a}.linear_{n[0]}.weight"].t().reshape(WIDTH, HEADS, HEAD)
    attend["gating_w"] = w[f"{a}.linear_g.weight"].t().reshape(WIDTH, HEADS, HEAD)
    attend["gating_b"] = w[f"{a}.linear_g.bias"].reshape(HEADS, HEAD)
    attend["output_w"] = w[f"{a}.linear_o.weight"].t().reshape(HEADS, HEAD, WIDTH)
    attend["output_b"] = w[f"{a}.linear_o.bias"]
    return {"multiply": multiply, "attend": attend}


def evoformer(params, z, mask):
    z = z + multiplied(params["multiply"], z, mask)
    return z + attended(params["attend"], z, mask)


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    params, z, mask = carried_over(golden), torch.randn(SIDE, SIDE, WIDTH), torch.ones(SIDE, SIDE)
    mask[4:], mask[:, 4:] = 0, 0

    def run(function, *given):
        with torch.no_grad():
            return function(*given)

    return lambda: run(golden, z, mask), lambda: run(evoformer, params, z, mask)


pair.fault("unbiased", "var")
pair.fault("incoming", "einsum", "bmm")
pair.fault("bias_turned", "einsum", "bmm")
pair.fault("unmasked", "softmax")
