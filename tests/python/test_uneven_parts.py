"""`sonde compare` of a batch in parts with the whole one, where the parts count different numbers of elements."""

import pytest
from processes import CLI, run_in
from test_first_bad import record

LOSSES = """
import sys, torch
from torch import nn
from torch.nn import functional as F

ways = sys.argv[1:]
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(2):
    x, labels = torch.randn(8, 6), torch.randint(0, 4, (8,))
    labels[5:] = -100
    x = x * (1 + torch.tensor([], dtype=x.dtype).sum())  # a new tensor is detached from nothing
    sizes = (8,) if "whole" in ways else (4, 4) if "labels" in ways else (5, 2, 1)
    optimizer.zero_grad()
    for rows, aims in zip(x.split(sizes), labels.split(sizes)):
        y = net(rows)
        if "labels" in ways:
            loss, share = F.cross_entropy(y, aims), (aims >= 0).sum().item() / 5
        else:
            loss, share = F.mse_loss(y, rows[:, :4]), len(rows) / 8
        if "whole" not in ways:
            loss = loss * share if "weighed" in ways else loss / len(sizes)  # the mean
        loss.backward()
    optimizer.step()
"""
COUNTS = {"labels": "4 and 1", "rows": "20, 8 and 4"}


@pytest.fixture(scope="module", params=["full", "statistic"])
def dumps(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("parts", numbered=True)
    (directory / "train.py").write_text(LOSSES)
    for kind in COUNTS:
        for way in ("whole", "parts", "weighed"):
            record(directory, f"{kind}_{way}", directory / "train.py", kind, way, saved_data=request.param)
    return directory


def line_of(text):
    return 1 + next(i for i, line in enumerate(LOSSES.splitlines()) if text in line)


@pytest.mark.parametrize("kind", COUNTS)
def test_the_loss_whose_parts_weigh_the_same_is_named(dumps, kind):
    loss = line_of("F.cross_entropy" if kind == "labels" else "F.mse_loss")
    for target, golden, where in (
        ("parts", "whole", "is the mean"),
        ("whole", "parts", "is in the golden run the mean"),
    ):
        run = run_in(dumps, None, CLI, "compare", f"{kind}_{target}", f"{kind}_{golden}")
        assert run.status == 1, run.stdout + run.stderr
        first = " ".join(run.stdout.partition("\n  source")[0].split())
        assert first.startswith("first difference: step 0, ") and f"train.py:{loss}: {where} of one part" in first
        assert f"although they count {COUNTS[kind]} elements" in first


@pytest.mark.parametrize("kind", COUNTS)
def test_parts_that_weigh_what_they_count_are_no_difference(dumps, kind):
    run = run_in(dumps, None, CLI, "compare", f"{kind}_weighed", f"{kind}_whole")
    assert run.status == 0, run.stdout + run.stderr


def test_the_next_command_asks_for_the_same_steps(dumps):
    run = run_in(dumps, None, CLI, "compare", "rows_whole", "rows_whole", "--step", "1", "--golden-step", "0")
    assert run.status == 1, run.stdout + run.stderr
    assert "rows_whole --step 1 --golden-step 0 --all\n" in run.stdout, run.stdout
