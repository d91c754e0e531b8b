"""`sonde compare` where one run alone selects or joins elements, and where memory is fresh from a deepcopy."""

import pytest
from processes import CLI, run_in
from test_first_bad import record

PROGRAM = """
import copy, sys, torch
from torch import nn
from torch.nn import functional as F

way, is_right = sys.argv[1], sys.argv[2] == "right"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(net.parameters(), 0.01)
for step in range(2):
    x, y = torch.randn(12, 6), torch.randint(0, 5, (12,))
    y[:3] = -100
    scores = F.log_softmax(net(x), -1)
    loss = F.nll_loss(scores, y)
    if way == "kept":
        kept = scores.mean(-1)[y != -100] if is_right else scores.mean(-1)
        loss = loss - 0.1 * kept.mean()  # kept
    if way == "joined":
        rows = scores.view(3, 4, 5).flatten(1) if is_right else scores.view(3, 4, 5)
        loss = loss + rows.norm(2, dim=1).mean()  # joined
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if way == "snapshot":
        best = copy.deepcopy(net.state_dict())
        if step == 0:
            net[0].bias.data.mul_(1 if is_right else 1.5)  # snapshot
"""
MADE = {
    "kept": ("index ", "input.0 of Default/mean-op1 (train.py:{line}) has shape (12), golden (9): "),
    "joined": ("flatten ", "has shape (3,4,5), golden (3,20): "),
}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    directory = tmp_path_factory.mktemp("makers", numbered=True)
    (directory / "train.py").write_text(PROGRAM.lstrip())
    for way in (*MADE, "snapshot"):
        for name in ("right", "again" if way == "snapshot" else "wrong"):
            record(
                directory,
                f"{way}_{name}",
                directory / "train.py",
                way,
                name.replace("again", "right"),
                saved_data="full",
            )
    record(directory, "snapshot_wrong", directory / "train.py", "snapshot", "wrong", saved_data="full")
    return directory


def compare(directory, *dumps):
    run = run_in(directory, None, CLI, "compare", *dumps)
    return run.status, " ".join(run.stdout.partition("\n  source")[0].split())


def line_of(mark):
    return 1 + next(i for i, text in enumerate(PROGRAM.lstrip().splitlines()) if text.endswith(f"# {mark}"))


@pytest.mark.parametrize("way", MADE)
def test_what_selects_or_joins_elements_in_one_run_alone_is_named(dumps, way):
    operator, shapes = MADE[way]
    status, first = compare(dumps, f"{way}_wrong", f"{way}_right")
    assert status == 1, first
    assert first.startswith(f"first difference: step 0, golden op {operator}"), first
    assert "has no counterpart in the target, and " in first and shapes.format(line=line_of(way)) in first, first
    status, first = compare(dumps, f"{way}_right", f"{way}_wrong")
    assert status == 1, first
    assert first.startswith(f"first difference: step 0, {operator}"), first
    assert "has no counterpart in the golden dump, and " in first, first


def test_the_memory_of_a_deepcopy_is_no_result(dumps):
    status, first = compare(dumps, "snapshot_again", "snapshot_right")
    assert status == 0, first
    status, first = compare(dumps, "snapshot_wrong", "snapshot_right")
    assert status == 1, first
    assert f"train.py:{line_of('snapshot')}" in first, first
