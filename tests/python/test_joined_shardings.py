"""sonde compare of two shardings of a training in float16 by statistics: the parts of a sum show their mean alone, and
weights drift apart."""

import itertools
import textwrap

import pytest
from ranks import DISTRIBUTED, run_ranks

pytestmark = pytest.mark.cold

# Gradients of the keys' biases are nothing but rounding.
ATTENTION = (
    DISTRIBUTED
    + """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    fault, style = "FAULT", "STYLE"

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(64), nn.LayerNorm(64)
            self.q, self.k, self.v, self.o = (nn.Linear(64, 64) for _ in range(4))
            self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

        def forward(self, x):
            y = self.n1(x)
            q, k, v = (f(y).view(len(x), 16, -1, 16).transpose(1, 2) for f in (self.q, self.k, self.v))
            s = q @ k.transpose(-1, -2) * 0.25
            s = s.masked_fill(torch.ones(16, 16, dtype=torch.bool).triu(1)[None, None], float("-inf"))
            s = s - s.amax(-1, keepdim=True)
            a = s.exp() / s.exp().sum(-1, keepdim=True)
            if fault == "scaled":
                a = a * 1.05  # scaled
            x = x + self.o((a @ v).transpose(1, 2).reshape(len(x), 16, -1))
            return x + self.down(nn.functional.gelu(self.up(self.n2(x))))

    net = nn.Sequential(Block(), Block(), nn.LayerNorm(64), nn.Linear(64, 96)).to(torch.float16)
    if style == "tensor":
        slices = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
        slices |= {name: RowwiseParallel() for name in ("o", "down")}
        for block in net[:2]:
            parallelize_module(block, init_device_mesh("cpu", (2,)), slices)
    elif style == "full":
        for block in net[:2]:
            fully_shard(block)
        fully_shard(net)
    else:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, eps=1e-4)
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 16, 64, generator=generator), torch.randint(0, 96, (8, 16), generator=generator)
        if style != "tensor":
            x, y = x.chunk(2)[rank], y.chunk(2)[rank]
        out = net(x.to(torch.float16))
        nn.functional.cross_entropy(out.float().flatten(0, 1), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
LINES = textwrap.dedent(ATTENTION).splitlines()


def trained(directory, style, fault=""):
    directory.mkdir()
    source = ATTENTION.replace("FAULT", fault).replace("STYLE", style)
    ranks = run_ranks(directory, source, saved_data="statistic")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    place = tmp_path_factory.mktemp("healthy")
    return {style: trained(place / style, style) for style in ("data", "full", "tensor")}


def test_healthy_trainings_in_two_shardings_do_not_differ(healthy, sonde):
    for pair in itertools.permutations(healthy, 2):
        found = sonde("compare", *(healthy[style] for style in pair))
        assert found.status == 0 and found.stdout.startswith("no difference"), (pair, found.stdout)


def test_a_factor_in_the_attention_of_one_of_them_is_named(tmp_path, healthy, sonde):
    line = next(number for number, text in enumerate(LINES, 1) if text.endswith("# scaled"))
    scaled = trained(tmp_path / "scaled", "tensor", "scaled")
    for style in ("data", "full"):
        for pair, op in (((scaled, healthy[style]), "mul "), ((healthy[style], scaled), "golden op mul ")):
            found = sonde("compare", *pair)
            first = " ".join(found.stdout.splitlines()[:3])
            assert found.status == 1 and f"step 0, {op}" in first and f"train.py:{line}: " in first, found.stdout
