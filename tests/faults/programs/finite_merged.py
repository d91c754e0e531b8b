"""Weights that contain what the other run computes beside them; and layouts of one product."""

import torch
import torch.nn.functional as F
from cases import Family
from finite_training import network_of, rows, training
from torch import nn

family = Family("merged weights")
rounding = Family("rounding")


def infer(network, *shape):
    torch.manual_seed(1)
    with torch.no_grad():
        network.eval()(torch.randn(*shape))


class Adapted(nn.Module):
    """A linear layer with an adapter of rank 2, which may be merged into it, any number of times."""

    def __init__(self, size):
        super().__init__()
        self.base = nn.Linear(size, size)
        self.a, self.b = nn.Linear(size, 2, bias=False), nn.Linear(2, size, bias=False)
        self.merged = 0

    def merge(self, times=1):
        with torch.no_grad():
            self.base.weight += times * (self.b.weight @ self.a.weight)
        self.merged = times

    def forward(self, x):
        y = self.base(x)
        return y if self.merged else y + self.b(self.a(x))


def adapted(other, times=(1, 1, 1), slope=0.1):
    network = nn.Sequential(Adapted(8), nn.LeakyReLU(0.1), Adapted(8), nn.LeakyReLU(slope), Adapted(8))
    if other:
        for i, count in zip((0, 2, 4), times, strict=True):
            network[i].merge(count)
    return network


@family.differs("linear", short=True)
def second_adapter_merged_twice(wrong):
    with torch.no_grad():
        torch.manual_seed(1)
        network, x = adapted(wrong, (1, 2, 1)), torch.randn(3, 8)
        first = network[1](network[0](x))
        merged = network[2]
        h = F.linear(first, merged.base.weight, merged.base.bias)  # FAULT
        if not merged.merged:
            h = h + merged.b(merged.a(first))
        network[4](h.tanh())


@family.differs("leaky_relu")
def another_slope_behind_merged_adapters(wrong):
    def forward(s, x):
        h = F.leaky_relu(s.first(x), 0.1)
        h = F.leaky_relu(s.second(h), 0.3 if wrong else 0.1)  # FAULT
        return s.third(h)

    network = network_of(forward, first=Adapted(8), second=Adapted(8), third=Adapted(8))
    if wrong:
        for layer in (network.first, network.second, network.third):
            layer.merge()
    infer(network, 3, 8)


@rounding.rounding(short=True)
def adapters_merged(other):
    infer(adapted(other), 3, 8)


@rounding.rounding()
def norm_folded_into_the_convolution(other):
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    with torch.no_grad():
        for _ in range(3):
            network(torch.randn(8, 3, 6, 6) * 2 + 1)
    network.eval()
    if other:
        folded = torch.nn.utils.fusion.fuse_conv_bn_eval(network[0], network[1])
        network = nn.Sequential(folded, nn.Identity(), *network[2:])
    infer(network, 2, 3, 6, 6)


@rounding.rounding()
def parametrized_weight_norm_removed(other):
    layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 16))
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(1.7)
    if other:
        torch.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    infer(network_of(lambda s, x: s.out(s.fc(x).relu()), fc=layer, out=nn.Linear(16, 4)), 3, 8)


@rounding.rounding()
def scale_in_the_queries(other):
    def forward(s, x):
        scores = s.q(x) @ s.k(x).transpose(1, 2)
        scores = scores if other else scores * 0.3
        return s.out(scores.softmax(-1) @ x)

    network = network_of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8), out=nn.Linear(8, 4))
    if other:
        with torch.no_grad():
            network.q.weight.mul_(0.3)
            network.q.bias.mul_(0.3)
    infer(network, 2, 5, 8)


@rounding.rounding()
def affine_part_of_a_norm_in_the_next_layer(other):
    norm, layer = nn.LayerNorm(8), nn.Linear(8, 16)
    with torch.no_grad():
        norm.weight.uniform_(0.5, 1.5)
        norm.bias.uniform_(-0.5, 0.5)
    if other:
        with torch.no_grad():
            layer.bias += layer.weight @ norm.bias
            layer.weight *= norm.weight
        norm = nn.LayerNorm(8, elementwise_affine=False)
    infer(network_of(lambda s, x: s.out(s.fc(s.norm(x)).relu()), norm=norm, fc=layer, out=nn.Linear(16, 4)), 3, 8)


@rounding.rounding()
def scaled_embeddings(other):
    table = nn.Embedding(20, 8)
    if other:
        with torch.no_grad():
            table.weight *= 8**0.5
    scale = 1 if other else 8**0.5

    def forward(s, ids):
        h = s.table(ids)
        return s.out(h if other else h * scale)

    network = network_of(forward, table=table, out=nn.Linear(8, 4))
    with torch.no_grad():
        network.eval()(torch.arange(12).view(2, 6))


def pixelwise(other):
    """A convolution of one pixel, or the same as a linear layer behind a permute."""
    conv, linear, out = nn.Conv2d(6, 8, 1), nn.Linear(6, 8), nn.Linear(8, 3)
    linear.weight.data, linear.bias.data = conv.weight.data[:, :, 0, 0].clone(), conv.bias.data.clone()
    axes = (0, 2, 3, 1)

    def forward(s, x):
        y = s.part(x.permute(axes)) if other else s.part(x).permute(axes)
        return s.out(y.relu().mean((1, 2)))

    return network_of(forward, part=linear if other else conv, out=out)


@rounding.rounding(short=True)
def one_pixel_convolution_and_linear(other):
    training(pixelwise(other), rows(2, 6, 4, 4))


@rounding.rounding()
def matmul_transposed(other):
    def forward(s, x):
        h = s.fc(x)
        y = (s.weight.t() @ h.transpose(1, 2)).transpose(1, 2) if other else h @ s.weight
        return s.out(y.tanh())

    network = network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(8, 4))
    network.weight = nn.Parameter(torch.randn(8, 8))
    training(network, rows(2, 5, 8))


@rounding.rounding(short=True)
def grouped_queries_by_the_switch_or_by_repeating(other):
    def forward(s, x):
        q, k, v = (f(x).view(2, 5, -1, 2).transpose(1, 2) for f in (s.q, s.k, s.v))
        if other:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return s.o(y.transpose(1, 2).reshape(2, 5, 8))

    parts = {name: nn.Linear(8, size) for name, size in (("q", 8), ("k", 4), ("v", 4), ("o", 8))}
    training(network_of(forward, **parts), rows(2, 5, 8))


@rounding.rounding()
def arguments_in_other_spellings(other):
    def forward(s, x):
        h = s.fc(x).view(2, 5, 2, 4)
        scale = 0.5 if other else None
        h = F.scaled_dot_product_attention(h, h, h, scale=scale)
        h = F.gelu(h, approximate="none") if other else F.gelu(h)
        h = h.softmax(-1 if other else 3, dtype=torch.float32 if other else None)
        h = h.sum(-2 if other else 2).add(h.mean([2] if other else 2))
        h = h.sum([1] if other else 1, keepdim=not other)
        return s.out(h if other else h.squeeze(1))

    training(network_of(forward, fc=nn.Linear(8, 8), out=nn.Linear(4, 4)), rows(2, 5, 8))
