"""`sonde compare` of trainings of which one stops a gradient: the line that stops it, or that does not, is named."""

import pytest
from processes import CLI, run_in
from test_first_bad import record

PROGRAM = """
import sys, torch
from torch import nn
from torch.nn import functional as F

loss_kind, stops = sys.argv[1], "stop" in sys.argv[2:]
torch.manual_seed(0)
net, head = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8, 8)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.05)
ways = {
    "cosine": lambda p, z: 1 - F.cosine_similarity(p, z).mean(),
    "squares": lambda p, z: F.mse_loss(p, z),
    "normalized": lambda p, z: 2 - 2 * (F.normalize(p, dim=-1) * F.normalize(z, dim=-1)).sum(-1).mean(),
}
for step in range(2):
    x = torch.randn(12, 6)
    p = head(net(x))
    if "whole" in sys.argv:
        with torch.set_grad_enabled(not stops):
            z = net(x + 0.1)  # whole
    elif stops:
        z = net(x + 0.1).detach()  # detach
    else:
        z = net(x + 0.1)
    loss = ways[loss_kind](p, z)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSSES = ("cosine", "squares", "normalized")


def line_of(mark):
    return 1 + next(i for i, line in enumerate(PROGRAM.splitlines()) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module", params=["full", "statistic"])
def dumps(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("detach", numbered=True)
    (directory / "train.py").write_text(PROGRAM)
    for loss in LOSSES:
        for words in ("plain", "stop", "whole", "whole stop"):
            name = f"{loss} {words}".replace(" ", "_")
            record(directory, name, directory / "train.py", loss, *words.split(), saved_data=request.param)
    return directory


def first(directory, *dumps):
    run = run_in(directory, None, CLI, "compare", *dumps)
    assert run.status == 1, run.stdout + run.stderr
    return " ".join(run.stdout.partition("\n  source")[0].split())


@pytest.mark.parametrize("loss", LOSSES)
def test_a_detach_of_one_run_is_named(dumps, loss):
    line = line_of("detach")
    found = first(dumps, f"{loss}_plain", f"{loss}_stop")
    assert found.startswith("first difference: step 0, golden op detach ") and f"train.py:{line}: has no" in found
    found = first(dumps, f"{loss}_stop", f"{loss}_plain")
    assert found.startswith("first difference: step 0, detach ") and f"train.py:{line}: has no" in found


@pytest.mark.parametrize("loss", LOSSES)
def test_a_part_that_one_run_does_not_differentiate_is_named(dumps, loss):
    for one, other, where in (("whole", "whole_stop", "target"), ("whole_stop", "whole", "golden run")):
        found = first(dumps, f"{loss}_{one}", f"{loss}_{other}")
        assert f"train.py:{line_of('whole')}: is differentiated in the {where} alone" in found, found
