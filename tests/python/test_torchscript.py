"""TorchScript modules, scripted, loaded and traced, and exported programs: names, lines, steps, equal bits."""

import json
import pathlib
import re
import sys

import dumps
import pytest
from processes import CLI

# The same network four times; a new seed for each, so that all must compute the same.
PROGRAM = """
    import torch
    from torch import nn

    torch.set_num_threads(1)


    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)

        def forward(self, x):
            return torch.relu(self.conv(x))


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()
            self.head = nn.Sequential(nn.Flatten(), nn.Linear(72, 3))

        def forward(self, x):
            y = self.block(x)
            return self.head(y * 2)


    example = torch.ones(2, 1, 8, 8)
    torch.manual_seed(0)
    scripted = torch.jit.script(Net())
    scripted.save("net.pt")
    models = [scripted, torch.jit.load("net.pt"), torch.jit.trace(Net(), example)]
    models.append(torch.export.export(Net(), (example,)).module())
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        for step in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(2, 1, 8, 8)).square().mean()
            loss.backward()
            optimizer.step()
            print(loss.item().hex())
        with torch.no_grad():
            print(model(example).sum().item().hex())
"""


@pytest.fixture(scope="module")
def both(compare):
    return compare(PROGRAM)


def test_the_results_are_the_same_bits(both):
    assert both.bare.status == 0, both.bare.stderr
    assert both.recorded.stdout == both.bare.stdout and both.bare.stdout.count("\n") == 16


def test_every_training_step_and_evaluation_of_each_model_is_a_step(both):
    assert "recorded" in both.recorded.stderr, both.recorded.stderr
    steps = {(row["graph"], row["step"]) for row in both.stats()}
    assert {graph: sum(1 for g, _ in steps if g == graph) for graph in (0, 1)} == {0: 12, 1: 4}


def lines_of(both):
    """{operator: its line's text} of the operators inside modules."""
    text = PROGRAM.splitlines()
    ops = [op for op in both.ops() if not op["is_parameter"] and "/network" in op["op_name"]]
    return {op["op_name"]: text[op["source_line"] - 1].strip() for op in ops if op["source_file"].endswith("train.py")}


@pytest.mark.parametrize("kind", ["scripted", "loaded", "traced", "exported"])
def test_operators_have_the_modules_that_no_python_code_called(both, kind):
    names = {op["op_name"] for op in both.ops() if not op["op_name"].startswith("Gradients")}
    roots = sorted({found[1] for name in names if (found := re.match(r"Default/(network\d*-Net)/", name))})
    assert len(roots) >= 4, "one for each model"
    root = f"Default/{roots[['scripted', 'loaded', 'traced', 'exported'].index(kind)]}"
    convolution = "_convolution" if kind == "traced" else "conv2d"
    inside = {
        f"{root}/block-Block/conv-Conv2d/{convolution}-op0",
        f"{root}/block-Block/relu-op0",
        f"{root}/mul-op0",
        f"{root}/head/0-Flatten/flatten-op0",
        f"{root}/head/1-Linear/linear-op0",
    }
    assert inside <= names, sorted(names)


def test_operators_have_the_line_of_the_model(both):
    lines = lines_of(both)
    for name, line in lines.items():
        if name.endswith("/relu-op0") and "Grad" not in name:
            assert line == "return torch.relu(self.conv(x))", name
        if name.endswith("-Net/mul-op0"):
            assert line == "return self.head(y * 2)", name
    assert sum(name.endswith("/relu-op0") for name in lines) >= 4


def test_backward_belongs_to_the_modules_of_the_forward(both):
    names = {op["op_name"] for op in both.ops()}
    found = [
        name for name in names if re.search(r"/block-Block/conv-Conv2d/Grad_\w*conv\w*/convolution_backward", name)
    ]
    assert len(found) == 4, sorted(names)


def test_a_backward_that_torchscript_runs_itself_is_of_no_other_operator(compare):
    """From the second call on, the interpreter differentiates this module as a whole."""
    ran = compare((pathlib.Path(__file__).parent / "documents/script.py").read_text())
    assert ran.recorded.stdout == ran.bare.stdout
    backward = {op["op_name"] for op in ran.ops() if op["op_name"].startswith("Gradients/")}
    assert any(re.fullmatch(r"Gradients/Default/matmul-op\d", name) for name in backward)
    assert not any("Grad_item" in name for name in backward)


