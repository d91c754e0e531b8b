"""`sonde compare` of trainings whose backward passes begin elsewhere, of graphs that run in each other, and of files
that another tool has written."""

import subprocess

import numpy as np
import pytest
from processes import CLI, run_in
from test_compare_detach import first
from test_first_bad import record

TERMS = """
import sys, torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
trunk, main, aux = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*trunk.parameters(), *main.parameters(), *aux.parameters()], lr=0.1)
for step in range(2):
    h, y = torch.tanh(trunk(torch.randn(10, 6))), torch.arange(10) % 3
    loss = F.cross_entropy(main(h), y)
    term = 0.4 * F.cross_entropy(aux(h), y)
    total = loss + term  # join
    optimizer.zero_grad()
    (loss if "lost" in sys.argv else total).backward()  # begin
    optimizer.step()
    print(term.item(), total.item())
"""

FACTOR = """
import sys, torch
from torch import nn

torch.manual_seed(0)


class Turn(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(4, 4))[0])

    def forward(self, x, mask):
        length = mask.sum(1)
        volume = torch.linalg.slogdet(self.weight)[1]  # nearly 0: its error does not show
        if "lost" not in sys.argv:
            volume = volume * length  # factor
        return (x @ self.weight) * mask, volume


turn = Turn()
optimizer = torch.optim.SGD(turn.parameters(), lr=0.1)
for step in range(2):
    mask = (torch.arange(4)[None] < torch.tensor([4, 3, 2])[:, None]).float()
    x, volume = turn(torch.randn(3, 4) * mask, mask)
    loss = x.square().sum() - (torch.zeros(3) + volume).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

TASKS = """
import sys, torch
from torch import nn
from torch.nn import functional as F
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    whole = 0
    for task in range(3):
        x, y = torch.randn(9, 4), torch.arange(9) % 3
        fast = dict(net.named_parameters())
        for turn in range(2):
            loss = F.cross_entropy(functional_call(net, fast, (x[:3],)), y[:3])
            slopes = torch.autograd.grad(loss, list(fast.values()), create_graph="lost" not in sys.argv)  # again
            fast = {name: value - 0.4 * slope for (name, value), slope in zip(fast.items(), slopes)}
        whole = whole + F.cross_entropy(functional_call(net, fast, (x[3:],)), y[3:])
    optimizer.zero_grad()
    whole.backward()
    optimizer.step()
