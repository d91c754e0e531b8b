"""sonde compare of trainings in half types, whose gradients are clipped, by statistics: the gradient of the keys' bias
is nothing but rounding, and the program reads it outside of the backward pass and of the optimizer."""

import itertools
import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

CLIPPED = (
    DISTRIBUTED
    + """
    from torch.distributed.fsdp import fully_shard
    world, fault, style, dtype = int(os.environ["WORLD_SIZE"]), "FAULT", "STYLE", torch.DTYPE

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
            self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
            self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

        def forward(self, x):
            y = self.n1(x)
            q, k, v = (f(y).view(len(x), 16, -1, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(len(x), 16, -1))
            return x + self.down(nn.functional.gelu(self.up(self.n2(x))))

    net = nn.Sequential(Block(), Block(), nn.LayerNorm(32), nn.Linear(32, 48)).to(dtype)
    if world > 1 and style == "full":
        for block in net[:2]:
            fully_shard(block)
        fully_shard(net)
    elif world > 1:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 16, 32, generator=generator), torch.randint(0, 48, (8, 16), generator=generator)
        out = net(x.chunk(world)[rank].to(dtype))
        nn.functional.cross_entropy(out.float().flatten(0, 1), y.chunk(world)[rank].flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        if fault and step == 1:
            for parameter in net.parameters():
                parameter.grad.mul_(1.5)  # scaled
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
LINES = textwrap.dedent(CLIPPED).splitlines()


def program(fault, style, dtype):
    return CLIPPED.replace("FAULT", fault).replace("STYLE", style).replace("DTYPE", dtype)


def on_two_ranks(directory, *what, saved_data="statistic"):
    directory.mkdir()
    ranks = run_ranks(directory, program(*what), saved_data=saved_data)
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_clipped_gradients_of_rounding_alone_do_not_differ_and_a_factor_behind_is_named(tmp_path, sonde, dtype):
    whole = run_one(tmp_path, program("", "", dtype), "statistic", "train.py")
    ranks = [on_two_ranks(tmp_path / style, "", style, dtype) for style in ("data", "full")]
    for pair in itertools.permutations((whole, *ranks), 2):
        found = sonde("compare", *pair)
        assert found.status == 0 and found.stdout.startswith("no difference"), (pair, found.stdout, found.stderr)
    found = sonde("compare", on_two_ranks(tmp_path / "scaled", "scaled", "data", dtype), whole)
    line = next(number for number, text in enumerate(LINES, 1) if text.endswith("# scaled"))
    first = " ".join(found.stdout.splitlines()[:2])
    assert found.status == 1 and first.startswith("first difference: rank 0, step 1, mul_ "), found.stdout
    assert f"train.py:{line}: has no counterpart" in first, found.stdout


def test_norms_of_shards_are_added_up_in_squares(tmp_path, sonde):
    whole = run_one(tmp_path, program("", "", "bfloat16"), "full", "train.py")
    data, full = (on_two_ranks(tmp_path / s, "", s, "bfloat16", saved_data="full") for s in ("data", "full"))
    for pair in ((full, whole), (whole, full), (full, data), (data, full)):
        found = sonde("compare", *pair)
        assert found.status == 0 and found.stdout.startswith("no difference"), (pair, found.stdout, found.stderr)
    assert "added up in squares" in sonde("compare", full, whole).stdout
