"""sonde compare of a network whose slices two ranks have, and of which a program takes the next token, with one process
and with the healthy ranks: the token may be the same although the scores are not."""

import pytest
from ranks import DISTRIBUTED, beside_one

pytestmark = pytest.mark.cold

GENERATE = (
    DISTRIBUTED
    + """
    world, fault, call = int(os.environ["WORLD_SIZE"]), "FAULT", 0

    class Sliced(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)
            self.up.weight.data = self.up.weight.chunk(world)[rank].clone()
            self.down.weight.data = self.down.weight.chunk(world, 1)[rank].clone()

        def forward(self, x):
            h = nn.functional.silu(self.up(x))
            if fault == "hidden" and call == 1 and rank == world - 1:
                h = h * 1.02  # hidden
            y = self.down(h)
            if world > 1:
                dist.all_reduce(y)
            if fault == "shift" and call == 1:
                y = y * 1.01  # shift
            return x + y

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.one, self.two = nn.Embedding(20, 16), Sliced(), Sliced()
            self.head = nn.Linear(16, 20)

        def forward(self, ids):
            return self.head(self.two(self.one(self.words(ids))))

    torch.manual_seed(1)
    net = Net().eval()
    ids = torch.tensor([[1, 5, 3], [2, 7, 4]])
    with torch.no_grad():
        for call in range(3):
            ids = torch.cat([ids, net(ids)[:, -1].WAY(CHOICE)], -1)
    print("trained", flush=True)
    """
)


@pytest.mark.parametrize(("way", "choice"), [("argmax", "-1, keepdim=True"), ("argmin", "-1, keepdim=True")])
def test_scores_that_differ_are_named_although_the_choice_is_the_same(tmp_path, sonde, way, choice):
    source = GENERATE.replace("WAY", way).replace("CHOICE", choice)
    for fault, line, found, dump in beside_one(tmp_path, sonde, source, ("hidden", "shift"), saved_data="tensor"):
        again = sonde("compare", dump, tmp_path / "healthy/dump")
        for one in (found, again):
            first = " ".join(one.stdout.splitlines()[:2])
            assert one.status == 1 and first.startswith("first difference: "), (fault, one.stdout)
            assert f"train.py:{line}: has no counterpart" in first, (fault, one.stdout)
