"""sonde compare where gradients are a number of times the golden ones, and clipping hides it: behind it they are the
golden ones. In the next step their norm may be below the largest one. The norm that the program prints is a result."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

CLIPPED = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"
    net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    batches = 2 if world > 1 else 1
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(16, 16, generator=generator), torch.randint(0, 4, (16,), generator=generator)
        for part, goal in zip(x.chunk(world)[rank].chunk(batches), y.chunk(world)[rank].chunk(batches)):
            loss = nn.functional.cross_entropy(net(part), goal)
            if not (fault == "undivided" and step >= FIRST):
                loss = loss / batches  # undivided
            loss.backward()
        if world > 1:
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad)  # summed
                if not (fault == "summed" and step >= FIRST):
                    parameter.grad.div_(world)
        if fault == "scaled" and step >= FIRST:
            for parameter in net.parameters():
                parameter.grad.mul_(1.5)  # scaled
        print("norm", nn.utils.clip_grad_norm_(net.parameters(), 0.01).item())
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
LINES = textwrap.dedent(CLIPPED).splitlines()


def program(fault, first=1):
    return CLIPPED.replace("FAULT", fault).replace("FIRST", str(first))


def on_two_ranks(directory, fault, first=1):
    directory.mkdir()
    ranks = run_ranks(directory, program(fault, first), saved_data="tensor")
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


@pytest.mark.parametrize(("first", "faults"), [(0, ["undivided"]), (1, ["undivided", "summed", "scaled"])])
def test_a_factor_that_clipping_hides_is_found(tmp_path, sonde, first, faults):
    whole = run_one(tmp_path, program(""), "tensor", "train.py")
    healthy = on_two_ranks(tmp_path / "healthy", "")
    for pair in ((healthy, whole), (whole, healthy)):
        found = sonde("compare", *pair)
        assert found.status == 0 and found.stdout.startswith("no difference"), found.stdout
    for fault in faults:
        ranks = on_two_ranks(tmp_path / fault, fault, first)
        found = sonde("compare", ranks, whole)
        line = next(number for number, text in enumerate(LINES, 1) if text.endswith(f"# {fault}"))
        head = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and f"rank 0, step {first}, " in head and f"train.py:{line}: " in head, found.stdout
        # With the same on two ranks an op before it may be named, which is uncertain.
        again = sonde("compare", ranks, healthy)
        assert again.status == 1 and f"step {first}, " in again.stdout.splitlines()[0], again.stdout
    assert sonde("compare", on_two_ranks(tmp_path / "again", ""), healthy).stdout.startswith("no difference")
