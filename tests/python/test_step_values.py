"""The values recorded as step n are those of step n: compared with the program's own at the begin of each step."""

import json
import sys
import textwrap

import dumps
import numpy as np
import pytest
from conftest import run_in

# One process, one session per program and choice of steps. `mark()` is called where a step begins.
DRIVER = """
    import contextlib, gc, json, os
    import numpy as np
    import sonde
    import torch
    from torch import nn

    torch.set_num_threads(1)
    programs = json.load(open("programs.json"))
    gc.freeze()  # collecting is quick then

    def run(iteration, rule, source, out):
        torch.manual_seed(0)
        net = nn.Linear(2, 1)
        marks, marks_of_evaluation = [], []

        def mark(kept=marks):
            kept.append(net.weight.detach().numpy().copy())

        space = {"torch": torch, "nn": nn, "net": net, "x": torch.ones(1, 2), "mark": mark, "sonde": sonde,
                 "contextlib": contextlib, "mark_evaluation": lambda: mark(marks_of_evaluation)}
        if iteration is None:
            exec(source, space)
        else:
            config = sonde.session.settings(out, saved_data="tensor", iteration=iteration)
            config["sonde_settings"] = {"step": rule}
            config["common_dump_settings"]["path"] = os.path.abspath(out)
            with sonde.capture(config):
                exec(source, space)
            np.savez(out + ".npz", training=np.array(marks), evaluation=np.array(marks_of_evaluation))
        return net.weight.detach().sum().item().hex()

    for name, (source, rule, choices) in programs.items():
        bare = run(None, rule, source, None)
        for i, iteration in enumerate(choices):
            gc.collect()
            assert run(iteration, rule, source, f"{name} {i}".replace(" ", "_")) == bare, name
"""

SGD = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
STEP = "optimizer.zero_grad(); net(x).square().sum().backward(); optimizer.step()"
SCALED = """
scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
for batch in range(5):
    mark()
    optimizer.zero_grad()
    loss = net(x).square().sum()
    if batch in {overflowing}:
        loss = loss * float("inf")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""

# name: (program, sonde_settings.step, number of training steps, number of evaluation steps)
PROGRAMS = {
    "plain": (SGD + f"for _ in range(4):\n    mark()\n    {STEP}", "automatic", 4, 0),
    "accumulation": (
        SGD
        + """
for batch in range(8):
    if batch % 2 == 0:
        mark()
    net(x).square().sum().backward()
    if batch % 2:
        optimizer.step()
        optimizer.zero_grad()
""",
        "automatic",
        4,
        0,
    ),
    "two optimizers": (
        """
first = torch.optim.SGD([net.weight], lr=0.1)
second = torch.optim.Adam([net.bias], lr=0.1)
for batch in range(4):
    mark()
    first.zero_grad()
    second.zero_grad()
    net(x).square().sum().backward()
    first.step()
    second.step()
""",
        "automatic",
        4,
        0,
    ),
    "gan": (
        """
generator = nn.Linear(1, 2)
for_net = torch.optim.SGD(net.parameters(), lr=0.1)
for_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
for batch in range(2):
    mark()
    for_net.zero_grad()
    (net(x) - net(generator(torch.ones(1, 1)).detach())).square().sum().backward()
    for_net.step()
    mark()
    for_generator.zero_grad()
    net(generator(torch.ones(1, 1))).square().sum().backward()
    for_generator.step()
""",
        "automatic",
        4,
        0,
    ),
    "lbfgs": (
        """
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.05, max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = (net(x) - 5).square().sum()
    loss.backward()
    return loss
for batch in range(4):
    mark()
    optimizer.step(closure)
""",
        "automatic",
        4,
        0,
    ),
    "overflowing scaler": (SGD + SCALED.format(overflowing={1}), "automatic", 5, 0),
    "scaler overflowing twice in a row": (SGD + SCALED.format(overflowing={1, 2}), "automatic", 5, 0),
    "scaler overflowing at first": (SGD + SCALED.format(overflowing={0}), "automatic", 5, 0),
    "no optimizer": (
        """
for batch in range(4):
    mark()
    net(x)
    with torch.no_grad():
        net.weight.add_(1)
""",
        "automatic",
        4,
        0,
    ),
    "evaluation between": (
        SGD
        + f"""
for epoch in range(2):
    for batch in range(2):
        mark()
        {STEP}
    with torch.no_grad():
        for batch in range(2):
            mark_evaluation()
            net(x)
            net.weight.add_(0.5)
""",
        "automatic",
        4,
        4,
    ),
    "loss module and metrics": (
        SGD
        + """
loss_of, metric = nn.MSELoss(), nn.L1Loss()
for batch in range(4):
    mark()
    optimizer.zero_grad()
    out = net(x)
    loss_of(out, torch.ones(1, 1)).backward()
    with torch.no_grad():
        metric(out, torch.ones(1, 1))
    optimizer.step()
    with torch.no_grad():
        metric(out, torch.ones(1, 1))
""",
        "automatic",
        4,
        0,
    ),
    "roots of one class": (
        """
