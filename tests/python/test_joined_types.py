"""sonde compare of a training on two ranks with the same on one process: one tensor in two types, and gradients of a
value that is read twice beside those that are added to parameters."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

# FSDP casts all parameters to bfloat16. Autocast leaves those of a recurrent layer and of a norm as they are.
CAST = (
    DISTRIBUTED
    + """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.norm, self.out = nn.GRU(8, 8, batch_first=True), nn.LayerNorm(8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.norm(x + self.mix(x)[0])
            if fault == "hidden" and rank == world - 1:
                x = x * 1.25  # hidden
            return self.out(x)

    net = Net()
    if world > 1:
        fully_shard(net, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(2):
        data = torch.randn(8, 5, 8, generator=torch.Generator().manual_seed(step)).chunk(world)[rank]
        with torch.autocast("cpu", torch.bfloat16, enabled=world == 1):
            y = net(data)
        y.float().square().mean().backward()
        if fault == "state" and step == 1:
            for of in optimizer.state.values():
                (of["exp_avg"].to_local() if world > 1 else of["exp_avg"]).mul_(4)  # state
        if fault == "state_alone" and step == 1 and rank == world - 1:
            state = optimizer.state[net.out.weight]["exp_avg"]
            (state.to_local() if world > 1 else state).mul_(30)  # state_alone
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)

# The batch in two parts on each rank. A residual around a norm: at its line the backward pass adds up two gradients of
# one value, and those of the norm's parameters.
RESIDUAL = (
    DISTRIBUTED
    + """
    world, fault, step = int(os.environ["WORLD_SIZE"]), "FAULT", 0

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, place):
            ctx.place = place
            return x * 1.0

        @staticmethod
        def backward(ctx, gradient):
            if fault == ctx.place == "end" and step == 1:
                return gradient * 1.5, None  # end
            if fault == ctx.place == "term" and step == 1:
                return gradient * 0.5, None  # term
            return gradient, None

    class Block(nn.Module):
        def __init__(self, own):
            super().__init__()
            self.norm, self.up, self.own = nn.LayerNorm(8), nn.Linear(8, 8), own

        def forward(self, x):
            y = self.norm(Own.apply(x, "term") if self.own else x)
            x = x + self.up(y).tanh()
            return Own.apply(x, "end") if self.own else x

    net = nn.Sequential(Block(False), Block(True), Block(False), nn.Linear(8, 3))
    if world > 1:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        data = torch.randn(8, 8, generator=torch.Generator().manual_seed(step)).chunk(world)[rank]
        for part in data.chunk(world):
            (net(part).square().mean() / world).backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
CASES = [
    (CAST, "full", {"hidden": (0, "mul"), "state": (1, "mul_"), "state_alone": (1, "mul_")}),
    (CAST, "statistic", {"hidden": (0, "mul"), "state_alone": (1, "mul_")}),
    (RESIDUAL, "full", {"end": (1, "mul"), "term": (1, "mul")}),
    (RESIDUAL, "statistic", {"end": (1, "mul"), "term": (1, "mul")}),
]


@pytest.mark.parametrize(("source", "saved_data", "faults"), CASES, ids=("cast", "cast-s", "residual", "residual-s"))
def test_what_goes_wrong_is_named_and_nothing_else(tmp_path, sonde, source, saved_data, faults):
    golden = run_one(tmp_path, source.replace("FAULT", ""), saved_data)
    lines = textwrap.dedent(source).splitlines()
    for fault in ("", *faults):
        directory = tmp_path / (fault or "healthy")
        directory.mkdir()
        ranks = run_ranks(directory, source.replace("FAULT", fault), saved_data=saved_data)
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        found = sonde("compare", ranks.dump, golden)
        if not fault:
            assert found.status == 0 and found.stdout.startswith("no difference"), found.stdout
            continue
        step, op = faults[fault]
        line = next(number for number, text in enumerate(lines, 1) if text.endswith(f"# {fault}"))
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and f"step {step}, {op} " in first, (fault, found.stdout)
        assert first.startswith("first difference") and f".py:{line}: " in first, (fault, found.stdout)
