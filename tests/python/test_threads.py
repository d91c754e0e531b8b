"""Threads of one training: all are recorded, none is disturbed; any of them may start and stop the session."""

import collections
import signal

import dumps
import pytest

HEAD = """
    import threading, torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)

    def in_threads(*bodies):
        failed = []
        def guarded(body):
            try:
                body()
            except BaseException as error:
                failed.append(error)
        threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed
"""

# Hogwild: four threads, each with its own model and optimizer; their results must not depend on Sonde.
FOUR_TRAININGS = (
    HEAD
    + """
    import hashlib
    models = [nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)) for _ in range(4)]
    batches = [torch.randn(20, 5, 8) for _ in range(4)]
    def training(index):
        optimizer = torch.optim.SGD(models[index].parameters(), lr=0.1, momentum=0.9)
        for batch in batches[index]:
            optimizer.zero_grad()
            models[index](batch).square().mean().backward()
            optimizer.step()
    in_threads(*(lambda i=i: training(i) for i in range(4)))
    digest = hashlib.sha256()
    for model in models:
        for value in model.state_dict().values():
            digest.update(value.numpy().tobytes())
    print(digest.hexdigest())
"""
)


def test_four_threads_train_the_same_with_and_without(train, config):
    bare = train(FOUR_TRAININGS)
    run = train(FOUR_TRAININGS, config(saved_data="full"))
    assert run.status == 0 and run.stdout == bare.stdout, run.stderr
    assert any("recorded" in line for line in run.sonde_lines), run.stderr


def test_every_row_and_file_of_four_threads_has_a_name_of_its_own(train, config):
    run = train(FOUR_TRAININGS, config(saved_data="full"))
    assert run.status == 0, run.stderr
    steps = dumps.steps(run.dump)
    assert len(steps) >= 20
    for step in steps:
        rows = dumps.statistics(run.dump, step)
        # Parameters are named once per model; ops of one scope are numbered across threads.
        ops = [(r["Op Name"], r["IO"], r["Slot"]) for r in rows if r["Op Type"] != "Parameter"]
        assert max(collections.Counter(ops).values(), default=1) == 1


def test_threads_that_share_a_model_are_one_training(train, config):
    """Each op is recorded once, whichever thread ran it; steps are those of all threads together."""
    run = train(
        HEAD
        + """
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    lock = threading.Lock()
    def worker():
        for _ in range(10):
            with lock:
                optimizer.zero_grad()
                net(torch.ones(2, 4)).sum().backward()
                optimizer.step()
    in_threads(worker, worker, worker, worker)
    """,
        config(),
    )
    assert run.status == 0, run.stderr
    assert dumps.steps(run.dump) == list(range(40))
    names = [{row["Op Name"] for row in dumps.statistics(run.dump, step)} for step in range(1, 39)]
    for step in names:
        assert step == names[0]


def test_backward_in_another_thread_belongs_to_the_forward_that_made_it(train, config):
    run = train(
        HEAD
        + """
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(3):
        loss = net(torch.ones(2, 4)).sum()
        in_threads(loss.backward)
        optimizer.step()
    """,
        config(),
    )
    assert dumps.steps(run.dump) == [0, 1, 2], run.stderr
    names = {row["Op Name"] for row in dumps.statistics(run.dump, 2)}
    assert any(name.startswith("Gradients/Default/network-Sequential/0-Linear/Grad_linear/") for name in names), names
    assert any(name.startswith("Gradients/Default/network-Sequential/1-Tanh/Grad_tanh/") for name in names), names


MANY_THREADS = (
    HEAD
    + """
    import resource
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    def steps(count):
        for step in range(count):
            in_threads(lambda: net(torch.ones(2, 4)).sum().backward())
            optimizer.step()
    steps(100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steps(200)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
)


@pytest.mark.cold
def test_a_thread_that_has_ended_leaves_no_memory_behind(train, config):
    run = train(MANY_THREADS, config(saved_data="statistic"))
    assert float(run.stdout) < 40, run.stderr  # megabytes; each thread had half of one


def test_an_error_in_a_thread_in_mid_step_is_that_threads_alone(train, config):
    run = train(
        HEAD
        + """
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    def wrong():
        try:
            net(torch.ones(2, 5))
        except RuntimeError as error:
            print("as ever:", "shapes cannot be multiplied" in str(error))
    for step in range(3):
        out = net(torch.ones(2, 4))
        if step == 1:
            in_threads(wrong)
        out.sum().backward()
        optimizer.step()
    """,
        config(),
    )
    assert run.stdout == "as ever: True\n", run.stderr
    assert dumps.steps(run.dump) == [0, 1, 2]


RACES = """
    import sonde
    import torch._dynamo  # the first optimizer would import it, and two threads at once cannot
    nets = [nn.Linear(4, 4) for _ in range(2)]
    done = threading.Event()
    def trains(net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        while not done.is_set():
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    def switches(name):
        for turn in range(15):
            try:
                sonde.start(sonde.session.settings({path!r} + f"/{{name}}-{{turn}}", saved_data="full"))
            except sonde.Error as error:
                assert "one is running" in str(error), error
            sonde.stop()
    workers = [threading.Thread(target=trains, args=(net,)) for net in nets]
    for worker in workers:
        worker.start()
    in_threads(lambda: switches("a"), lambda: switches("b"), lambda: switches("c"))
    done.set()
    for worker in workers:
        worker.join()
"""


def test_starting_and_stopping_in_several_threads_never_leaves_a_session_stuck(train, tmp_path):
    (tmp_path / "races").mkdir()
    run = train(
        HEAD
        + RACES.format(path=str(tmp_path / "races"))
        + """
    sonde.start(sonde.session.settings({path!r}))
    for step in range(3):
        nets[0](torch.ones(2, 4)).sum().backward()
        torch.optim.SGD(nets[0].parameters(), lr=0.01).step()
    print(sonde.stop())
    """.format(path=str(tmp_path / "last"))
    )
    assert run.status == 0, run.stderr[-2000:]
    assert "3 steps" in run.stdout, run.stderr[-2000:]
    assert dumps.steps(tmp_path / "last") == [0, 1, 2]


@pytest.mark.cold
@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_still_trains_while_the_interpreter_ends_does_no_harm(train, config, daemon):
    run = train(
        HEAD
        + f"""
    import time
    started = time.monotonic()
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    def endless():
        until = time.monotonic() + 1.5
        while {daemon} or time.monotonic() < until:
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    threading.Thread(target=endless, daemon={daemon}).start()
    while optimizer.state_dict()["state"] == {{}} and time.monotonic() < started + 60:
        time.sleep(0.01)
    time.sleep(0.2)
    print("leaves", flush=True)
    """,
        config(saved_data="full", iteration="0-5"),
    )
    assert run.stdout == "leaves\n", run.stderr
    if run.status != 0:
        # PyTorch itself aborts such a program in most runs: CPython ends a thread that wants the GIL then by unwinding
        # it, through C++ that must not be unwound.
        assert daemon and run.status == -signal.SIGABRT, run.stderr
        assert [line for line in run.stderr.splitlines() if not line.startswith("sonde:")] == [
            "terminate called without an active exception"
        ]
    assert dumps.steps(run.dump) == list(range(6))
