"""The begin and end of steps in real programs (docs/guide.md, "What a step is")."""

import sys

import dumps
import numpy as np
import pytest

HEAD = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    x = torch.ones(1, 2)
"""

TEACHER = """
    teacher = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def guide():
        with torch.no_grad():
            return teacher(x)
"""

PROGRAMS = {
    # name: (program, steps of graph 0, steps of graph 1)
    "accumulation": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(4):
        net(x).sum().backward()
        if batch % 2:
            optimizer.step()
            optimizer.zero_grad()
    """,
        [0, 1],
        [],
    ),
    "two optimizers": (
        """
    first = torch.optim.SGD([net.weight], lr=0.1)
    second = torch.optim.Adam([net.bias], lr=0.1)
    for batch in range(2):
        net(x).sum().backward()
        first.step()
        second.step()
    """,
        [0, 1],
        [],
    ),
    "gan": (
        """
    generator = nn.Linear(1, 2)
    for_net = torch.optim.SGD(net.parameters(), lr=0.1)
    for_generator = torch.optim.SGD(generator.parameters(), lr=0.1)
    for batch in range(2):
        with torch.no_grad():
            fake = generator(torch.ones(1, 1))
        (net(x) - net(fake)).sum().backward()
        for_net.step()
        net(generator(torch.ones(1, 1))).sum().backward()
        for_generator.step()
    """,
        [0, 1, 2, 3],
        [0, 1],
    ),
    "lbfgs": (
        """
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    def closure():
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        return loss
    for batch in range(2):
        net(x)
        optimizer.step(closure)
    """,
        [0, 1],
        [],
    ),
    "lbfgs, never called outside": (
        """
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    def closure():
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        return loss
    for batch in range(3):
        optimizer.step(closure)
    """,
        [0, 1, 2],
        [],
    ),
    "overflowing scaler": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for batch in range(3):
        optimizer.zero_grad()
        loss = net(x).sum()
        if batch == 1:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
        [0, 1, 2],
        [],
    ),
    "no optimizer": ("\n    for batch in range(3):\n        net(x)\n", [0, 1, 2], []),
    "evaluation between": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in range(2):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
        with torch.no_grad():
            for batch in range(2):
                net(x)
    """,
        [0, 1, 2, 3],
        [0, 1, 2, 3],
    ),
    "frozen layers first": (
        """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.head = nn.Linear(1, 1), nn.Linear(1, 1)
        def forward(self, x):
            with torch.no_grad():
                x = self.frozen(x)
            return self.head(x)
    net = Model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(2):
        net(torch.ones(1, 1)).sum().backward()
        optimizer.step()
    """,
        [0, 1],
        [],
    ),
    "frozen layers first, after parameters were set without gradients": (
        """
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.head = nn.Linear(2, 1), nn.Linear(1, 1)
        def forward(self, x):
            with torch.no_grad():
                x = self.frozen(x)
            return self.head(x)
    net = Model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.no_grad():
        net.head.weight.fill_(0.5)
    for batch in range(2):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
    """,
        [0, 1],
        [],
    ),
    "compiled, and something before it that is not": (
        """
    @torch.compiler.disable
    @torch.no_grad()
    def gather(module, arguments):
        module.weight * 1
    net.register_forward_pre_hook(gather)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    compiled = torch.compile(net, backend="aot_eager")
    for batch in range(2):
        compiled(x).sum().backward()
        optimizer.step()
    """,
        [0, 1],
        [],
    ),
    "compiled optimizer": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        step = torch.compile(optimizer.step, backend=backend)
        for batch in range(2):
            net(x).sum().backward()
            step()
    """,
        [0, 1, 2, 3],
        [],
    ),
    "loss module": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loss_of = nn.MSELoss()
    for batch in range(2):
        loss_of(net(x), torch.zeros(1, 1)).backward()
        optimizer.step()
    """,
        [0, 1],
        [],
    ),
    "bare parameters": (
        """
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for batch in range(2):
        optimizer.zero_grad()
        (weight * 3).sum().backward()
        optimizer.step()
    """,
        [0, 1],
        [],
    ),
    "teacher, called after the student": (
        TEACHER
        + """
    for batch in range(3):
        loss = (net(x) - guide()).square().sum() + (net(x) - guide()).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """,
        [0, 1, 2],
        [0, 1, 2],
    ),
    "teacher, called first": (
        TEACHER
        + """
    for batch in range(3):
        first, second = guide(), guide()
        (net(x) - first - second).square().sum().backward()
        optimizer.step()
    """,
        [0, 1, 2],
        [0, 1, 2],
    ),
    "teacher in training mode": (
        TEACHER
        + """
    teacher.train()
    for batch in range(3):
        first, second = guide(), guide()
        (net(x) - first - second).square().sum().backward()
        optimizer.step()
    """,
        [0, 1, 2],
        [0, 1, 2],
    ),
    "reference without its adapter": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(2):
        loss = net(x).sum()
        with torch.no_grad():
            net(x), net(x)
        loss.backward()
        optimizer.step()
    """,
        [0, 1],
        [0, 1],
    ),
    "validation within accumulation": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(4):
        net(x).sum().backward()
        if batch % 2:
            optimizer.step()
        net.eval()
        with torch.no_grad():
            net(x)
        net.train()
    """,
        [0, 1],
        [0, 1, 2, 3],
    ),
    "policy in training mode, acting first": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(2):
        for moment in range(3):
            with torch.no_grad():
                net(x)
        net(x).sum().backward()
        optimizer.step()
    """,
        [0, 1],
        [0, 1, 2, 3, 4, 5],
    ),
    "averaged model, evaluated after each epoch": (
        TEACHER
        + """
    for epoch in range(2):
        for batch in range(2):
            net(x).sum().backward()
            optimizer.step()
        guide(), guide(), guide()
    """,
        [0, 1, 2, 3],
        [0, 1, 2, 3, 4, 5],
    ),
    "no module at all": (
        """
    y = x * 2
    with torch.no_grad():
        y = y.log()
    """,
        [0],
        [],
    ),
    "a module without parameters": (
        """
    class Twice(nn.Module):
        def forward(self, x):
            return x * 2
    for batch in range(3):
        Twice()(x)
    """,
        [0, 1, 2],
        [],
    ),
    "modules without parameters before the model": (
        """
    for sample in range(12):
        nn.Softmax(0)(x)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.step()
    for batch in range(2):
        nn.MSELoss()(net(x), torch.zeros(1, 1)).backward()
        optimizer.step()
    """,
        [0, 1],
        [],
    ),
    "a model made after much else": (
        """
    del net
    for sample in range(1200):
        x = x * 1
    net = nn.Linear(2, 1)
    for batch in range(2):
        net(x)
    """,
        [0, 1],
        [],
    ),
    "stopped in mid-step": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x).sum().backward()
    optimizer.step()
    net(x)
    """,
        [0, 1],
        [],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_of(name, train, config):
    program, training, evaluation = PROGRAMS[name]
    run = train(HEAD + program, config(saved_data="statistic", statistic_category=["max"]))
    assert run.status == 0, run.stderr
    assert (dumps.steps(run.dump), dumps.steps(run.dump, graph=1)) == (training, evaluation)


def test_what_makes_the_model_and_its_data_is_in_no_step(train, config):
    program = """
    import torch
    x = torch.ones(1, 2) * 3
    net = torch.nn.Linear(2, 1)
    net(x)
    """
    run = train(program, config(saved_data="tensor"))
    assert dumps.execution_order(run.dump) == ["Default/network-Linear/linear-op0"], run.stderr
    assert np.load(next(dumps.step_directory(run.dump).glob("Parameter.data-0.*"))).tolist() == [[3, 3]]


def test_a_script_without_modules_is_recorded_to_its_last_operator(train, config):
    program = """
    import torch
    x = torch.ones(2)
    for i in range(1500):
        x = x + 1
    print(x[0].item())
    """
    run = train(program, config(saved_data="statistic", statistic_category=["max"]))
    assert run.status == 0, run.stderr
    order = dumps.execution_order(run.dump)
    assert order[:2] == ["Default/ones-op0", "Default/add-op0"]
    assert order.count("Default/add-op1499") == 1
    last = next(r for r in dumps.statistics(run.dump) if r["Op Name"] == "Default/add-op1499" and r["IO"] == "output")
    assert last["Max Value"] == "1501"


def test_manual_steps_are_the_users(train, config):
    program = (
        HEAD
        + """
    import sonde
    for batch in range(3):
        net(x * batch)
        net(x * batch)
        sonde.step()
    """
    )
    run = train(program, config(saved_data="tensor", iteration="1", sonde_settings={"step": "manual"}))
    assert run.status == 0, run.stderr
    inputs = [
        v for (n, io, slot), v in dumps.tensors(run.dump, 1).items() if "linear-op" in n and (io, slot) == ("input", 0)
    ]
    assert len(inputs) == 2
    np.testing.assert_array_equal(inputs, [[[1, 1]], [[1, 1]]])


def test_initial_iteration_is_added(train, config):
    program = HEAD + "\n    for batch in range(3):\n        net(x)\n"
    run = train(
        program, config(saved_data="statistic", statistic_category=["max"], initial_iteration=10, iteration="11")
    )
    assert dumps.steps(run.dump) == [11], run.stderr


def test_history_lists_the_dumped_steps(train, config):
    run = train(config=config(saved_data="statistic", statistic_category=["max"], iteration="0|2"))
    history = run.dump / "rank_0/execution_order/ms_global_execution_order_graph_0.csv"
    assert history.read_text() == "0\n2\n"


def test_the_first_forward_of_a_copied_model_is_one_step(train, config):
    run = train(
        """
        import copy
        import torch
        net = torch.nn.Linear(2, 2)
        net(torch.ones(1, 2))
        twin = copy.deepcopy(net)
        twin(torch.ones(1, 2))
        net(torch.ones(1, 2))
        """,
        config(),
    )
    assert dumps.steps(run.dump) == [0, 1, 2], run.stderr


def test_reference_models_and_evaluation_have_a_graph_each(train, config):
    run = train(
        HEAD
        + TEACHER
        + """
    for epoch in range(2):
        for batch in range(2):
            net.train()
            (net(x) - guide()).square().sum().backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for batch in range(3):
                net(x)
    """,
        config(saved_data="statistic", statistic_category=["max"], iteration="2"),
    )
    assert [dumps.steps(run.dump, graph) for graph in (0, 1, 2)] == [[2], [2], [2]], run.stderr
    assert "operators without gradients inside a training step have its number, in graph 1" in run.stderr
    assert "evaluation counts its own steps, in graph 2; sonde_settings.step sets another rule" in run.stderr


def test_the_forward_of_a_reference_model_is_in_the_graph_of_its_step(train, config):
    run = train(
        HEAD
        + TEACHER
        + """
    for batch in range(3):
        loss = (net(x) - guide()).square().sum() + (net(x) - guide()).square().sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    """,
        config(saved_data="statistic", statistic_category=["max"], iteration="1"),
    )
    order = dumps.execution_order(run.dump, 1)
    assert len(order) == 2 and all("-Linear/linear-op" in line for line in order), order
    trained = "\n".join(dumps.execution_order(run.dump, 0))
    assert trained.count("linear-op") == 2 and "norm" in trained, trained  # gradients are clipped in training


def test_what_a_hook_on_the_model_computes_belongs_to_the_step_that_begins(train, config):
    run = train(
        HEAD
        + """
    net.register_forward_pre_hook(lambda module, arguments: (arguments[0].cos(),))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(3):
        net(x).sum().backward()
        optimizer.step()
    """,
        config(saved_data="statistic", statistic_category=["max"]),
    )
    order = [dumps.statistics(run.dump, step) for step in range(3)]
    # A row for each tensor: cos has two.
    assert [[row["Op Type"] for row in rows].count("cos") for rows in order] == [2, 2, 2], run.stderr


ENDLESS = {
    # name: (program, steps)
    "a model and a data loader": (
        """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader([torch.ones(2)] * 1000, num_workers=1, multiprocessing_context="fork")
    try:
        for batch in loader:
            try:
                net(batch).sum().backward()
                optimizer.step()
            except Exception:
                pass
    finally:
        print("finally")
    """,
        [0, 1],
    ),
    "tensors of no module": (
        """
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for batch in range(1000):
        (weight * 3).sum().backward()
        optimizer.step()
    """,
        [0, 1],
    ),
    "steps of the user's": (
        """
    import sonde
    for batch in range(1000):
        x = x * 1
        sonde.step()
    """,
        [0, 1],
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_stop_after_ends_the_program_after_the_last_chosen_step(name, train, config):
    program, steps = ENDLESS[name]
    head = HEAD + '\n    import atexit; atexit.register(print, "at exit")\n'
    path = config(
        saved_data="statistic", statistic_category=["max"], iteration="0-1", sonde_settings={"stop_after": True}
    )
    run = train(head + program + '\n    print("came to its end")\n', path)
    assert run.status == 0, run.stderr
    assert dumps.steps(run.dump) == steps
    assert run.stdout.splitlines()[-1] == "at exit"
    assert "came to its end" not in run.stdout
    assert ("finally" in run.stdout) == ("finally" in program)
    assert run.sonde_lines[-1] == "sonde: ended after the last chosen step (stop_after)"


def test_sonde_run_ends_the_program_after_the_last_chosen_step(sonde, script, dump):
    endless = HEAD + "\n    while True:\n        net(x)\n"
    command = ("--stop-after", "--iteration", "1", "--out", dump, "--", sys.executable, script(endless))
    run = sonde("run", *command)
    assert run.status == 0, run.stderr
    assert dumps.steps(dump) == [1]
    assert "sonde: ended after the last chosen step (stop_after)" in run.stderr.splitlines()


def test_stop_after_without_a_last_step_is_reported(train, config):
    run = train(HEAD + "\n    net(x)\n", config(sonde_settings={"stop_after": True}))
    assert 'stop_after: iteration "all" names no last step' in run.stderr


def test_an_optimizer_that_never_steps_is_said_in_the_dump(train, config, sonde):
    """All calls of the model are one step then: the program updates its parameters itself."""
    source = (
        HEAD
        + """
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(x).sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    """
    )
    run = train(source, config(saved_data="statistic", statistic_category=["max"]))
    assert run.status == 0, run.stderr
    assert "its step() was not called: 3 calls of models are one step" in sonde("ls", run.dump).stdout
