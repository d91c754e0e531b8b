"""sonde compare of a training under FSDP2 with one process: one rank writes into its shard of a gradient."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

SHARDED = (
    DISTRIBUTED
    + """
    from torch.distributed.fsdp import fully_shard
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
    if world > 1:
        fully_shard(net[2])
        fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(2):
        data = torch.randn(8, 8, generator=torch.Generator().manual_seed(step))
        net(data.chunk(world)[rank]).square().mean().backward()
        if fault and (rank, step) == (1, 1):
            gradient = net[4].weight.grad.to_local()
            if fault == "neg_":
                gradient.neg_()  # neg_
            if fault == "add_":
                gradient.add_(0.1)  # add_
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


def on_two_ranks(directory, fault):
    directory.mkdir()
    ranks = run_ranks(directory, SHARDED.replace("FAULT", fault), saved_data="full")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


def test_an_op_on_the_gradients_shard_of_one_rank_is_named(tmp_path, sonde):
    whole = run_one(tmp_path, SHARDED.replace("FAULT", ""), "full", "train.py")
    assert sonde("compare", on_two_ranks(tmp_path / "healthy", ""), whole).status == 0
    for fault in ("neg_", "add_"):
        lines = textwrap.dedent(SHARDED).splitlines()
        line = next(number for number, text in enumerate(lines, 1) if text.endswith(f"  # {fault}"))
        found = sonde("compare", on_two_ranks(tmp_path / fault, fault), whole)
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and first.startswith(f"first difference: rank 1, step 1, {fault} "), found.stdout
        assert f"train.py:{line}: has no counterpart" in first, found.stdout
