"""The same statements, definitions, names and parameters in another order."""

import copy
import io

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import mean_square, note, rows, same_weights, sgd, tokens, train
from torch import nn

family = Family("rewrites")


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x).relu())


class Renamed(nn.Module):
    """The same layers, with other names and the last one first."""

    def __init__(self):
        super().__init__()
        self.out, self.inner = nn.Linear(8, 3), nn.Linear(6, 8)

    def forward(self, x):
        return self.out(self.inner(x).relu())


def renamed(other, optimizer, **options):
    network = Renamed() if other else Body()
    same_weights(*((network.inner, network.out) if other else (network.body, network.head)))
    train(network, rows(4, 6), optimizer=optimizer(network.parameters(), **options))


@family.rounding(short=True)
def layers_defined_in_another_order_adamw(other):
    renamed(other, torch.optim.AdamW, lr=1e-2, foreach=False)


@family.rounding()
def layers_defined_in_another_order_foreach(other):
    renamed(other, torch.optim.AdamW, lr=1e-2, foreach=True)


@family.rounding()
def layers_defined_in_another_order_fused(other):
    renamed(other, torch.optim.AdamW, lr=1e-2, fused=True)


@family.rounding()
def layers_defined_in_another_order_sgd(other):
    renamed(other, torch.optim.SGD, lr=1e-2, momentum=0.9, weight_decay=1e-3)


@family.rounding()
def layers_of_one_shape_defined_in_another_order(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            for name in "cab" if other else "abc":
                self.add_module(name, nn.Linear(8, 8))

        def forward(self, x):
            return self.c(self.b(self.a(x).tanh()).tanh())

    network = Net()
    same_weights(network.a, network.b, network.c)
    train(network, rows(4, 8), optimizer=sgd(network, momentum=0.9))


@family.rounding()
def parameters_reversed_in_the_optimizer(other):
    network = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    parameters = list(network.parameters())
    train(network, rows(4, 8), optimizer=torch.optim.Adam(parameters[::-1] if other else parameters, lr=1e-2))


@family.rounding()
def groups_of_parameters_in_another_order(other):
    network = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8))
    groups = [
        {"params": [p for p in network.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in network.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    train(network, rows(4, 8), optimizer=torch.optim.AdamW(groups[::-1] if other else groups, lr=1e-2))


@family.rounding()
def one_group_or_one_for_each_parameter(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
    parameters = [{"params": [p]} for p in network.parameters()] if other else network.parameters()
    train(network, rows(4, 6), optimizer=torch.optim.AdamW(parameters, lr=1e-2))


@family.rounding()
def optimizer_of_each_layer(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
    parts = [network[0], network[2]] if other else [network]
    optimizers = [torch.optim.Adam(part.parameters(), lr=1e-2) for part in parts]
    for step in range(3):
        torch.manual_seed(step)
        loss = mean_square(network(torch.randn(4, 6)))
        network.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        note(loss)


class Towers(nn.Module):
    """Three layers of the same shapes read the same input."""

    def __init__(self, order):
        super().__init__()
        self.towers, self.order = nn.ModuleDict({n: nn.Linear(6, 8) for n in "abc"}), order
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        made = {name: torch.tanh(self.towers[name](x)) for name in self.order}
        return self.head(torch.cat([made[name] for name in "abc"], -1))


@family.rounding()
def towers_called_in_another_order(other):
    train(Towers("cab" if other else "abc"), rows(4, 6))


@family.rounding()
def towers_layer_by_layer_or_one_by_one(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 8)])
            self.b = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 8)])

        def forward(self, x):
            if other:
                a, b = self.a[0](x), self.b[0](x)
                a, b = a.relu(), b.relu()
                a, b = self.a[1](a), self.b[1](b)
            else:
                a = self.a[1](self.a[0](x).relu())
                b = self.b[1](self.b[0](x).relu())
            return a * b.sigmoid()

    train(Net(), rows(4, 6))


@family.rounding()
def items_of_a_dictionary_in_another_order(other):
    def data():
        parts = {"left": torch.randn(4, 6), "right": torch.randn(4, 6), "middle": torch.randn(4, 6)}
        return (dict(sorted(parts.items())) if other else parts,)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.of = nn.ModuleDict({n: nn.Linear(6, 8) for n in ("left", "right", "middle")})
            self.head = nn.Linear(8, 2)

        def forward(self, parts):
            return self.head(sum(self.of[name](x) for name, x in parts.items()).tanh())

    train(Net(), data)


