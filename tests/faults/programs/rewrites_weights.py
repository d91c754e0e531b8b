"""Weights that absorbed others, weights that are tied, and buffers, in two ways that compute the same."""

import copy

import numpy
import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import predict, rows, same_weights, sgd, tokens, train
from torch import nn
from torch.nn.utils import parametrizations, parametrize

family = Family("rewrites")


class Adapted(nn.Module):
    """A linear layer with LoRA's two small ones beside it."""

    def __init__(self, width=8, rank=2):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.a, self.b = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
        self.merged = False

    def forward(self, x):
        return self.base(x) if self.merged else self.base(x) + 0.5 * self.b(self.a(x))

    @torch.no_grad()
    def merge(self):
        self.base.weight += 0.5 * self.b.weight @ self.a.weight
        self.merged = True


@family.rounding()
def adapters_merged_or_beside(other):
    network = nn.Sequential(Adapted(), nn.ReLU(), Adapted(), nn.ReLU(), nn.Linear(8, 3))
    if other:
        network[0].merge()
        network[2].merge()
    predict(network, rows(4, 8))


@family.rounding()
def adapters_of_a_frozen_body_merged(other):
    """Only the head is trained."""
    network = nn.Sequential(Adapted(), nn.Tanh(), Adapted(), nn.Tanh(), nn.Linear(8, 3))
    network[:4].requires_grad_(False)
    if other:
        network[0].merge()
        network[2].merge()
    train(network, rows(4, 8), optimizer=sgd(network[4], momentum=0.9))


@family.rounding()
def adapter_product_first(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 8)
            self.a, self.b = nn.Parameter(torch.randn(2, 8) * 0.3), nn.Parameter(torch.randn(8, 2) * 0.3)

        def forward(self, x):
            if other:
                return F.linear(x, self.base.weight + self.b @ self.a, self.base.bias)
            return self.base(x) + x @ self.a.T @ self.b.T

    train(Net(), rows(4, 8))


@family.rounding()
def batch_norm_folded_into_convolution(other):
    network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4)).eval()
    network[1].running_mean.uniform_(-0.5, 0.5)
    network[1].running_var.uniform_(0.5, 2)
    if other:
        fused = nn.utils.fuse_conv_bn_eval(network[0], network[1])
        network = nn.Sequential(fused, *network[2:])
    predict(network, rows(2, 3, 6, 6))


@family.rounding()
def batch_norm_folded_into_linear(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).eval()
    network[1].running_mean.uniform_(-0.5, 0.5)
    network[1].running_var.uniform_(0.5, 2)
    if other:
        with torch.no_grad():
            norm = network[1]
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            network[0].weight.mul_(scale[:, None])
            network[0].bias.copy_((network[0].bias - norm.running_mean) * scale + norm.bias)
        network[1] = nn.Identity()
    predict(network, rows(4, 6))


@family.rounding()
def weights_of_a_norm_folded_into_the_next_layer(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 4))
    nn.init.uniform_(network[1].weight, 0.5, 1.5)
    nn.init.uniform_(network[1].bias, -0.5, 0.5)
    if other:
        with torch.no_grad():
            norm, last = network[1], network[2]
            last.bias += last.weight @ norm.bias
            last.weight *= norm.weight
        network[1] = nn.LayerNorm(8, elementwise_affine=False)
    predict(network, rows(4, 6))


@family.rounding()
def weight_norm_removed(other):
    network = nn.Sequential(parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 4))
    if other:
        parametrize.remove_parametrizations(network[0], "weight")
    predict(network, rows(4, 6))


@family.rounding()
def weight_norm_by_hand(other):
    class Normed(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.direction = nn.Parameter(layer.weight.detach().clone())
            self.size = nn.Parameter(layer.weight.detach().norm(dim=1, keepdim=True))
            self.bias = layer.bias

        def forward(self, x):
            return F.linear(x, self.direction * (self.size / self.direction.norm(dim=1, keepdim=True)), self.bias)

    layer = nn.Linear(6, 8)
    layer = Normed(layer) if other else parametrizations.weight_norm(layer)
    train(nn.Sequential(layer, nn.Tanh(), nn.Linear(8, 4)), rows(4, 6))


@family.rounding()
def spectral_norm_removed(other):
    network = nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 4)).eval()
    if other:
        parametrize.remove_parametrizations(network[0], "weight")
    predict(network, rows(4, 6))


