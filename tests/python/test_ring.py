"""The ring (`sonde_settings.ring`): the last steps are kept in memory, and written when something asks for them."""

import json

import dumps
import numpy as np
import pytest

# A training of `steps` steps with a frozen parameter, a causal mask of -inf as a buffer, and `inside` before each step.
TRAINING = """
    import os
    import signal
    import sys
    import time
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = nn.Linear(4, 4)
            self.frozen.requires_grad_(False)
            self.query = nn.Linear(4, 4)
            self.head = nn.Linear(4, 2)
            self.register_buffer("causal", torch.full((3, 3), float("-inf")).triu(1))
            self.scale = 1.0

        def forward(self, x):
            x = self.frozen(x)
            scores = self.query(x) @ x.transpose(1, 2) + self.causal
            scores = scores.masked_fill(torch.eye(3) > 2, float("-inf"))
            x = torch.softmax(scores, -1) @ x
            return self.head(x) * self.scale


    network = Masked()
    optimizer = torch.optim.SGD([p for p in network.parameters() if p.requires_grad], lr=0.01)
    for step in range({steps}):
        {inside}
        optimizer.zero_grad()
        loss = network(torch.randn(2, 3, 4)).square().mean()
        loss.backward()
        optimizer.step()
    print("trained", flush=True)
"""


def training(inside="pass", steps=20):
    return TRAINING.replace("{inside}", inside).replace("{steps}", str(steps))


def run(train, config, inside="pass", steps=20, *, saved_data="full", ring=3, **more):
    done = train(
        training(inside, steps),
        config(
            saved_data=saved_data,
            statistic_category=["max", "min", "nan count"],
            sonde_settings={"ring": ring, **more},
        ),
    )
    return done


def steps_in(dump):
    return dumps.steps(dump)


def notes_of(sonde, dump):
    answer = json.loads(sonde("ls", dump, "--json").stdout)
    runs = [run for rank in answer["ranks"] for run in rank["runs"]]
    return [note for run in runs for note in run["notes"] if note.startswith("ring")]


def listed_steps(sonde, dump, graph=0):
    answer = json.loads(sonde("ls", dump, "--json").stdout)
    return [step["step"] for rank in answer["ranks"] for step in rank["steps"] if step["graph"] == graph]


def test_nothing_is_written_while_nothing_is_wrong(train, config, dump, sonde):
    done = run(train, config)
    assert "trained" in done.stdout
    assert any("the ring was not written" in line and "20 steps" in line for line in done.sonde_lines), done.sonde_lines
    assert steps_in(dump) == []
    notes = notes_of(sonde, dump)
    assert "keeps the last 3 steps" in notes[0] and "SIGUSR2, SIGTERM" in notes[0], notes
    assert "written 0 times, 0 of 20 steps" in notes[-1], notes


@pytest.mark.parametrize("saved_data", ["statistic", "tensor", "full"])
def test_a_nan_in_the_loss_writes_the_steps_before_it(train, config, dump, sonde, saved_data):
    done = run(train, config, "network.scale = float('nan') if step == 12 else 1.0", saved_data=saved_data)
    assert "trained" in done.stdout
    assert steps_in(dump) == [10, 11, 12], done.sonde_lines
    notes = notes_of(sonde, dump)
    assert any("step 10, step 11, step 12" in note and "NaN in the loss" in note for note in notes), notes
    assert sonde("verify", dump).status == 0
    found = sonde("first-bad", dump)
    assert found.status == 1 and "mul-op0" in found.stdout.splitlines()[0], found.stdout


def test_the_value_of_a_parameter_that_was_read_before_the_ring_began_is_in_every_step(train, config, dump, tmp_path):
    keep = "__import__('numpy').save('frozen.npy', network.frozen.weight.detach().numpy())"
    done = train(
        training(f"step == 0 and {keep}; network.scale = float('nan') if step == 50 else 1.0", 55),
        config(saved_data="tensor", sonde_settings={"ring": 3}),
    )
    assert steps_in(dump) == [48, 49, 50], done.sonde_lines
    expected = np.load(tmp_path / "frozen.npy")
    for step in (48, 49, 50):
        found = dumps.tensors(dump, step)
        values = [value for (name, _, _), value in found.items() if name == "frozen_weight"]
        values += [v for (n, io, slot), v in found.items() if "frozen-Linear" in n and io == "input" and slot == 1]
        assert len(values) == 2, (step, sorted(found))
        for value in values:
            np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("saved_data", ["statistic", "tensor"])
