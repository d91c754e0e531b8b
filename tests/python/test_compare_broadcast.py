"""`sonde compare` of trainings whose labels have shape (N) in one and (N, 1) in the other: what broadcasts is named."""

import pytest
from processes import CLI, run_in
from test_first_bad import record

PROGRAM = """
import sys, warnings, torch
from torch import nn

way, labels, squeezes = sys.argv[1], sys.argv[2], "squeeze" in sys.argv
warnings.simplefilter("ignore")
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), 0.01)
ways = {
    "module": nn.MSELoss(),
    "by_hand": lambda a, b: ((a - b) ** 2).mean(),
    "huber": nn.functional.smooth_l1_loss,
    "product": lambda a, b: (1 - a * b).clamp_min(0).mean(),
}
for step in range(2):
    x, y = torch.randn(12, 5), torch.randn(12)
    if labels == "column":
        y = y.unsqueeze(1)
    guess = net(x)
    if squeezes:
        guess = guess.squeeze(1)
    loss = ways[way](guess, y)  # loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WAYS = ("module", "by_hand", "huber", "product")


@pytest.fixture(scope="module", params=["full", "statistic"])
def dumps(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("broadcast", numbered=True)
    (directory / "train.py").write_text(PROGRAM.lstrip())
    for way in WAYS:
        for words in ("row", "column", "row squeeze"):
            name = f"{way} {words}".replace(" ", "_")
            record(directory, name, directory / "train.py", way, *words.split(), saved_data=request.param)
    return directory


def compare(directory, *dumps):
    run = run_in(directory, None, CLI, "compare", *dumps)
    return run.status, " ".join(run.stdout.partition("\n  source")[0].split())


def line_of(mark):
    return 1 + next(i for i, text in enumerate(PROGRAM.lstrip().splitlines()) if mark in text)


@pytest.mark.parametrize("way", WAYS)
def test_labels_that_broadcast_are_named(dumps, way):
    in_one_call = way in ("module", "huber")
    line = line_of("# loss") if in_one_call else line_of(f'"{way}"')
    numbers = "(12), the golden op (12,1)" if in_one_call else "(12,12), golden (12,1)"
    status, first = compare(dumps, f"{way}_row", f"{way}_column")
    assert status == 1, first
    assert first.startswith("first difference: step 0, "), first
    assert f"train.py:{line}: " in first and numbers in first, first


@pytest.mark.parametrize("way", WAYS)
def test_a_prediction_of_the_labels_shape_is_the_same(dumps, way):
    status, first = compare(dumps, f"{way}_row_squeeze", f"{way}_column")
    assert status == 0, first