def test_parameters_have_their_names(both):
    parameters = {op["op_name"] for op in both.ops() if op["is_parameter"]}
    assert {"block.conv.weight", "head.1.bias"} <= parameters
    assert sum(name.endswith("block.conv.weight") for name in parameters) == 4


TRACED_ONLY = """
    import sys, torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, x):
            return self.head(x)

    example = Net()
    torch.jit.trace(example, torch.ones(2, 3))
    other = Net()
    for model in {"other": [other, example], "same": [example, other]}[sys.argv[1]]:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("first", ["other", "same"])
def test_a_module_that_is_only_traced_takes_no_name_from_the_model_that_trains(sonde, script, dump, first):
    """Both are alive, so that no name is free by chance."""
    done = sonde("run", "--out", dump, "--", sys.executable, script(TRACED_ONLY), first)
    assert done.status == 0, done.stderr
    weights = {row["Op Name"]: row["L2Norm Value"] for step in (0, 1) for row in dumps.statistics(dump, step)}
    names = [name for name in weights if name.endswith("head.weight")]
    assert names == ["head.weight", "network1-Net.head.weight"]
    assert len(set(map(weights.get, names))) == 2


# Programs in files that somebody else wrote, which name a file that they do not come from.
STRANGERS = """
    import io, sys, zipfile
    import torch
    import model_a

    def changed(saved, keep=lambda name: True):
        out = io.BytesIO()
        with zipfile.ZipFile(saved) as old, zipfile.ZipFile(out, "w") as new:
            for name in filter(keep, old.namelist()):
                new.writestr(name, old.read(name).replace(b"model_a.py", b"secret.cfg"))
        out.seek(0)
        return out

    x = torch.ones(2, 3)
    torch.jit.script(model_a.Net()).save("net.pt")
    torch.export.save(torch.export.export(model_a.Net(), (x,)), "net.pt2")
    models = {
        "own": torch.jit.load("net.pt"),
        "renamed": torch.jit.load(changed("net.pt")),
        "nameless": torch.jit.load(changed("net.pt", lambda name: not name.endswith(".debug_pkl"))),
        "exported": torch.export.load(changed("net.pt2")).module(),
    }
    model = models[sys.argv[1]]
    with torch.no_grad():
        print(model(x).sum().item().hex())
"""
MODEL = """import torch


class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.log(x + 1)
        return y * 2
"""
SECRET = "password = TOP-SECRET\n" * 9


@pytest.mark.parametrize("kind", ["own", "renamed", "nameless", "exported"])
def test_a_saved_program_does_not_choose_which_file_is_copied_into_the_dump(  # noqa: PLR0917
    execute, script, config, tmp_path, dump, kind
):
    (tmp_path / "model_a.py").write_text(MODEL)
    (tmp_path / "code" / "__torch__").mkdir(parents=True)
    for secret in (tmp_path / "secret.cfg", tmp_path / "code/__torch__/model_a.py", tmp_path / "code/__torch__.py"):
        secret.write_text(SECRET)
    ran = execute(sys.executable, script(STRANGERS), kind, MINDSPORE_DUMP_CONFIG=config(saved_data="statistic"))
    assert ran.status == 0, ran.stderr
    assert "recorded" in ran.stderr
    kept = {path: path.read_bytes() for path in dump.rglob("*") if path.is_file()}
    assert not [path for path, data in kept.items() if b"TOP-SECRET" in data]
    sources = {path.name: data.decode() for path, data in kept.items() if "sources" in path.parts}
    lines = execute(CLI, "ls", dump, "--ops", "--jsonl").stdout.splitlines()
    (log,) = (row for row in map(json.loads, lines) if row["op_type"] == "log")
    name = pathlib.Path(log["source_file"]).name
    assert name == {"own": "model_a.py", "nameless": "model_a.py"}.get(kind, "secret.cfg")
    assert "log(" in sources[name].splitlines()[log["source_line"] - 1]
    assert (sources[name] == MODEL) == (kind == "own")
