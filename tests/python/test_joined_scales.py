"""sonde compare of two ranks that divide what micro-batches give at another place than one process does: a number that
the loss is multiplied by in one step is named where it is, and not the division that the ranks do elsewhere."""

import pytest
from ranks import DISTRIBUTED, beside_one

pytestmark = pytest.mark.cold

# Four micro-batches in both: one process divides each loss, the ranks divide the gradients.
AFTER = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(32, 8, generator=generator), torch.randint(0, 4, (32,), generator=generator)
        for part, goal in zip(x.chunk(4), y.chunk(4)):
            loss = nn.functional.cross_entropy(net(part.chunk(world)[rank]), goal.chunk(world)[rank])
            if fault == "doubled" and step == 1:
                loss = loss * 2  # doubled
            (loss / 4 if world == 1 else loss).backward()
        for parameter in net.parameters() if world > 1 else ():
            parameter.grad.div_(4)
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(world)
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)

# Gradients are exchanged in bfloat16, and then clipped.
EXCHANGED = (
    DISTRIBUTED
    + """
    world, fault = int(os.environ["WORLD_SIZE"]), "FAULT"
    net = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    batches = 4 if world > 1 else 1
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(32, 16, generator=generator), torch.randint(0, 4, (32,), generator=generator)
        for part, goal in zip(x.chunk(world)[rank].chunk(batches), y.chunk(world)[rank].chunk(batches)):
            loss = nn.functional.cross_entropy(net(part), goal)
            if not (fault == "undivided" and step == 1):
                loss = loss / batches  # undivided
            loss.backward()
        for parameter in net.parameters() if world > 1 else ():
            small = parameter.grad.to(torch.bfloat16).div_(world)
            dist.all_reduce(small)
            parameter.grad.copy_(small)
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)


@pytest.mark.parametrize(
    ("source", "fault"), [(AFTER, "doubled"), (EXCHANGED, "undivided")], ids=("after", "exchanged")
)
def test_the_number_of_the_loss_is_named(tmp_path, sonde, source, fault):
    for _, line, found, _ in beside_one(tmp_path, sonde, source, (fault,), saved_data="tensor"):
        first = " ".join(found.stdout.splitlines()[:2])
        assert found.status == 1 and ", step 1, " in first and f"train.py:{line}: " in first, found.stdout
        assert first.startswith("first difference: "), found.stdout
