"""sonde compare of experts on two ranks, to which all_to_all brings tokens, with the same on one process: their slots
are in another order, and a rank may get back the fault of another rank."""

import pytest
from ranks import DISTRIBUTED, beside_one

pytestmark = pytest.mark.cold

EXPERTS = (
    DISTRIBUTED
    + """
    world, fault, count, capacity = int(os.environ["WORLD_SIZE"]), "FAULT", 4, 64
    own = count // world

    class Exchange(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            dist.all_to_all_single(out, x)
            return out

        @staticmethod
        def backward(ctx, gradient):
            out = torch.empty_like(gradient)
            dist.all_to_all_single(out, gradient.contiguous())
            if bad == "halved":
                out = out * 0.5  # halved
            return out

    class Expert(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number, self.up, self.down = number, nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, x):
            hidden = torch.relu(self.up(x))
            if bad == "expert" and self.number == 2:
                hidden = hidden + 0.1  # expert
            return self.down(hidden)

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(16, count, bias=False)
            every = [Expert(number) for number in range(count)]
            mine = [one for one in every if world == 1 or one.number // own == rank]
            self.experts = nn.ModuleDict({str(one.number): one for one in mine})

        def forward(self, x):
            weight, index = self.gate(x).softmax(-1).max(-1)
            chosen = nn.functional.one_hot(index, count)
            place = (chosen.cumsum(0) * chosen).sum(-1) - 1
            slots = x.new_zeros(count * capacity, 16).index_put((index * capacity + place,), x)
            slots = slots.view(count, capacity, 16)
            if world > 1:
                slots = Exchange.apply(slots).view(world, own, capacity, 16).transpose(0, 1).reshape(own, -1, 16)
            results = torch.stack([expert(part) for expert, part in zip(self.experts.values(), slots)])
            if world > 1:
                results = results.view(own, world, capacity, 16).transpose(0, 1).reshape(count, capacity, 16)
                results = Exchange.apply(results)
            return results.reshape(-1, 16)[index * capacity + place] * weight[:, None]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
            self.norm, self.experts = nn.LayerNorm(16), Experts()

        def forward(self, x):
            x = torch.tanh(self.first(x))
            return self.head(x + self.experts(self.norm(x)))

    bad = ""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(64, 8, generator=generator), torch.randint(0, 4, (64,), generator=generator)
        bad = fault if step >= 1 else ""
        nn.functional.cross_entropy(net(x.chunk(world)[rank]), y.chunk(world)[rank]).backward()
        for name, parameter in net.named_parameters() if world > 1 else ():
            if ".experts." not in name:
                dist.all_reduce(parameter.grad)
            parameter.grad /= world
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


def test_a_collective_that_brings_what_another_rank_computed_is_not_to_blame(tmp_path, sonde):
    for fault, line, found, _ in beside_one(tmp_path, sonde, EXPERTS, ("expert", "halved"), saved_data="tensor"):
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and ", step 1, " in first, found.stdout
        is_named = f"rank {1 if fault == 'expert' else 0}, " in first and f"train.py:{line}: " in first
        assert is_named or first.startswith("first difference (uncertain): "), found.stdout
