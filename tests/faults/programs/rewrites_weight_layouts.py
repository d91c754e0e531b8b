"""The same weights in two layouts: transposed, permuted, stacked, cut. Some have a fault beside them."""

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import mean_square, note, predict, rows, train
from torch import nn

family = Family("weights in another layout")

ORDER = torch.tensor([5, 2, 7, 0, 1, 6, 3, 4])


def network_of(forward, **parts):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, x):
            return forward(self, x)

    return Network()


@torch.no_grad()
def permute(before, after, *between):
    """The outputs of the layers before, the units of those between, and the inputs of those after, in another order."""
    for layer in (*before, *between):
        for p in layer.parameters():
            p.copy_(p[ORDER])
    for layer in after:
        layer.weight.copy_(layer.weight[:, ORDER])


def adam(network):
    return torch.optim.AdamW(network.parameters(), lr=1e-2)


@family.rounding()
def hidden_units_permuted_with_a_norm(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4))
    nn.init.zeros_(network[0].bias)
    nn.init.uniform_(network[1].weight, 0.5, 1.5)
    if other:
        permute([network[0]], [network[3]], network[1])
    train(network, rows(4, 6), optimizer=adam(network))


@family.rounding(short=True)
def hidden_units_permuted_in_an_evaluation(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 4))
    if other:
        permute([network[0]], [network[2]])
    predict(network, rows(4, 6))


@family.rounding()
def channels_permuted(other):
    parts = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten(), nn.Linear(16, 3)
    network = nn.Sequential(*parts)
    if other:
        permute([network[0]], [network[3]], network[1])
    train(network, rows(4, 3, 6, 6), optimizer=adam(network))


@family.rounding()
def units_of_a_gate_permuted(other):
    parts = {"gate": nn.Linear(6, 8), "up": nn.Linear(6, 8), "down": nn.Linear(8, 6)}
    network = network_of(lambda s, x: s.down(F.silu(s.gate(x)) * s.up(x)) + x, **parts)
    if other:
        permute([network.gate, network.up], [network.down])
    train(network, rows(4, 6))


def attention(s, q, k, v):
    q, k, v = (h.unflatten(-1, (4, -1)).transpose(1, 2) for h in (q, k, v))
    return s.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@family.rounding()
def heads_in_another_order(other):
    network = network_of(
        lambda s, x: attention(s, s.q(x), s.k(x), s.v(x)), **{name: nn.Linear(8, 8) for name in ("q", "k", "v", "o")}
    )
    if other:
        order = torch.tensor([4, 5, 0, 1, 6, 7, 2, 3])
        with torch.no_grad():
            for layer in (network.q, network.k, network.v):
                for p in layer.parameters():
                    p.copy_(p[order])
            network.o.weight.copy_(network.o.weight[:, order])
    train(network, rows(2, 5, 8), optimizer=adam(network))


def projections(other, names, sizes):
    """One layer for all projections, or one for each."""
    layers = [nn.Linear(8, size) for size in sizes]
    if not other:
        return dict(zip(names, layers, strict=True))
    joined = nn.Linear(8, sum(sizes))
    with torch.no_grad():
        joined.weight.copy_(torch.cat([layer.weight for layer in layers]))
        joined.bias.copy_(torch.cat([layer.bias for layer in layers]))
    return {"joined": joined}


@family.rounding(short=True)
def projections_joined_or_apart(other):
    def forward(s, x):
        return attention(s, *(s.joined(x).split([8, 8, 8], -1) if other else (s.q(x), s.k(x), s.v(x))))

    parts = projections(other, ("q", "k", "v"), (8, 8, 8))
    network = network_of(forward, **parts, o=nn.Linear(8, 8))
    torch.manual_seed(9)
    nn.init.normal_(network.o.weight, std=0.3)
    nn.init.zeros_(network.o.bias)
    train(network, rows(2, 5, 8), optimizer=adam(network))


