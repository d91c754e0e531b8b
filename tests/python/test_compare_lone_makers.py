"""`sonde compare` where one run alone selects, packs, joins or copies elements, or takes fresh memory."""

import json

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
    "kept": ("index ", "which changes input.0 of Default/mean-op1 (train.py:{line}): its shape is (12), golden (9)"),
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
    assert "has no counterpart in the target, " in first and shapes.format(line=line_of(way)) in first, first
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


# One cause each, and lines of their own.
OTHERS = """
import sys, torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

way, is_right = sys.argv[1], sys.argv[2] == "right"
torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.out = nn.Embedding(20, 12), nn.LSTM(12, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, words):
        x = self.embedding(words)
        if not is_right:
            return self.out(self.rnn(x)[0])
        packed = pack_padded_sequence(x, torch.tensor([9, 6, 3]), batch_first=True)  # packed
        return self.out(pad_packed_sequence(self.rnn(packed)[0], batch_first=True)[0])


class Halves(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        h = (x.clone() if is_right else x).view(x.shape[0], 2, -1)
        h[:, 1].mul_(0.5)  # aliased
        return x + self.b(torch.tanh(self.a(h.flatten(1))))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))  # parts


if way == "packed":
    net = Tagger()
elif way == "aliased":
    net = nn.Sequential(nn.Linear(6, 16), Halves(), nn.Linear(16, 5))
elif way == "parts":
    net = Images()
else:
    net = nn.Sequential(nn.Linear(6, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5))
kind = torch.optim.AdamW if way == "decay" and is_right else torch.optim.Adam
optimizer = kind(net.parameters(), lr=1e-2, weight_decay=0.05)
for step in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 5, (8,))
    if way == "packed":
        x, y = torch.randint(1, 20, (3, 9)), torch.randint(0, 5, (3, 9)).flatten()
        x = x * (torch.arange(9) < torch.tensor([[9], [6], [3]]))
    if way == "parts":
        x, y = torch.randn(8, 2, 6, 6) * torch.arange(1, 9).view(8, 1, 1, 1), torch.randint(0, 3, (8,))
    parts = 2 if way == "parts" and not is_right else 1
    optimizer.zero_grad()
    for rows, labels in zip(x.chunk(parts), y.chunk(parts)):
        (F.cross_entropy(net(rows).flatten(0, -2), labels) / parts).backward()
    optimizer.step()  # decay
"""
# The operator that is named first, and words about it.
OF_OTHERS = {
    "packed": ("_pack_padded_sequence", "input.0 of Default/network-Tagger/rnn-LSTM/lstm-op0"),
    "aliased": ("mul_", "in the golden dump it writes what Default/network-Sequential/1-Halves/clone-op0"),
    "decay": ("add", "it is of Adam, and the golden optimizer is AdamW"),
    "parts": ("batch_norm", "normalises by the mean and the variance of 4 rows, in the golden run of 8"),
}


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_what_packs_copies_or_cuts_in_one_run_alone_is_named(tmp_path, saved_data):
    (tmp_path / "train.py").write_text(OTHERS.lstrip())
    lines = OTHERS.lstrip().splitlines()
    for way, (operator, words) in OF_OTHERS.items():
        for name in ("right", "wrong"):
            record(tmp_path, f"{way}_{name}", tmp_path / "train.py", way, name, saved_data=saved_data)
        done = run_in(tmp_path, None, CLI, "compare", f"{way}_wrong", f"{way}_right", "--json")
        (first, *_) = json.loads(done.stdout)["findings"]
        assert (done.status, first["step"], first["op_type"]) == (1, 0, operator), first
        assert words in first["text"] and not first.get("tags"), first
        assert lines[first["source_line"] - 1].endswith(f"# {way}"), first