@family.rounding()
def functions_of_the_inputs_in_another_order(other):
    """Outside of any module: two tensors of the same shape from outside."""
    torch.manual_seed(3)
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    layer = nn.Linear(8, 8)

    class Net(nn.Module):
        def forward(self, a, b):
            if other:
                q = b.exp()
                p = a.exp()
            else:
                p = a.exp()
                q = b.exp()
            return p * q.log1p()

    with torch.no_grad():
        note(layer(Net()(a, b)).sum())


@family.rounding()
def residual_on_the_left_or_right(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                y = layer(x).tanh()
                x = y + x if other else x + y
            return x

    train(Net(), rows(4, 8))


@family.rounding()
def constants_made_earlier_or_later(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(9, 8), nn.Linear(8, 9)

        def forward(self, ids):
            if other:
                h = self.words(ids)
                places, mask = torch.arange(6.0), torch.ones(6, 6).tril()
            else:
                mask, places = torch.ones(6, 6).tril(), torch.arange(6.0)
                h = self.words(ids)
            h = h * (1 + 0.1 * places[:, None])
            return self.head(mask @ h / mask.sum(-1, keepdim=True))

    train(Net(), tokens(9, 2, 6))


@family.rounding()
def model_copied(other):
    network = Body()
    network = copy.deepcopy(network) if other else network
    train(network, rows(4, 6), optimizer=torch.optim.Adam(network.parameters(), lr=1e-2))


@family.rounding()
def weights_loaded_or_initial(other):
    network = Body()
    if other:
        file = io.BytesIO()
        torch.save(network.state_dict(), file)
        file.seek(0)
        network = Body()
        network.load_state_dict(torch.load(file))
    train(network, rows(4, 6))


@family.rounding()
def weights_assigned_from_a_state(other):
    network = Body()
    if other:
        state = network.state_dict()
        with torch.device("meta"):
            network = Body()
        network.load_state_dict(state, assign=True)
    train(network, rows(4, 6), optimizer=sgd(network, momentum=0.9))


@family.rounding()
def model_wrapped(other):
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *inputs, **named):
            return self.module(*inputs, **named)

    network = Wrapper(Body()) if other else Body()
    train(network, rows(4, 6), optimizer=torch.optim.Adam(network.parameters(), lr=1e-2))


@family.rounding()
def hooks_that_do_nothing(other):
    network = Body()
    if other:
        network.body.register_forward_hook(lambda module, inputs, output: None)
        network.body.register_forward_pre_hook(lambda module, inputs: inputs)
        network.head.register_full_backward_hook(lambda module, grad_input, grad_output: None)
        network.head.weight.register_hook(lambda gradient: gradient)
    train(network, rows(4, 6))


@family.rounding()
def metrics_beside_the_loss(other):
    network = Body()
    labels = torch.tensor([0, 1, 2, 1])

    def loss(y):
        if other:
            with torch.no_grad():
                accuracy = (y.argmax(-1) == labels).float().mean().item()
                norms = [p.norm().item() for p in network.parameters()]
                assert 0 <= accuracy <= 1
                assert len(norms) == 4
        return F.cross_entropy(y, labels)

    train(network, rows(4, 6), loss)


@family.rounding()
def parameters_that_nothing_uses(other):
    network = Body()
    if other:
        network.unused = nn.Linear(8, 8)
        network.register_buffer("counter", torch.zeros(3))
    train(network, rows(4, 6), optimizer=torch.optim.AdamW(network.parameters(), lr=1e-2))


@family.rounding()
def gradients_cleared_before_or_after(other):
    network = Body()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for step in range(3):
        torch.manual_seed(step)
        if not other:
            optimizer.zero_grad()
        loss = mean_square(network(torch.randn(4, 6)))
        loss.backward()
        optimizer.step()
        if other:
            optimizer.zero_grad(set_to_none=False)
        note(loss)


@family.rounding()
def rows_of_the_batch_sorted(other):
    """A mean over the batch does not see the order of its rows."""

    def data():
        x = torch.randn(6, 6)
        return (x[x[:, 0].argsort()] if other else x,)

    train(Body(), data)


@family.rounding()
def no_grad_or_detach(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.online, self.target = nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, x):
            y = self.online(x)
            if other:
                with torch.no_grad():
                    goal = self.target(x).tanh()
            else:
                goal = self.target(x).tanh().detach()
            return y - goal

    network = Net()
    train(network, rows(4, 6), optimizer=sgd(network.online))