@family.rounding()
def gate_and_up_joined_or_apart(other):
    def forward(s, x):
        gate, up = s.joined(x).chunk(2, -1) if other else (s.gate(x), s.up(x))
        return s.down(F.silu(gate) * up)

    parts = projections(other, ("gate", "up"), (12, 12))
    network = network_of(forward, **parts, down=nn.Linear(12, 8))
    torch.manual_seed(9)
    nn.init.normal_(network.down.weight, std=0.3)
    nn.init.zeros_(network.down.bias)
    train(network, rows(4, 8))


def experts(other, forward=None, many=3):
    layers = [nn.Linear(6, 8) for _ in range(many)]
    if not other:
        return {"layers": nn.ModuleList(layers)}
    return {
        "weight": nn.Parameter(torch.stack([layer.weight.detach().t() for layer in layers])),
        "bias": nn.Parameter(torch.stack([layer.bias.detach() for layer in layers])),
    }


@family.rounding()
def experts_stacked_and_transposed(other):
    def forward(s, x):
        if other:
            h = torch.einsum("bi,eio->beo", x, s.weight) + s.bias
        else:
            h = torch.stack([layer(x) for layer in s.layers], 1)
        return s.head(h.relu().amax(1))

    parts = experts(other)
    torch.manual_seed(9)
    network = network_of(forward, **parts, head=nn.Linear(8, 3))
    train(network, rows(4, 6), optimizer=adam(network))


@family.rounding()
def convolution_by_a_matrix(other):
    """The kernel as a matrix of (kernel, channels) by outputs."""
    layer = nn.Conv1d(4, 8, 3)

    def forward(s, x):
        if other:
            windows = x.unfold(2, 3, 1).permute(0, 2, 3, 1).flatten(2)
            h = (windows @ s.weight + s.bias).transpose(1, 2)
        else:
            h = s.layer(x)
        return s.head(h.tanh().mean(-1))

    parts = {"layer": layer}
    if other:
        weight = layer.weight.detach().permute(2, 1, 0).flatten(0, 1).contiguous()
        parts = {"weight": nn.Parameter(weight), "bias": nn.Parameter(layer.bias.detach())}
    torch.manual_seed(9)
    network = network_of(forward, **parts, head=nn.Linear(8, 3))
    train(network, rows(4, 4, 9))


@family.rounding()
def inputs_in_another_unit(other):
    """Pixels from 0 to 255, and weights for them."""
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    if other:
        with torch.no_grad():
            network[0].weight /= 255
    predict(network, lambda: (torch.rand(4, 6) * 255,) if other else (torch.rand(4, 6),), within=1e-3)


@family.differs("gelu", short=True)
def activation_between_permuted_units(wrong):
    def forward(s, x):
        h = F.gelu(s.up(x), approximate="tanh" if wrong else "none")  # FAULT
        return s.down(h)

    network = network_of(forward, up=nn.Linear(6, 8), down=nn.Linear(8, 4))
    if wrong:
        permute([network.up], [network.down])
    predict(network, rows(4, 6))


@family.differs("leaky_relu")
def slope_between_permuted_units_in_a_training(wrong):
    def forward(s, x):
        h = F.leaky_relu(s.up(x), 0.1 if wrong else 0.01)  # FAULT
        return s.down(h)

    network = network_of(forward, up=nn.Linear(6, 8), down=nn.Linear(8, 4))
    if wrong:
        permute([network.up], [network.down])
    train(network, rows(4, 6))


@family.differs("softmax", "div", "mul")
def temperature_after_permuted_units(wrong):
    def forward(s, x):
        h = s.down(s.up(x).tanh())
        return s.head((h / (0.6 if wrong else 0.5)).softmax(-1))  # FAULT

    network = network_of(forward, up=nn.Linear(6, 8), down=nn.Linear(8, 4), head=nn.Linear(4, 3))
    if wrong:
        permute([network.up], [network.down])
    train(network, rows(4, 6))


