"""`sonde compare` never says "no difference" of what it did not see, and names no difference where there is none."""

import json

import pytest
from processes import CLI, run_in
from test_first_bad import record

PROGRAM = """
import sys, torch
from torch import nn
from torch.nn import functional as F

way, is_right = sys.argv[1], sys.argv[2] == "right"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
styles = {"fused": True} if way in ("decay", "none") and not is_right else {"foreach": True}
decay = 0.1 if way == "decay" and not is_right else 0.0
optimizer = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=decay, **styles)
for step in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    if way == "crash" and not is_right:
        sys.exit()  # before the first call
    loss = F.cross_entropy(net(x), y)
    if way == "nan":
        unknown = torch.full((3,), float("nan"))
        loss = loss + torch.nan_to_num(unknown).sum() + (0 if is_right else 0.5) * net(x).square().mean()  # nan
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # decay
"""
LINES = PROGRAM.lstrip().splitlines()


def compare(directory, way):
    (directory / "train.py").write_text(PROGRAM.lstrip())
    for name in ("right", "wrong"):
        record(directory, name, directory / "train.py", way, name, saved_data="full")
    done = run_in(directory, None, CLI, "compare", "wrong", "right", "--json")
    return done.status, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("way", ["decay", "nan"])
def test_what_differs_is_named_on_its_line(tmp_path, way):
    status, answer, _ = compare(tmp_path, way)
    (first, *_) = answer["findings"]
    assert status == 1 and LINES[first["source_line"] - 1].endswith(f"# {way}"), first
    assert "fill_value" not in first["text"], first


def test_optimizers_that_compute_the_same_in_different_ways_are_no_difference(tmp_path):
    status, answer, _ = compare(tmp_path, "none")
    assert (status, answer["findings"]) == (0, [])


def test_a_run_that_ended_before_the_first_call_is_not_equal(tmp_path):
    status, answer, error = compare(tmp_path, "crash")
    assert (status, answer["complete"]) == (3, False)
    assert "step 0: no module is called and no gradient computed, as in the golden dump there" in error
