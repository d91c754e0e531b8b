"""Attention over the edges of a graph: sums per node beside a dense matrix of neighbours."""

import torch
import torch.nn.functional as F
from planted import Pair, bad, unsettle
from torch import nn

NODES, INPUT, WIDTH, HEADS, CLASSES = 12, 10, 8, 2, 5

pair = Pair("graph")


class GoldenLayer(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.lin = nn.Linear(inputs, HEADS * WIDTH, bias=False)
        self.source, self.end = nn.Parameter(torch.randn(HEADS, WIDTH)), nn.Parameter(torch.randn(HEADS, WIDTH))
        self.bias = nn.Parameter(torch.randn(HEADS * WIDTH))

    def forward(self, x, edges):
        h = self.lin(x).view(-1, HEADS, WIDTH)
        a, b = (h * self.source).sum(-1), (h * self.end).sum(-1)
        scores = F.leaky_relu(a[edges[0]] + b[edges[1]], 0.2)
        power = (scores - scores.max()).exp()
        total = torch.zeros(NODES, HEADS).index_add(0, edges[1], power)
        share = power / total[edges[1]]
        out = torch.zeros(NODES, HEADS, WIDTH).index_add(0, edges[1], h[edges[0]] * share[..., None])
        return out.flatten(1) + self.bias


class Golden(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList((GoldenLayer(INPUT), GoldenLayer(HEADS * WIDTH)))
        self.norm, self.head = nn.LayerNorm(HEADS * WIDTH), nn.Linear(HEADS * WIDTH, CLASSES)

    def forward(self, x, edges, near):
        x = F.elu(self.layers[0](x, edges))
        x = self.norm(x + self.layers[1](x, edges))
        return self.head(x.mean(0, keepdim=True) + x)


class Own(nn.Module):
    def __init__(self, golden):
        super().__init__()
        own = {n.replace(".", "_"): w.detach().clone() for n, w in golden.named_parameters()}
        if bad("ends_exchanged"):
            own["layers_1_source"], own["layers_1_end"] = own["layers_1_end"], own["layers_1_source"]
        self.w = nn.ParameterDict(own)

    def layer(self, x, near, name):
        h = (x @ self.w[f"{name}_lin_weight"].t()).unflatten(-1, (HEADS, WIDTH)).transpose(0, 1)
        a = torch.einsum("hnw,hw->hn", h, self.w[f"{name}_source"])
        b = torch.einsum("hnw,hw->hn", h, self.w[f"{name}_end"])
        scores = b[:, :, None] + a[:, None, :]
        slope = 0.01 if bad("slope") else 0.2
        scores = torch.where(scores > 0, scores, scores * slope)  # bad("slope")
        share = scores.masked_fill(~near, -1e9).softmax(1 if bad("over_sources") else 2)  # bad("over_sources")
        return torch.bmm(share, h).transpose(0, 1).flatten(1) + self.w[f"{name}_bias"]

    def forward(self, x, edges, near):
        x = self.layer(x, near, "layers_0")
        x = F.relu(x) if bad("relu") else F.elu(x)
        y = self.layer(x, near, "layers_1")
        y = y if bad("no_residual") else x + y
        y = F.layer_norm(y, (HEADS * WIDTH,), self.w["norm_weight"], self.w["norm_bias"])  # bad("no_residual")
        return F.linear(y + y.sum(0) / NODES, self.w["head_weight"], self.w["head_bias"])


@pair.prepare
def prepare():
    golden = Golden()
    unsettle(golden, "norm")
    near = (torch.rand(NODES, NODES) < 0.3) | torch.eye(NODES, dtype=torch.bool)
    end, source = near.nonzero(as_tuple=True)
    target, x, edges = Own(golden), torch.randn(NODES, INPUT), torch.stack((source, end))
    return lambda: golden(x, edges, near), lambda: target(x, edges, near)


pair.weight("ends_exchanged", "layers_1_")
pair.fault("slope", "mul", "where")
pair.fault("over_sources", "softmax")
pair.fault("relu", "relu")
pair.fault("no_residual", "layer_norm")