@family.differs("linear")
def rows_permuted_and_columns_not(wrong):
    def forward(s, x):
        return s.down(s.up(x).tanh())  # FAULT

    network = network_of(forward, up=nn.Linear(6, 8), down=nn.Linear(8, 4))
    if wrong:
        permute([network.up], [])
    train(network, rows(4, 6))


@family.differs("linear")
def weights_of_another_library_not_transposed(wrong):
    def forward(s, x):
        return s.last(s.middle(s.first(x).tanh()).tanh())  # FAULT

    network = network_of(forward, first=nn.Linear(6, 8), middle=nn.Linear(8, 8), last=nn.Linear(8, 3))
    if wrong:
        with torch.no_grad():
            network.middle.weight.copy_(network.middle.weight.t().clone())
    train(network, rows(4, 6))


@family.differs("split", "split_with_sizes", "linear", "scaled_dot_product_attention")
def keys_and_values_of_a_joined_layer_exchanged(wrong):
    def forward(s, x):
        if wrong:
            q, v, k = s.joined(x).split([8, 8, 8], -1)  # FAULT
        else:
            q, k, v = s.q(x), s.k(x), s.v(x)
        return attention(s, q, k, v)

    parts = projections(wrong, ("q", "k", "v"), (8, 8, 8))
    network = network_of(forward, **parts, o=nn.Linear(8, 8))
    torch.manual_seed(9)
    nn.init.normal_(network.o.weight, std=0.3)
    nn.init.zeros_(network.o.bias)
    train(network, rows(2, 5, 8))


@family.differs("mean", "amax", "max")
def experts_stacked_and_averaged_otherwise(wrong):
    def forward(s, x):
        if wrong:
            h = torch.einsum("bi,eio->beo", x, s.weight) + s.bias
        else:
            h = torch.stack([layer(x) for layer in s.layers], 1)
        h = h.relu()
        h = h.mean(1) if wrong else h.amax(1)  # FAULT
        return s.head(h)

    parts = experts(wrong)
    torch.manual_seed(9)
    network = network_of(forward, **parts, head=nn.Linear(8, 3))
    train(network, rows(4, 6))


@family.differs("mul_", "add_", "sub_", "_foreach_mul_")
def decay_of_transposed_weights_only(wrong):
    layer, head = nn.Linear(6, 8), nn.Linear(8, 3)
    weight = nn.Parameter(layer.weight.detach().t().contiguous())
    network = network_of(
        lambda s, x: s.head((x @ s.weight if wrong else x @ s.weight.t()).tanh()),
        weight=weight if wrong else nn.Parameter(layer.weight.detach()),
        head=head,
    )
    decay = 0.1 if wrong else 0.01
    groups = [{"params": [network.weight], "weight_decay": decay}, {"params": list(head.parameters())}]
    optimizer = torch.optim.AdamW(groups, lr=0.05, weight_decay=0.01, foreach=False)
    for step in range(3):
        torch.manual_seed(100 + step)
        optimizer.zero_grad()
        mean_square(network(torch.randn(4, 6))).backward()
        optimizer.step()  # FAULT


@family.differs("linear", "sub")
def norm_of_the_inputs_folded_with_another_spread(wrong):
    def forward(s, x):
        return s.last(s.first(x).relu())  # FAULT

    mean, spread = torch.tensor([0.5, -0.2, 0.1, 0.3, 0.0, 1.0]), torch.tensor([1.0, 2.0, 0.5, 1.5, 1.0, 0.7])
    network = network_of(forward, first=nn.Linear(6, 8), last=nn.Linear(8, 3))
    if wrong:
        with torch.no_grad():
            network.first.bias -= network.first.weight @ (mean / spread)
            network.first.weight /= spread.square()
    predict(network, lambda: (torch.randn(4, 6),) if wrong else ((torch.randn(4, 6) - mean) / spread,))  # FAULT


