"""Types, batches, data and ranks, in two ways that compute the same."""

import copy

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from cases import Family
from rewrites_training import mean_square, note, predict, rows, sgd, train
from torch import nn
from torch.utils.data import DataLoader, Dataset
from training import parallel

family = Family("rewrites")


def residual():
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


@family.rounding()
def autocast_or_casts_by_hand(other):
    network = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            if not other:
                with torch.autocast("cpu", torch.bfloat16):
                    return self.network(x).float()
            first, tanh, last = self.network
            h = F.linear(x.bfloat16(), first.weight.bfloat16(), first.bias.bfloat16())
            return F.linear(tanh(h), last.weight.bfloat16(), last.bias.bfloat16()).float()

    train(Net(), rows(8, 16), within=0.02)


@family.rounding()
def bfloat16_or_float32(other):
    network = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    kind = torch.bfloat16 if other else torch.float32
    predict(network.to(kind), lambda: (torch.randn(8, 16).to(kind),), within=0.05)


@family.rounding()
def bfloat16_or_float32_training(other):
    network = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(torch.bfloat16 if other else None)
    train(network, lambda: (torch.randn(8, 16).to(network[0].weight.dtype),), steps=2, within=0.05)


@family.rounding()
def float16_or_float32(other):
    network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))
    if other:
        network = network.half()
    predict(network, lambda: (torch.randn(8, 16).to(network[0].weight.dtype),), within=0.01)


@family.rounding()
def float64_or_float32(other):
    network = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    if other:
        network = network.double()
    train(network, lambda: (torch.randn(8, 16).to(network[0].weight.dtype),))


@family.rounding()
def master_weights_of_autocast_or_of_a_copy(other):
    """A bfloat16 copy of the model gives the gradients; the float32 weights take the step."""
    master = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer, low = sgd(master), copy.deepcopy(master).bfloat16()
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(8, 16)
        optimizer.zero_grad()
        if other:
            low.load_state_dict(master.state_dict())
            low.zero_grad()
            loss = mean_square(low(x.bfloat16()).float())
            loss.backward()
            for p, q in zip(master.parameters(), low.parameters(), strict=True):
                p.grad = q.grad.float()
        else:
            with torch.autocast("cpu", torch.bfloat16):
                y = master(x)
            loss = mean_square(y.float())
            loss.backward()
        optimizer.step()
        note(loss, 0.02)


@family.rounding()
def predicted_in_parts(other):
    network = residual()
    network.eval()

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            return torch.cat([self.network(part) for part in x.split(3)]) if other else self.network(x)

    predict(Parts(), rows(6, 6))


@family.rounding()
def inference_mode_or_no_grad(other):
    network = residual()
    with torch.inference_mode() if other else torch.no_grad():
        for step in range(2):
            torch.manual_seed(step)
            note(mean_square(network(torch.randn(4, 6))))


@family.rounding()
def own_generator_or_the_global_one(other):
    network = residual()
    own = torch.Generator()
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(4, 6, generator=own.manual_seed(step)) if other else torch.randn(4, 6)
        optimizer.zero_grad()
        loss = mean_square(network(x))
        loss.backward()
        optimizer.step()
        note(loss)


class Numbers(Dataset):
    def __init__(self):
        self.x = torch.linspace(-1, 1, 72).view(12, 6).sin()

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.x[i] * 2, i % 3


@family.rounding()
def loader_with_workers_or_without(other):
    network = residual()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for x, label in DataLoader(Numbers(), batch_size=4, num_workers=2 if other else 0):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), label)
        loss.backward()
        optimizer.step()
        note(loss)


@family.rounding()
def loader_or_slices(other):
    network = residual()
    optimizer = sgd(network)
    numbers = Numbers()
    batches = DataLoader(numbers, batch_size=4) if other else [
        (numbers.x[i : i + 4] * 2, torch.arange(i, i + 4) % 3) for i in (0, 4, 8)
    ]  # fmt: skip
    for x, label in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x), label)
        loss.backward()
        optimizer.step()
        note(loss)


@family.rounding()
def prepared_by_numpy_or_torch(other):
    """The loop normalises what it was given."""
    network = residual()
    optimizer = sgd(network)
    raw = torch.linspace(0, 255, 72).view(3, 4, 6)
    for x in raw:
        if other:
            array = x.numpy()
            x = torch.from_numpy(((array - array.mean(0)) / array.std(0, ddof=1)).astype(numpy.float32))  # noqa: PLW2901
        else:
            x = (x - x.mean(0)) / x.std(0)  # noqa: PLW2901
        optimizer.zero_grad()
        loss = mean_square(network(x))
        loss.backward()
        optimizer.step()
        note(loss)


@family.rounding()
def noise_drawn_before_or_in_the_model(other):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x, noise=None):
            h = self.inner(x)
            return self.outer(h + 0.1 * (torch.randn_like(h) if noise is None else noise))

    def data():
        x = torch.randn(4, 6)
        return (x, torch.randn(4, 8)) if other else (x,)

    train(Net(), data)


@family.rounding(ranks=1)
def one_rank_with_ddp_or_plain(other):
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    if other:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    train(parallel(network) if other else network, rows(4, 6))
    if other:
        dist.destroy_process_group()


@family.rounding(ranks=2)
def two_ranks_with_ddp_or_by_hand(other):
    dist.init_process_group("gloo")
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    module = parallel(network) if other else network
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(10 * step + dist.get_rank())
        optimizer.zero_grad()
        mean_square(module(torch.randn(4, 6))).backward()
        if not other:
            for p in network.parameters():
                dist.all_reduce(p.grad)
                p.grad /= 2
        optimizer.step()
    dist.destroy_process_group()


@family.rounding(ranks=2)
def ranks_reduced_one_by_one_or_flat(other):
    dist.init_process_group("gloo")
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = sgd(network)
    for step in range(3):
        torch.manual_seed(10 * step + dist.get_rank())
        optimizer.zero_grad()
        mean_square(network(torch.randn(4, 6))).backward()
        gradients = [p.grad for p in network.parameters()]
        if other:
            flat = torch.cat([g.flatten() for g in gradients])
            dist.all_reduce(flat)
            for p, part in zip(network.parameters(), flat.split([g.numel() for g in gradients]), strict=True):
                p.grad.copy_(part.view_as(p) / 2)
        else:
            for g in gradients:
                dist.all_reduce(g)
                g.div_(2)
        optimizer.step()
    dist.destroy_process_group()
