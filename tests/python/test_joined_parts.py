"""sonde compare of a training on two ranks with the same on one process: of several parts, one is wrong."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

GATED = (
    DISTRIBUTED
    + """
    world, fault, dtype = int(os.environ["WORLD_SIZE"]), "FAULT", torch.DTYPE

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * torch.sigmoid(b)

        @staticmethod
        def backward(ctx, gradient):
            a, b = ctx.saved_tensors
            gate = torch.sigmoid(b)
            slope = gradient * a * gate
            if fault != "backward":
                slope = slope * (1 - gate)  # backward
            return gradient * gate, slope

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(48, 16)

        def forward(self, x):
            a, b = self.up(self.norm(x)).chunk(2, -1)
            parts = [Gate.apply(a, b), a, b]
            if fault != "forward":
                parts[1] = parts[1].tanh()  # forward
            return x + self.down(torch.cat(parts, -1))

    net = nn.Sequential(Block(), Block(), nn.Linear(16, 4)).to(dtype)
    if world > 1:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        data = torch.randn(32, 16, generator=torch.Generator().manual_seed(step)).to(dtype)
        net(data.chunk(world)[rank]).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
OPS = {"backward": "mul", "forward": "tanh"}


def source_of(fault, dtype):
    return GATED.replace("FAULT", fault).replace("DTYPE", dtype)


def on_two_ranks(directory, fault, dtype):
    directory.mkdir()
    ranks = run_ranks(directory, source_of(fault, dtype), saved_data="full")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_op_left_out_of_one_of_several_parts_is_named(tmp_path, sonde, dtype):
    """The tolerance of a half type is wider than what one part of several changes in the whole."""
    whole = run_one(tmp_path, source_of("", dtype), "full", "train.py")
    healthy = on_two_ranks(tmp_path / "healthy", "", dtype)
    for pair in ((healthy, whole), (whole, healthy)):
        assert sonde("compare", *pair).status == 0
    for fault, op in OPS.items():
        ranks = on_two_ranks(tmp_path / fault, fault, dtype)
        lines = textwrap.dedent(GATED).splitlines()
        line = next(number for number, text in enumerate(lines, 1) if text.endswith(f"  # {fault}"))
        for pair, named in (((ranks, whole), f"golden op {op} "), ((whole, ranks), f"{op} ")):
            found = sonde("compare", *pair)
            first = " ".join(found.stdout.splitlines()[:3])
            assert found.status == 1 and first.startswith("first difference: "), found.stdout
            assert f"step 0, {named}" in first and f"train.py:{line}: has no counterpart" in first, found.stdout
