"""sonde compare of a training on two ranks with the same on one process: scores are wrong behind a mask of large
numbers, beside which their error is within any tolerance."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

MASKED = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"
    later = torch.ones(8, 8, dtype=torch.bool).triu(1)

    class Attention(nn.Module):
        def __init__(self, mask):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
            self.mask = mask

        def forward(self, x):
            scores = self.q(x) @ self.k(x).transpose(-1, -2) / 2
            if fault == self.mask and rank == world - 1 and step == 1:
                scores = scores * 0.95  # planted
            if self.mask == "masked_fill":
                scores = scores.masked_fill(later, -10000.0)
            if self.mask == "add":
                scores = scores + torch.zeros(8, 8).masked_fill(later, -10000.0)
            if self.mask == "where":
                scores = torch.where(later, torch.tensor(-10000.0), scores)
            return x + scores.softmax(-1) @ self.v(x)

    net = nn.Sequential(*(Attention(mask) for mask in ("masked_fill", "add", "where")), nn.Linear(8, 4))
    wrapped = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, foreach=False)
    for step in range(2):
        data = torch.randn(6, 8, 8, generator=torch.Generator().manual_seed(step))
        wrapped(data.chunk(world)[rank]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
BLOCKS = {"masked_fill": "0-Attention", "add": "1-Attention", "where": "2-Attention"}


def on_two_ranks(directory, fault):
    directory.mkdir()
    ranks = run_ranks(directory, MASKED.replace("FAULT", fault), saved_data="full")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_one(tmp_path_factory.mktemp("whole"), MASKED.replace("FAULT", ""), "full", "train.py")


@pytest.mark.parametrize("mask", BLOCKS)
def test_wrong_scores_are_named_before_a_mask_of_large_numbers(tmp_path, whole, sonde, mask):
    line = next(n for n, text in enumerate(textwrap.dedent(MASKED).splitlines(), 1) if text.endswith("# planted"))
    found = sonde("compare", on_two_ranks(tmp_path / mask, mask), whole)
    first = " ".join(found.stdout.splitlines()[:2])
    assert found.status == 1 and first.startswith("first difference: rank 1, step 1, mul "), found.stdout
    assert f"/{BLOCKS[mask]}/" in first and f"train.py:{line}: has no counterpart" in first, found.stdout


def test_rounding_that_a_step_outside_of_the_comparison_left_is_no_difference(tmp_path, whole, sonde):
    """The gradient of the keys' bias is nothing but rounding, and Adam's update of it is not."""
    healthy = on_two_ranks(tmp_path / "healthy", "")
    for pair in ((healthy, whole), (whole, healthy)):
        assert sonde("compare", *pair).status == 0
        late = sonde("compare", *pair, "--step", "1")
        assert late.status == 0 and late.stdout.startswith("no difference"), late.stdout
