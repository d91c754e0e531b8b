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
styles = {"fused": True} if way in ("decay", "none", "beta2") and not is_right else {"foreach": True}
decay = 0.1 if way == "decay" and not is_right else 0.0
betas = (0.9, 0.95 if way in ("beta2", "compiled") and not is_right else 0.999)
if way == "nadam":
    optimizer = torch.optim.NAdam(net.parameters(), 1e-2, foreach=is_right)
else:
    optimizer = torch.optim.Adam(net.parameters(), 1e-2, betas=betas, weight_decay=decay, **styles)
update = torch.compile(lambda: optimizer.step()) if way == "compiled" and not is_right else optimizer.step  # compiled
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
    update()  # decay beta2
"""
LINES = PROGRAM.lstrip().splitlines()


def compare(directory, way):
    (directory / "train.py").write_text(PROGRAM.lstrip())
    for name in ("right", "wrong"):
        record(directory, name, directory / "train.py", way, name, saved_data="full")
    done = run_in(directory, None, CLI, "compare", "wrong", "right", "--json")
    return done.status, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("way", ["decay", "beta2", "compiled", "nan"])
def test_what_differs_is_named_on_its_line(tmp_path, way):
    status, answer, _ = compare(tmp_path, way)
    (first, *_) = answer["findings"]
    assert status == 1 and way in LINES[first["source_line"] - 1].partition("# ")[2].split(), first
    assert "fill_value" not in first["text"], first


@pytest.mark.parametrize("way", ["none", "nadam"])
def test_optimizers_that_compute_the_same_in_different_ways_are_no_difference(tmp_path, way):
    status, answer, _ = compare(tmp_path, way)
    assert (status, answer["findings"]) == (0, [])


def test_a_run_that_ended_before_the_first_call_is_not_equal(tmp_path):
    status, answer, error = compare(tmp_path, "crash")
    assert (status, answer["complete"]) == (3, False)
    assert "step 0: no module is called and no gradient computed, as in the golden dump there" in error


POSITIONS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places, self.out = nn.Embedding(11, 8), nn.Embedding(6, 8), nn.Linear(8, 11)

    def forward(self, tokens, mask):
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        return self.out(torch.tanh(self.words(tokens) + self.places(places)))

torch.manual_seed(0)
net = Net()
tokens, mask = torch.randint(0, 11, (3, 6)), (torch.arange(6) >= torch.tensor([[0], [2], [3]])).long()
for step in range(2):
    loss = net(tokens, mask).square().mean()
    net.zero_grad()
    loss.backward()
"""
OTHERS = {
    "one line": [("(mask.cumsum(-1) - 1).clamp(min=0)", "torch.arange(6).expand_as(tokens)")],
    "a comment, too": [
        ("(mask.cumsum(-1) - 1).clamp(min=0)", "torch.arange(6).expand_as(tokens)"),
        ("torch.manual_seed(0)", "# seeds\n\ntorch.manual_seed(0)  # of all"),
    ],
    "two lines": [
        ("(mask.cumsum(-1) - 1).clamp(min=0)", "torch.arange(6).expand_as(tokens)"),
        ("square()", "pow(2)"),
    ],
}


@pytest.mark.parametrize("change", OTHERS)
def test_a_doubt_ends_where_the_two_sources_differ_on_one_line_alone(tmp_path, change):
    wrong = POSITIONS.lstrip()
    for old, new in OTHERS[change]:
        assert old in wrong
        wrong = wrong.replace(old, new)
    for name, program in (("right", POSITIONS.lstrip()), ("wrong", wrong)):
        (tmp_path / f"{name}.py").write_text(program)
        record(tmp_path, name, tmp_path / f"{name}.py", saved_data="full")
    first = json.loads(run_in(tmp_path, None, CLI, "compare", "wrong", "right", "--json").stdout)["findings"][0]
    assert (tmp_path / "right.py").read_text().splitlines()[first["source_line"] - 1].strip().startswith("places =")
    ends = "the two sources differ at wrong.py:10 and wrong.py:17" if change == "two lines" else "differ nowhere else"
    assert first["text"].endswith(ends), first
    assert ("uncertain" in first["tags"]) == (change == "two lines"), first


def test_one_program_called_in_two_ways_has_no_other_source(tmp_path):
    program = POSITIONS.lstrip().replace("import torch\n", "import sys\nimport torch\n", 1)
    old = "places = (mask.cumsum(-1) - 1).clamp(min=0)"
    program = program.replace(old, old + ' if sys.argv[1] == "right" else torch.arange(6).expand_as(tokens)')
    (tmp_path / "train.py").write_text(program)
    for name in ("right", "wrong"):
        record(tmp_path, name, tmp_path / "train.py", name, saved_data="full")
    first = json.loads(run_in(tmp_path, None, CLI, "compare", "wrong", "right", "--json").stdout)["findings"][0]
    assert "uncertain" in first["tags"] and "sources" not in first["text"], first


BRANCHES = """
import sys, torch
from torch import nn

way, is_right = sys.argv[1], sys.argv[2] == "right"


class ByHand(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845 * (x + 0.044715 * torch.pow(x, 3.0))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)
        self.act = nn.ReLU() if way == "class" and not is_right else ByHand()
        if way == "branch" and not is_right:
            self.norm.eps = 0.1

    def forward(self, x, mask):
        if way == "branch" and is_right:
            if (mask[:, -1] == 2).all():
                return x
        else:
            _ = mask[:, :, None] == mask[:, None, :]
        h = self.one(x)
        h = self.norm(h)  # branch
        h = self.act(h)  # class
        return self.two(h)


torch.manual_seed(0)
net = Net()
for step in range(2):
    loss = net(torch.randn(4, 6), torch.ones(4, 5)).square().mean()
    net.zero_grad()
    loss.backward()
"""


@pytest.mark.parametrize("way", ["branch", "class"])
def test_ops_of_other_lines_and_of_other_modules_are_no_pairs(tmp_path, way):
    program = BRANCHES.lstrip()
    (tmp_path / "train.py").write_text(program)
    for name in ("right", "wrong"):
        record(tmp_path, name, tmp_path / "train.py", way, name, saved_data="full")
    first = json.loads(run_in(tmp_path, None, CLI, "compare", "wrong", "right", "--json").stdout)["findings"][0]
    assert program.splitlines()[first["source_line"] - 1].endswith(f"# {way}"), first
    assert "uncertain" not in first["tags"], first
    assert way != "class" or first["text"].endswith("the module act is of the class ReLU, in the golden dump of ByHand")