def test_what_is_written_is_what_a_whole_dump_has(train, config, dump, tmp_path, saved_data):
    inside = "network.scale = float('nan') if step == 7 else 1.0"
    run(train, config, inside, steps=9, saved_data=saved_data)
    whole = tmp_path / "whole" / "dump"
    written = config(saved_data=saved_data, iteration="0-8", statistic_category=["max", "min", "nan count"])
    settings = json.loads(written.read_text())
    settings["common_dump_settings"]["path"] = str(whole)
    written.write_text(json.dumps(settings))
    train(training(inside, 9), written)
    if saved_data == "tensor":
        for step in (5, 6, 7):
            ring, all_of_it = dumps.tensors(dump, step), dumps.tensors(whole, step)
            assert ring.keys() == all_of_it.keys()
            for key, value in ring.items():
                np.testing.assert_array_equal(value, all_of_it[key], err_msg=str(key))
    else:
        volatile = {"Timestamp", "Task ID"}
        for step in (5, 6, 7):
            rows = [{k: v for k, v in row.items() if k not in volatile} for row in dumps.statistics(dump, step)]
            expected = [{k: v for k, v in row.items() if k not in volatile} for row in dumps.statistics(whole, step)]
            assert rows == expected


def test_an_infinity_in_a_gradient_writes(train, config, dump, sonde):
    run(train, config, "network.head.weight.register_hook(lambda g: g * float('inf')) if step == 5 else None", steps=8)
    assert steps_in(dump)[:3] == [3, 4, 5]
    assert any("the gradient head.weight.grad" in note for note in notes_of(sonde, dump)), notes_of(sonde, dump)


def test_a_parameter_that_becomes_infinite_writes(train, config, dump, sonde):
    inside = "network.head.weight.data.fill_(float('inf')) if step == 5 else None"
    run(train, config, inside, steps=8)
    assert steps_in(dump) == [3, 4, 5]
    assert any("infinity in the parameter head.weight" in note for note in notes_of(sonde, dump))


def test_a_nan_that_stays_is_written_once(train, config, dump, sonde):
    run(train, config, "network.head.weight.data.fill_(float('nan')) if step == 5 else None", steps=30)
    assert steps_in(dump) == [3, 4, 5]


def test_a_later_failure_writes_again_without_duplicates(train, config, dump, sonde):
    done = run(train, config, "network.scale = float('nan') if step in (5, 9) else 1.0; [p.data.nan_to_num_() for p in "
               "network.parameters()]", steps=14)  # fmt: skip
    assert steps_in(dump) == [3, 4, 5, 7, 8, 9], done.sonde_lines
    assert sonde("verify", dump).status == 0
    assert "written 2 times" in " ".join(notes_of(sonde, dump))


def test_failures_that_come_and_go_are_bounded(train, config, dump, sonde):
    inside = "network.scale = float('nan') if step % 4 == 3 else 1.0"
    inside += "; [p.data.nan_to_num_() for p in network.parameters()]"
    run(train, config, inside, steps=40, ring_writes=2)
    assert steps_in(dump) == [1, 2, 3, 5, 6, 7]
    assert any("ring_writes 2 is reached" in note for note in notes_of(sonde, dump))


def test_the_program_writes_it(train, config, dump, sonde):
    run(train, config, "step == 8 and print('wrote', __import__('sonde').write_ring('I asked'))", steps=12)
    assert steps_in(dump) == [5, 6, 7], "step 8 has not begun"
    assert any(note.endswith("I asked") for note in notes_of(sonde, dump))


def test_write_ring_says_that_there_is_none(train, config):
    done = train("import torch, sonde\nsonde.write_ring()", config())
    assert "the configuration has no sonde_settings.ring" in done.stderr
    done = train("import torch, sonde\nsonde.write_ring()")
    assert "no session is running" in done.stderr


def test_an_exception_that_ends_the_program_writes(train, config, dump, sonde):
    run(train, config, "assert step < 9, 'too far'")
    assert steps_in(dump) == [6, 7, 8]
    assert any("AssertionError: too far" in note for note in notes_of(sonde, dump))


def test_an_exception_that_is_caught_does_not(train, config, dump):
    inside = "exec('try:\\n  [][1]\\nexcept IndexError: pass')"
    run(train, config, inside)
    assert steps_in(dump) == []