class Stored(nn.Module):
    """A linear layer whose weights are transposed, as GPT-2 has them."""

    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias = nn.Parameter(layer.weight.detach().t().contiguous()), layer.bias

    def forward(self, x):
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class Block(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        shapes = ((16, 48), (16, 16), (16, 32), (32, 16))
        self.qkv, self.o, self.up, self.down = (make(nn.Linear(*shape)) for shape in shapes)

    def forward(self, x):
        x = x + attention(self, *self.qkv(self.norms[0](x)).chunk(3, -1))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


@family.rounding()
def all_weights_of_a_transformer_transposed(other):
    make = Stored if other else lambda layer: layer
    words, blocks = nn.Embedding(20, 16), nn.Sequential(Block(make), Block(make))
    network = network_of(lambda s, ids: s.blocks(s.words(ids)) @ s.words.weight.T, words=words, blocks=blocks)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    for step in range(3):
        torch.manual_seed(100 + step)
        ids = torch.randint(0, 20, (3, 8))
        optimizer.zero_grad()
        value = F.cross_entropy(network(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        value.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        note(value)


@family.rounding()
def vocabulary_in_another_order(other):
    order = torch.randperm(20, generator=torch.Generator().manual_seed(3))
    places = torch.argsort(order)
    network = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    if other:
        with torch.no_grad():
            network[0].weight.copy_(network[0].weight[order])

    def data():
        ids = torch.randint(0, 20, (4, 6))
        return (places[ids],) if other else (ids,)

    train(network, data)


@family.rounding()
def hidden_units_permuted_in_bfloat16(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
    if other:
        permute([network[0]], [network[2]])
    data = lambda: (torch.randn(4, 6).bfloat16(),)  # noqa: E731
    train(network.bfloat16(), data, lambda y: y.float().square().mean(), within=0.02)


@family.rounding()
def hidden_units_permuted_with_a_fused_optimizer(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
    if other:
        permute([network[0]], [network[2]])
    train(network, rows(4, 6), optimizer=torch.optim.AdamW(network.parameters(), lr=1e-2, fused=True))


@family.rounding()
def gates_of_cells_in_another_order(other):
    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.i, self.h, self.head = nn.Linear(4, 32), nn.Linear(8, 32), nn.Linear(8, 3)

        def forward(self, x):
            h = c = torch.zeros(len(x), 8)
            for t in range(x.shape[1]):
                gates = (self.i(x[:, t]) + self.h(h)).chunk(4, -1)
                i, f, g, o = (gates[k] for k in ((0, 2, 3, 1) if other else range(4)))
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            return self.head(h)

    network = Cells()
    if other:
        order = torch.cat([torch.arange(8), torch.arange(24, 32), torch.arange(8, 24)])
        with torch.no_grad():
            for p in (*network.i.parameters(), *network.h.parameters()):
                p.copy_(p[order])
    train(network, rows(2, 5, 4))


class Deep(nn.Module):
    """The weights of all layers in one parameter, or a list of layers."""

    def __init__(self, stacked, function):
        super().__init__()
        layers = [nn.Linear(8, 8) for _ in range(3)]
        self.inner, self.head, self.function = nn.Linear(6, 8), nn.Linear(8, 3), function
        if stacked:
            self.weights = nn.Parameter(torch.stack([layer.weight.detach() for layer in layers]))
            self.biases = nn.Parameter(torch.stack([layer.bias.detach() for layer in layers]))
        else:
            self.layers = nn.ModuleList(layers)

    def forward(self, x):
        h = self.inner(x)
        for i in range(3):
            y = self.layers[i](h) if hasattr(self, "layers") else F.linear(h, self.weights[i], self.biases[i])
            h = h + self.function(i, y)
        return self.head(h)


@family.rounding()
def layers_stacked_or_apart(other):
    network = Deep(other, lambda _i, y: F.silu(y))
    train(network, rows(4, 6), optimizer=adam(network))


@family.differs("silu", "mul")
def factor_in_one_of_the_stacked_layers(wrong):
    def function(i, y):
        return F.silu(1.2 * y) if wrong and i == 1 else F.silu(y)  # FAULT

    train(Deep(wrong, function), rows(4, 6))