others = [nn.Linear(1, 2), nn.Linear(1, 2)]
optimizer = torch.optim.SGD([*net.parameters(), *others[0].parameters(), *others[1].parameters()], lr=0.1)
for batch in range(4):
    mark()
    optimizer.zero_grad()
    sum(net(other(torch.ones(1, 1))) for other in others).square().sum().backward()
    optimizer.step()
""",
        "automatic",
        4,
        0,
    ),
    "stopped in mid-step": (
        SGD + f"for _ in range(3):\n    mark()\n    {STEP}\nmark()\nnet(x).sum()",
        "automatic",
        4,
        0,
    ),
    "a step that raises": (
        """
class Careful(torch.optim.SGD):
    def step(self, closure=None):
        if torch.isinf(self.param_groups[0]["params"][0].grad).any():
            raise FloatingPointError("gradients overflowed")
        return super().step(closure)

optimizer = Careful(net.parameters(), lr=0.1)
for batch in range(5):
    if batch != 2:
        mark()
    optimizer.zero_grad()
    loss = net(x).square().sum()
    (loss * float("inf") if batch == 1 else loss).backward()
    with contextlib.suppress(FloatingPointError):
        optimizer.step()
""",
        "automatic",
        4,
        0,
    ),
    "an optimizer that was never made": (
        """
class Unmade(torch.optim.SGD):
    def __init__(self, parameters):
        self.kept = list(parameters)
    def step(self):
        with torch.no_grad():
            for parameter in self.kept:
                parameter -= 0.1 * parameter.grad
        return "stepped"

optimizer = Unmade(net.parameters())
for batch in range(4):
    mark()
    net.zero_grad()
    net(x).square().sum().backward()
    assert optimizer.step() == "stepped"
""",
        "automatic",
        4,
        0,
    ),
    "an optimizer made anew in each step": (
        f"for _ in range(4):\n    mark()\n    {SGD}    {STEP}",
        "automatic",
        4,
        0,
    ),
    "an optimizer that is gone": (
        SGD + f"mark()\n{STEP}\ndel optimizer\n" + "for _ in range(3):\n    mark()\n    net(x)\n"
        "    with torch.no_grad():\n        net.weight.add_(1)",
        "forward",
        4,
        0,
    ),
    "a scheduler": (
        SGD
        + f"""
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for batch in range(4):
    mark()
    {STEP}
    scheduler.step()
""",
        "automatic",
        4,
        0,
    ),
    "steps at each forward": (
        SGD
        + """
for batch in range(4):
    mark()
    net(x).square().sum().backward()
    if batch % 2:
        optimizer.step()
""",
        "forward",
        4,
        0,
    ),
    "steps at the optimizer": (
        SGD
        + """
for batch in range(4):
    mark()
    for micro in range(2):
        net(x).square().sum().backward()
    optimizer.step()
""",
        "optimizer",
        4,
        0,
    ),
    "manual": (
        SGD
        + f"""
for batch in range(4):
    mark()
    for micro in range(2):
        {STEP}
    if batch < 3:
        sonde.step()
""",
        "manual",
        4,
        0,
    ),
    "manual from the first call on": (
        SGD
        + f"""
for batch in range(4):
    mark()
    {STEP}
    if batch < 3:
        sonde.step()
""",
        "automatic",
        4,
        0,
    ),
}
CHOICES = ("all", "1", "0|2-3")


def chosen(choice, count):
    wanted = {"all": range(count), "1": [1], "0|2-3": [0, 2, 3]}[choice]
    return [i for i in wanted if i < count]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sessions")
    programs = {name: (source, rule, CHOICES) for name, (source, rule, _, _) in PROGRAMS.items()}
    (directory / "programs.json").write_text(json.dumps(programs))
    (directory / "train.py").write_text(textwrap.dedent(DRIVER))
    run = run_in(directory, None, sys.executable, "train.py")
    assert run.status == 0, run.stderr
    return directory


def weights(path, iteration, graph):
    """The parameter `weight` of net in one step, whichever number its model has in the names."""
    found = dumps.tensors(path, iteration, graph)
    names = {name: v for (name, io, _), v in found.items() if name.endswith("weight") and io == "output"}
    named = [v for name, v in names.items() if v.shape == (1, 2) and "optimizer" not in name]
    read = [v for (name, io, slot), v in found.items() if "_linear-op0" in name and (io, slot) == ("input", 1)]
    return named + [v for v in read if v.shape == (1, 2)][:1]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_chosen_step_holds_the_values_of_that_step(name, choice, sessions):
    _, _, training, evaluation = PROGRAMS[name]
    path = sessions / f"{name} {CHOICES.index(choice)}".replace(" ", "_")
    truth = np.load(f"{path}.npz")
    assert (len(truth["training"]), len(truth["evaluation"])) == (training, evaluation) or "scaler" in name
    for graph, count, marks in ((0, len(truth["training"]), truth["training"]), (1, evaluation, truth["evaluation"])):
        assert dumps.steps(path, graph) == chosen(choice, count)
        for step in dumps.steps(path, graph):
            seen = weights(path, step, graph)
            assert len(seen) == 2
            for value in seen:
                np.testing.assert_array_equal(value, marks[step])
