"""Checkpointing, compilation and transforms, in two ways that compute the same."""

import torch
import torch.nn.functional as F
from cases import Family
from rewrites_training import mean_square, note, predict, rows, sgd, train
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

family = Family("rewrites")


class Residual(nn.Module):
    def __init__(self, dropout=0.0, call=None):
        super().__init__()
        self.inner, self.blocks, self.head = nn.Linear(6, 8), nn.ModuleList(), nn.Linear(8, 3)
        for _ in range(2):
            self.blocks.append(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)))
        self.dropout, self.call = dropout, call or (lambda block, x: block(x))

    def forward(self, x):
        x = self.inner(x)
        for block in self.blocks:
            x = x + F.dropout(self.call(block, x), self.dropout)
        return self.head(x)


@family.rounding()
def checkpointed_reentrant(other):
    train(Residual(call=lambda block, x: checkpoint(block, x, use_reentrant=True) if other else block(x)), rows(4, 6))


@family.rounding()
def checkpointed_adamw(other):
    network = Residual(call=lambda block, x: checkpoint(block, x, use_reentrant=False) if other else block(x))
    train(network, rows(4, 6), optimizer=torch.optim.AdamW(network.parameters(), lr=1e-2))


@family.rounding()
def checkpointed_with_dropout(other):
    """The recomputation restores the state of the generator."""

    def dropped(block, x):
        return F.dropout(block(x), 0.3)

    def call(block, x):
        return checkpoint(dropped, block, x, use_reentrant=False) if other else dropped(block, x)

    train(Residual(call=call), rows(4, 6))


@family.rounding()
def checkpointed_in_segments(other):
    layers = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(8, 8), nn.Tanh())])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            return checkpoint_sequential(self.layers, 2, x, use_reentrant=False) if other else self.layers(x)

    train(Net(), rows(4, 8))


@family.rounding()
def saved_tensors_elsewhere(other):
    network = Residual()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            if not other:
                return self.network(x)
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), torch.from_numpy):
                return self.network(x)

    train(Net(), rows(4, 6))


@family.rounding()
def compiled_eager(other):
    network = Residual()
    train(torch.compile(network, backend="eager") if other else network, rows(4, 6))


@family.rounding()
def compiled_aot_eager(other):
    network = Residual()
    train(torch.compile(network, backend="aot_eager") if other else network, rows(4, 6))


@family.rounding()
def compiled_loss_only(other):
    loss = torch.compile(F.cross_entropy, backend="aot_eager") if other else F.cross_entropy
    train(Residual(), rows(4, 6), lambda y: loss(y, torch.tensor([0, 1, 2, 1])))


@family.rounding()
def compiled_each_block(other):
    network = Residual()
    if other:
        for block in network.blocks:
            block.compile(backend="aot_eager")
    train(network, rows(4, 6), optimizer=sgd(network, momentum=0.9))


@family.rounding()
def scripted(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    train(torch.jit.script(network) if other else network, rows(4, 6))


@family.rounding()
def traced(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    if other:
        state = torch.get_rng_state()
        network = torch.jit.trace(network, torch.randn(4, 6))
        torch.set_rng_state(state)
    train(network, rows(4, 6))


@family.rounding()
def exported(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    if other:
        network = torch.export.export(network, (torch.zeros(4, 6),)).module()
    predict(network, rows(4, 6))


@family.rounding()
def vmap_or_batch(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def one(self, x):
            return self.outer(self.inner(x).tanh().softmax(-1))

        def forward(self, x):
            return torch.vmap(self.one)(x) if other else self.one(x)

    train(Net(), rows(4, 6))


@family.rounding()
def vmap_or_loop_over_rows(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def one(self, x):
            return self.outer(F.layer_norm(self.inner(x), (8,)).relu())

        def forward(self, x):
            return torch.vmap(self.one)(x) if other else torch.stack([self.one(row) for row in x])

    train(Net(), rows(4, 6))


def functional_training(gradients):
    """`gradients` gives the loss and the gradients of the parameters, by name."""
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    for step in range(3):
        torch.manual_seed(step)
        loss, of = gradients(network, torch.randn(4, 6))
        with torch.no_grad():
            for name, p in network.named_parameters():
                p.sub_(0.1 * of[name])
        note(loss)


def by_autograd(network, x):
    loss = mean_square(network(x))
    names, parameters = zip(*network.named_parameters(), strict=True)
    return loss, dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


@family.rounding()
def gradients_by_func(other):
    def by_func(network, x):
        parameters = {name: p.detach() for name, p in network.named_parameters()}
        of, loss = torch.func.grad_and_value(lambda ps: mean_square(torch.func.functional_call(network, ps, x)))(
            parameters
        )
        return loss, of

    functional_training(by_func if other else by_autograd)


@family.rounding()
def gradients_of_each_row_by_func(other):
    def by_rows(network, x):
        parameters = {name: p.detach() for name, p in network.named_parameters()}

        def one(ps, row):
            return mean_square(torch.func.functional_call(network, ps, row[None]))

        of, losses = torch.vmap(torch.func.grad_and_value(one), (None, 0))(parameters, x)
        return losses.mean(), {name: g.mean(0) for name, g in of.items()}

    functional_training(by_rows if other else by_autograd)


@family.rounding()
def called_with_its_parameters(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

        def forward(self, x):
            if other:
                return torch.func.functional_call(self.inner, dict(self.inner.named_parameters()), (x,))
            return self.inner(x)

    train(Net(), rows(4, 6))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return gradient * (s + x * s * (1 - s))


@family.rounding()
def own_function_or_autograd(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = self.inner(x)
            return self.outer(Square.apply(h) if other else h * h.sigmoid())

    train(Net(), rows(4, 6))


@family.rounding()
def gradient_penalty_by_sum_or_norm(other):
    """A double backward."""
    network = nn.Sequential(nn.Linear(6, 8), nn.Softplus(), nn.Linear(8, 1))
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(4, 6, requires_grad=True)
        optimizer.zero_grad()
        (gradient,) = torch.autograd.grad(network(x).sum(), x, create_graph=True)
        size = gradient.square().sum(1).sqrt() if other else gradient.norm(dim=1)
        loss = (size - 1).square().mean()
        loss.backward()
        optimizer.step()
        note(loss)


def special_functions(x):
    p, q = x.exp(), x.flip(-1).exp()
    parts = torch.logaddexp(x, x.flip(-1)), torch.xlogy(p, q), torch.sinc(x), torch.hypot(x, p), torch.nan_to_num(x / q)
    return sum(parts) + torch.logaddexp2(x, p) + torch.special.xlog1py(p, q) + torch.logcumsumexp(x, -1)


class Special(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(special_functions(self.inner(x)))


@family.rounding()
def special_functions_in_a_compiled_evaluation(other):
    """The compiler writes them as other operators, with constants of NaN and infinity that a `where` drops."""
    network = Special()
    predict(torch.compile(network, backend="aot_eager_decomp_partition") if other else network, rows(4, 6))


@family.rounding()
def special_functions_in_a_compiled_training(other):
    network = Special()
    called = torch.compile(network, backend="aot_eager_decomp_partition") if other else network
    train(called, rows(4, 6), optimizer=sgd(network, lr=1e-3))