def test_the_signal_writes_and_the_training_goes_on(train, config, dump, sonde):
    done = run(train, config, "step == 9 and (os.kill(os.getpid(), signal.SIGUSR2), time.sleep(0.5))")
    assert "trained" in done.stdout
    assert steps_in(dump) == [6, 7, 8]
    assert any(note.endswith("SIGUSR2") for note in notes_of(sonde, dump))


def test_sigterm_loses_nothing_and_ends_the_program(train, config, dump, sonde):
    done = run(train, config, "step == 9 and (os.kill(os.getpid(), signal.SIGTERM), time.sleep(20))")
    assert done.status == -15, done.status
    assert steps_in(dump) == [6, 7, 8]
    assert any(note.endswith("SIGTERM") for note in notes_of(sonde, dump))


def test_the_programs_own_handler_of_sigterm_still_runs(train, config, dump):
    source = training("step == 9 and (os.kill(os.getpid(), signal.SIGTERM), time.sleep(0.5))").replace(
        "torch.manual_seed(0)",
        "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\n    torch.manual_seed(0)",
    )
    done = train(source, config(saved_data="statistic", sonde_settings={"ring": 3}))
    assert "mine" in done.stdout and "trained" in done.stdout
    assert steps_in(dump) == [6, 7, 8]


@pytest.mark.parametrize("layout", ["mindspore-2.0", "mindspore-1.2", "ge", "acl", "o0"])
def test_every_layout(train, config, dump, sonde, layout):
    done = train(
        training("network.scale = float('nan') if step == 6 else 1.0", 9),
        config(saved_data="tensor", sonde_settings={"ring": 2, "layout": layout}),
    )
    assert "trained" in done.stdout, done.stderr
    assert listed_steps(sonde, dump) in ([5, 6], [6, 7]), done.sonde_lines


def test_containers_of_all_tensors_of_an_op(train, config, dump, sonde):
    train(
        training("network.scale = float('nan') if step == 6 else 1.0", 9),
        config(saved_data="tensor", e2e=False, file_format="bin", sonde_settings={"ring": 2}),
    )
    assert listed_steps(sonde, dump) == [5, 6]
    assert sonde("verify", dump).status == 0


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"op_debug_mode": 3}, "op_debug_mode 3"), ({"op_debug_mode": 4}, "op_debug_mode 4")],
)
def test_what_cannot_be_combined_is_refused_by_one_line(train, config, dump, settings, why):
    done = train(training(), config(**settings, sonde_settings={"ring": 2}))
    errors = [line for line in done.stderr.splitlines() if "sonde_settings.ring" in line]
    assert len(errors) == 1 and why in errors[0], done.stderr
    assert not dump.exists()


def test_a_step_that_never_ends_is_bounded(train, config, dump, sonde):
    """260 MB of results, and a ring of 4 MiB: the step loses its beginning, and says so. The heap gets some holes."""
    source = """
        import resource
        import torch
        import sonde
        torch.set_num_threads(1)
        net = torch.nn.Linear(64, 64)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(256, 64)
        net(x).sum().backward()
        opt.step()
        y = net(x)
        for i in range(400):
            y = y + 1
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for i in range(4000):
            y = y + 1
        print("grew", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
        print("wrote", sonde.write_ring())
    """
    settings = {"ring": 3, "ring_bytes": 4 << 20}
    done = train(source, config(saved_data="tensor", sonde_settings=settings))
    assert int(done.stdout.split("grew ")[1].split()[0]) < 60, done.stdout
    assert any("without its first" in note for note in notes_of(sonde, dump)), notes_of(sonde, dump)
    verified = sonde("verify", dump)
    assert verified.status == 0, verified.stdout + verified.stderr


def test_the_memory_of_the_ring_is_flat(train, config):
    source = training(
        "step == 400 and globals().update(before=resident())\n"
        "        step == 1199 and print('grew', resident() - before)",
        1200,
    ).replace(
        "torch.manual_seed(0)",
        "resident = lambda: int(open('/proc/self/statm').read().split()[1]) * 4096 // 1000\n    torch.manual_seed(0)",
        1,
    )
    done = train(source, config(saved_data="tensor", sonde_settings={"ring": 3}))
    assert int(done.stdout.split("grew ")[1].split()[0]) < 3000, done.stdout