"""

TARGETS = """
import sys, torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
q, other = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.SGD(q.parameters(), lr=0.1)
for step in range(2):
    before, after, done = torch.randn(8, 4), torch.randn(8, 4), torch.arange(8) % 3 == 0
    value = q(before).max(1)[0]
    with torch.no_grad():  # a graph of its own, in the middle of the training step
        best = other(after).max(1)[0]
        wanted = 0.9 * best if "lost" in sys.argv else 0.9 * best * (1 - done.float())  # done
    loss = F.smooth_l1_loss(value, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

PROGRAMS = {"terms": TERMS, "factor": FACTOR, "tasks": TASKS, "targets": TARGETS}


def line_of(program, mark):
    return 1 + next(i for i, line in enumerate(PROGRAMS[program].splitlines()) if line.endswith(f"# {mark}"))


@pytest.fixture(scope="module", params=["full", "statistic"])
def dumps(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("beginnings", numbered=True)
    for name, program in PROGRAMS.items():
        (directory / f"{name}.py").write_text(program)
        for word in ("whole", "lost"):
            record(directory, f"{name}_{word}", directory / f"{name}.py", word, saved_data=request.param)
    return directory


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_beside_itself_has_no_difference(dumps, program):
    assert run_in(dumps, None, CLI, "compare", f"{program}_whole", f"{program}_whole").status == 0


def test_a_loss_that_lacks_a_term_is_no_detach(dumps):
    begin, join = line_of("terms", "begin"), line_of("terms", "join")
    found = first(dumps, "terms_lost", "terms_whole")
    assert f"terms.py:{begin}: begins the backward pass at the result of cross_entropy_loss, terms.py:" in found
    assert f"and the golden run at that of add, terms.py:{join};" in found
    found = first(dumps, "terms_whole", "terms_lost")
    assert (
        f"begins the backward pass at the result of add, terms.py:{join}, and the golden run at that of cross" in found
    )


def test_a_factor_of_nearly_nothing_is_named_and_no_mask(dumps):
    factor = line_of("factor", "factor")
    found = first(dumps, "factor_lost", "factor_whole")
    assert found.startswith("first difference: step 0, golden op mul ") and f"factor.py:{factor}: has no" in found


def test_gradients_of_several_tasks_that_are_not_differentiated_again(dumps):
    found = first(dumps, "tasks_lost", "tasks_whole")
    again = line_of("tasks", "again")
    assert f"tasks.py:{again}: the gradients that begin here are not differentiated in one of the two" in found


def test_what_runs_in_the_middle_of_a_step_comes_before_its_end(dumps):
    found = first(dumps, "targets_lost", "targets_whole")
    assert found.startswith("first difference: step 0 of graph 1, golden op ")
    assert f"targets.py:{line_of('targets', 'done')}: has no counterpart" in found


NETWORK = """
import numpy as np, torch

x, a, b, c = (torch.tensor(np.load(name + ".npy")) for name in "xabc")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Parameter(weight) for weight in (a, b, c))

    def forward(self, x):
        h = torch.relu(x @ self.a)
        h = torch.tanh(h @ self.b)
        return h @ self.c


with torch.no_grad():
    Net()(x)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A recording of PyTorch, and the data of its inputs and weights."""
    directory = tmp_path_factory.mktemp("network")
    random = np.random.RandomState(0)
    data = {
        name: random.randn(*shape).astype("f")
        for name, shape in {"x": (16, 12), "a": (12, 24), "b": (24, 24), "c": (24, 6)}.items()
    }
    for name, values in data.items():
        np.save(directory / f"{name}.npy", values if name == "x" else 0.3 * values)
    (directory / "net.py").write_text(NETWORK)
    record(directory, "torch", directory / "net.py", saved_data="full")
    return directory


def write_results(network, name, change, factor):
    """Writes the results of nodes as another engine gives them: files alone, one after the other."""
    x, a, b, c = (np.load(network / f"{one}.npy") for one in "xabc")
    (network / name).mkdir()

    def save(node, values):
        values = values * np.float32(factor) if node == change else values
        save.at += 1
        np.save(network / name / f"{node}.0.{1700000000000000 + save.at}.npy", values)
        return values

    save.at = 0
    h = save("MatMul_0", save("x", x) @ a)
    save("Constant", np.array([1, 1, 2, 2], "f"))  # in no golden tensor, and right
    h = save("Relu_1", np.maximum(h, 0))
    save("MatMul_4", save("Tanh_3", np.tanh(save("MatMul_2", h @ b))) @ c)


@pytest.mark.parametrize("change", ["Relu_1", "MatMul_2", "Tanh_3", "MatMul_4"])
@pytest.mark.parametrize("factor", [1.001, 1.05, 3])
def test_files_of_another_engine_show_the_first_node_that_differs(network, change, factor):
    name = f"{change}_{factor}"
    write_results(network, name, change, factor)
    asked = subprocess.run([CLI, "compare", name, "torch"], cwd=network, capture_output=True, text=True, check=False)
    assert asked.returncode == 1, asked.stdout
    found = " ".join(asked.stdout.split("two implementations")[0].split())
    assert found.startswith("first difference (uncertain): step 0,") and f" {change}: its result" in found
    assert "in the order of the operators" in found and "net.py:" in found


def test_files_of_another_engine_that_agree_show_nothing(network):
    write_results(network, "equal", "", 1)
    asked = subprocess.run([CLI, "compare", "equal", "torch"], cwd=network, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stdout
