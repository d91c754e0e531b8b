"""sonde compare of one step of a sharded training with the same step on one process, when the steps before are not
asked for: the gradient of the keys' bias is rounding alone, and AdamW has made an update of it in each step."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

ATTENTION = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

        def forward(self, x):
            return x + nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x))

    net = nn.Sequential(Attention(), Attention(), nn.Linear(32, 8))
    if world > 1:
        net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.001)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(8, 8, 32, generator=generator), torch.randint(0, 8, (8, 8), generator=generator)
        out = net(x.chunk(world)[rank])
        nn.functional.cross_entropy(out.flatten(0, 1), y.chunk(world)[rank].flatten()).backward()
        if fault == "rate" and step == 2:
            optimizer.param_groups[0]["lr"] = 0.002
        optimizer.step()  # rate
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


def test_what_rounding_has_become_in_steps_that_are_not_compared_is_no_difference(tmp_path, sonde):
    whole = run_one(tmp_path, ATTENTION.replace("FAULT", ""), "tensor", "train.py")
    dumps = {}
    for fault in ("", "rate"):
        directory = tmp_path / (fault or "healthy")
        directory.mkdir()
        ranks = run_ranks(directory, ATTENTION.replace("FAULT", fault), saved_data="tensor")
        assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
        dumps[fault] = ranks.dump
    for pair in ((dumps[""], whole), (whole, dumps[""])):
        found = sonde("compare", *pair, "--step", "2")
        assert found.status == 0 and found.stdout.startswith("no difference"), found.stdout
        assert "2 ranks are joined" in found.stdout, found.stdout
    lines = textwrap.dedent(ATTENTION).splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# rate"))
    found = sonde("compare", dumps["rate"], whole, "--step", "2")
    assert found.status == 1 and f"train.py:{line}: " in found.stdout.splitlines()[0], found.stdout