class Scores(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.q, self.k, self.v, self.scale = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), scale

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT
        return (scores * self.scale if self.scale else scores).softmax(-1) @ self.v(x)


@family.rounding()
def scale_of_scores_in_the_weights(other):
    network = Scores(0.25)
    if other:
        with torch.no_grad():
            network.q.weight *= 0.25
            network.q.bias *= 0.25
        network.scale = None
    predict(network, rows(2, 5, 8))


@family.rounding()
def queries_larger_and_keys_smaller(other):
    """As smoothing before a quantisation does it: the products are the same."""
    network = Scores(0.25)
    if other:
        factor = torch.linspace(0.5, 2.0, 8)
        with torch.no_grad():
            network.q.weight *= factor[:, None]
            network.q.bias *= factor
            network.k.weight /= factor[:, None]
            network.k.bias /= factor
    predict(network, rows(2, 5, 8))


@family.rounding()
def hidden_units_permuted(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
    if other:
        order = torch.tensor([5, 2, 7, 0, 1, 6, 3, 4])
        with torch.no_grad():
            network[0].weight.copy_(network[0].weight[order])
            network[0].bias.copy_(network[0].bias[order])
            network[2].weight.copy_(network[2].weight[:, order])
    train(network, rows(4, 6))


@family.rounding()
def two_linear_layers_merged(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    if other:
        first, second = network[0], network[1]
        merged = nn.Linear(6, 8)
        with torch.no_grad():
            merged.weight.copy_(second.weight @ first.weight)
            merged.bias.copy_(second.weight @ first.bias + second.bias)
        network = nn.Sequential(merged, *network[2:])
    predict(network, rows(4, 6))


@family.rounding()
def normalised_input_in_the_first_layer(other):
    mean, spread = torch.tensor([0.5, -0.2, 0.1, 0.3, 0.0, 1.0]), torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0, 0.7])
    network = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    if other:
        with torch.no_grad():
            network[0].bias -= network[0].weight @ (mean / spread)
            network[0].weight /= spread
    predict(network, lambda: (torch.randn(4, 6),) if other else ((torch.randn(4, 6) - mean) / spread,))


@family.rounding()
def pruned_in_the_weights_or_by_a_mask(other):
    from torch.nn.utils import prune

    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    prune.l1_unstructured(network[0], "weight", 0.5)
    if other:
        prune.remove(network[0], "weight")
    predict(network, rows(4, 6))


@family.rounding()
def tied_by_parameter_or_by_function(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(9, 8)
            if not other:
                self.head = nn.Linear(8, 9, bias=False)
                self.head.weight = self.words.weight

        def forward(self, ids):
            h = self.words(ids).tanh()
            return F.linear(h, self.words.weight) if other else self.head(h)

    network = Net()
    same_weights(network.words)
    train(network, tokens(9, 2, 5), optimizer=torch.optim.Adam(network.parameters(), lr=1e-2))


@family.rounding()
def layer_shared_or_called_twice(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = self.first if other else None

        def forward(self, x):
            h = self.first(x).tanh()
            return (self.second if other else self.first)(h)

    train(Net(), rows(4, 8))


@family.rounding()
def buffer_registered_or_made(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)
            if other:
                self.register_buffer("window", torch.hann_window(8))

        def forward(self, x):
            window = self.window if other else torch.hann_window(8)
            return self.outer(self.inner(x) * window)

    train(Net(), rows(4, 6))


@family.rounding()
def number_as_buffer_or_python(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)
            self.register_buffer("temperature", torch.tensor(0.7))

        def forward(self, x):
            return self.outer((self.inner(x) / (self.temperature if other else 0.7)).softmax(-1))

    train(Net(), rows(4, 6))


@family.rounding()
def weights_through_numpy(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    if other:
        arrays = {name: numpy.array(p) for name, p in network.state_dict().items()}
        network = copy.deepcopy(network)
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    train(network, rows(4, 6))


@family.rounding()
def experts_stacked_or_apart(other):
    """Expert layers as one parameter of three axes, or as a list of layers."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [nn.Linear(6, 8) for _ in range(3)]
            if other:
                self.weight = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))
                self.bias = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]))
            else:
                self.layers = nn.ModuleList(layers)

        def forward(self, x):
            if other:
                return torch.baddbmm(self.bias[:, None], x.expand(3, 4, 6), self.weight.mT).tanh().mean(0)
            return torch.stack([layer(x).tanh() for layer in self.layers]).mean(0)

    train(Net(), rows(4, 6))
