"""`sonde run --prove`: equal results count as equal, and differences are found and named."""

import json
import random
import textwrap

import dumps
import pytest
from conftest import SMALL_TRAINING
from processes import python, torchrun


@pytest.fixture
def prove(sonde, script, dump):
    """prove(source, *options): the verdict on a program, recorded with tensors of everything."""

    def run(source=SMALL_TRAINING, *options, **environment):
        path = script(source)
        saved = ("--saved-data", "full")
        return sonde(
            "run", "--prove", *options, "--out", dump, *saved, "--", *python(), path, timeout=280, **environment
        )

    return run


def training(inside="", before="", steps=3):
    """A small training with `inside` run in each step before the backward."""
    return textwrap.dedent(
        """
        import os
        import torch
        from torch import nn
        torch.manual_seed(0)
        torch.set_num_threads(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        recording = "SONDE_CONFIG" in os.environ
        {before}
        for step in range({steps}):
            optimizer.zero_grad()
            loss = model(torch.randn(3, 4)).square().mean()
            {inside}
            loss.backward()
            optimizer.step()
        """
    ).format(before=before, inside=inside, steps=steps)


def test_a_training_is_proved_identical_and_recorded(prove, dump):
    run = prove()
    assert run.status == 0, run.stdout + run.stderr
    assert run.stdout.startswith("identical bit for bit: 3 steps, ")
    for kind in ("parameters", "gradients", "buffers", "optimizer state", "losses", "outputs", "random states"):
        assert kind in run.stdout
    assert "stdout identical; exit status 0 both times" in run.stdout
    assert "twice" in run.stderr
    assert "recorded 153 ops" in run.stderr
    assert dumps.steps(dump) == [0, 1, 2]


def test_the_observer_itself_is_not_recorded(sonde, script, tmp_path):
    def ops(*options):
        out = tmp_path / f"dump{len(options)}"
        run = sonde("run", *options, "--out", out, "--", *python(), script())
        assert run.status == 0, run.stderr
        return [json.loads(line) for line in sonde("ls", out, "--ops", "--jsonl").stdout.splitlines()]

    recorded = ops()
    assert len(recorded) > 40
    assert ops("--prove") == recorded


def test_a_planted_difference_is_found_and_named(prove):
    run = prove(training(inside="if recording and step == 1: loss = loss * (1 + 1e-6)"))
    assert run.status == 1, run.stdout
    assert run.stdout.startswith("different: ")
    assert "step 1, backward: loss loss" in run.stdout
    assert "twice without Sonde it does not" in run.stdout
    assert "report" in run.stdout


def test_a_difference_in_one_gradient_bit_is_named_by_step_and_tensor(prove):
    inside = "if recording and step == 2: model[2].bias.register_hook(lambda g: torch.nextafter(g, g + 1))"
    run = prove(training(inside=inside), "--json")
    assert run.status == 1, run.stdout
    verdict = json.loads(run.stdout)
    first = verdict["compared"]["first_difference"]
    assert verdict["verdict"] == "different"
    assert first["place"] == "step 2, after SGD.step"
    assert (first["kind"], first["name"]) in {("parameter", "Sequential.2.bias"), ("gradient", "Sequential.2.bias")}
    assert verdict["compared"]["steps"] == 2


def test_a_number_drawn_more_is_seen_in_the_random_state(prove):
    run = prove(training(inside="torch.rand(1) if recording else None", steps=1), "--json")
    assert run.status == 1
    assert json.loads(run.stdout)["compared"]["first_difference"]["kind"] == "random state"


def test_the_generators_of_torch_python_and_numpy_are_all_observed():
    import numpy
    import torch

    from sonde import adapter
    from sonde.prove import Event

    def states():
        event = Event(adapter.load())
        event.add_random_numbers()
        return {name: digest for _, name, _, digest in event.values}

    torch.manual_seed(0), random.seed(0), numpy.random.seed(0)
    draws = {"torch": lambda: torch.rand(1), "Python": random.random, "NumPy": numpy.random.rand}
    for generator, draw in draws.items():
        before = states()
        draw()
        after = states()
        assert before.keys() == draws.keys()
        assert [name for name in draws if before[name] != after[name]] == [generator]


def test_a_program_that_is_random_by_itself_is_said_to_be(prove):
    run = prove(SMALL_TRAINING.replace("torch.manual_seed(0)", "torch.seed()"))
    assert run.status == 3, run.stdout
    assert run.stdout.startswith("not deterministic: ")
    assert "step 0" in run.stdout
    assert "once more without Sonde" in run.stderr


def test_a_difference_before_the_program_becomes_random_is_still_found(prove):
    inside = "loss = loss * 1.5 if recording and step == 0 else loss; step == 1 and torch.seed()"
    run = prove(training(inside=inside))
    assert run.status == 1, run.stdout
    assert "step 0, backward" in run.stdout


def test_times_in_the_output_are_reported_and_do_not_spoil_the_proof(prove):
    run = prove("import time; print('begin', flush=True); print(time.time_ns())" + training())
    assert run.status == 0, run.stdout
    assert "stdout identical except for line 2" in run.stdout
    assert "3 steps" in run.stdout


def test_a_line_of_output_that_only_the_recorded_run_prints_is_a_difference(prove):
    run = prove(training(before="print('recording' if recording else 'not')"))
    assert run.status == 1, run.stdout
    assert "stdout differs in line 1" in run.stdout


def test_a_program_that_fails_the_same_way_twice_is_identical(prove):
    run = prove(training(inside="assert step < 2, 'the program\\'s own'"))
    assert run.status == 0, run.stdout
    assert "exit status 1 both times" in run.stdout
    assert "2 steps" in run.stdout
    assert run.stderr.count("AssertionError: the program's own") == 2


def test_a_program_that_fails_only_when_recorded_is_a_difference(prove):
    run = prove(training(inside="assert not (recording and step == 1)"))
    assert run.status == 1, run.stdout
    assert "exit status 0 without Sonde, 1 recording" in run.stdout


def test_a_program_killed_by_itself_is_compared_up_to_there(prove):
    run = prove(training(inside="step == 2 and os.kill(os.getpid(), 9)"))
    assert run.status == 0, run.stdout
    assert "2 steps" in run.stdout
    assert "exit status 137 both times" in run.stdout


def test_a_program_without_torch_is_compared_by_what_it_prints(prove):
    run = prove("print('done')")
    assert run.status == 0
    assert "identical: stdout identical; exit status 0 both times; no tensors were seen" in run.stdout
    assert "nothing was recorded" in run.stdout


def test_a_program_without_torch_that_prints_something_else_each_time(prove):
    run = prove("import os; print(os.urandom(8))")
    assert run.status == 3
    assert "not deterministic" in run.stdout


def test_a_bad_configuration_stops_before_the_first_run(sonde, config, tmp_path):
    run = sonde("run", "--prove", "--config", config(dump_mode=5), "--", "touch", tmp_path / "launched")
    assert run.status == 2
    assert "dump_mode" in run.stderr
    assert not (tmp_path / "launched").exists()


def test_json_belongs_to_prove(sonde, dump):
    run = sonde("run", "--json", "--out", dump, "--", "true")
    assert run.status == 2
    assert "--prove" in run.stderr


def test_when_recording_does_not_start_nothing_is_proved(prove):
    refusing = "import sonde; sonde._core.start = lambda path: (False, 'planted')\n"
    run = prove(refusing + textwrap.dedent(SMALL_TRAINING))
    assert run.status == 2, run.stdout
    assert "nothing is proved: recording did not start" in run.stdout
    assert "planted" in run.stderr


def test_a_command_that_does_not_exist_is_named(sonde, dump):
    run = sonde("run", "--prove", "--out", dump, "--", "no-such-command")
    assert run.status == 127
    assert "no-such-command" in run.stderr


def test_inference_is_compared_by_the_outputs_of_each_forward(prove):
    source = """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        with torch.inference_mode():
            for i in range(5):
                model(torch.randn(2, 4))
    """
    run = prove(source, "--json")
    assert run.status == 0, run.stdout
    compared = json.loads(run.stdout)["compared"]
    assert (compared["steps"], compared["events"]) == (0, 6)
    assert {"output", "random state"} <= set(compared["kinds"])


def test_tensors_of_all_kinds_are_read_or_skipped_with_a_word(prove):
    source = """
        import torch
        from torch import nn


        class Odd(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

            @classmethod
            def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
                return NotImplemented


        class Net(nn.Module):
            def forward(self, x):
                tensors = [torch.arange(6).to(dtype) for dtype in (
                    torch.bool, torch.int8, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16,
                    torch.float64, torch.float8_e4m3fn, torch.complex64)]
                return {
                    "kinds": tensors, "transposed": x.t(), "gaps": x[::2, ::2], "one": x.expand(4, 4, 4),
                    "conjugated": tensors[-1].conj(), "empty": torch.empty(0),
                    "sparse": x.to_sparse(), "odd": Odd(x), "meta": torch.empty(3, device="meta"), "word": "none",
                }


        print(sorted(Net()(torch.ones(4, 4))))
    """
    run = prove(source, "--json")
    assert run.status == 0, run.stdout + run.stderr
    compared = json.loads(run.stdout)["compared"]
    assert compared["tensors"] == 15
    assert compared["skipped"] == {"sparse tensor": 1, "tensor subclass or fake tensor": 1, "meta tensor": 1}


def test_forked_children_and_threads_are_compared_too(prove):
    source = """
        import os, sys, threading
        import torch
        from torch import nn


        def train(seed):
            generator = torch.Generator().manual_seed(seed)
            model = nn.Linear(2, 2)
            with torch.no_grad():
                model.weight.copy_(torch.rand(2, 2, generator=generator))
                model.bias.zero_()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()


        thread = threading.Thread(target=train, args=(1,), name="trainer")
        thread.start()
        thread.join()
        for child in range(2):
            pid = os.fork()
            if pid == 0:
                train(2 + child)
                os._exit(0)
            os.waitpid(pid, 0)
        train(5)
    """
    run = prove(source, "--json")
    assert run.status == 0, run.stdout + run.stderr
    compared = json.loads(run.stdout)["compared"]
    assert compared["processes"] == ["main", "main-child1", "main-child2", "trainer"]
    assert compared["steps"] == 8


def test_a_thread_that_has_ended_holds_no_file_open(prove):
    source = """
        import os, threading
        import torch


        def backward():
            torch.ones(1, requires_grad=True).sum().backward()


        for _ in range(100):
            thread = threading.Thread(target=backward, name="short")
            thread.start()
            thread.join()
        assert len(os.listdir("/proc/self/fd")) < 60
    """
    run = prove(source, "--json")
    assert run.status == 0, run.stdout + run.stderr
    found = json.loads(run.stdout)
    assert found["exit_status"] == {"without_sonde": 0, "recording": 0}
    assert len(found["compared"]["processes"]) == 101


def test_every_rank_of_torchrun_is_compared(sonde, script, dump):
    source = """
        import os
        import torch
        import torch.distributed as dist
        from torch import nn
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        torch.set_num_threads(1)
        model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
        print("rank", dist.get_rank(), flush=True)
        dist.destroy_process_group()
    """
    command, environment = torchrun(dump.parent, "--standalone", "--nproc-per-node", "2", script(source))
    run = sonde("run", "--prove", "--out", dump, "--", *command, timeout=280, **environment)
    assert run.status == 0, run.stdout + run.stderr
    assert run.stdout.startswith("identical bit for bit: 2 processes, 6 steps, ")


SHARDED_TRAINING = """
    import os
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4), nn.Linear(4, 2))
    parallelize_module(model[:3], mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model[3])
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(2, 4)).sum().backward()
        if "SONDE_CONFIG" in os.environ and step == 1 and dist.get_rank() == 1:
            model[0].weight.grad.to_local()[0, 0] += 1e-6
        optimizer.step()
    dist.destroy_process_group()
"""


def test_the_local_part_of_each_rank_is_compared(sonde, script, dump):
    command, environment = torchrun(dump.parent, "--standalone", "--nproc-per-node", "2", script(SHARDED_TRAINING))
    run = sonde("run", "--prove", "--json", "--out", dump, "--", *command, timeout=280, **environment)
    assert run.status == 1, run.stdout + run.stderr
    compared = json.loads(run.stdout)["compared"]
    assert compared["skipped"] == {}
    assert len(compared["processes"]) == 2
    first = compared["first_difference"]
    assert (first["process"], first["place"]) == ("rank 1", "step 1, after Adam.step")
    assert (first["kind"], first["name"]) == ("gradient", "Sequential.0.weight._local_tensor")


def two_processes(first, second):
    """A training in two processes, one after the other; each is a rank, and writes what is given for it."""
    before = f"""
        import subprocess, sys
        if "RANK" not in os.environ:
            for rank in (1, 0) if recording else (0, 1):
                subprocess.run([*{python()!r}, __file__], env={{**os.environ, "RANK": str(rank)}}, check=True)
            raise SystemExit
        sys.stdout.write(({first!r}, {second!r})[int(os.environ["RANK"])])
    """
    return training(before=textwrap.dedent(before), steps=1)


@pytest.mark.parametrize(
    ("first", "second", "reordered"),
    [("of one\n", "of two\n", "lines"), ("a piece, ", "the end\n", "characters")],
)
def test_another_order_of_what_several_processes_write_is_not_a_difference(prove, first, second, reordered):
    run = prove(two_processes(first, second), "--json")
    assert run.status == 0, run.stdout + run.stderr
    found = json.loads(run.stdout)
    assert {"rank 0", "rank 1"} <= set(found["compared"]["processes"])
    assert found["stdout"]["reordered"] == reordered
    assert found["stdout"]["different"] == []


def test_the_order_of_what_one_process_writes_is_a_difference(prove):
    source = training(before="print(*('ab' if recording else 'ba'), sep=chr(10))", steps=1)
    run = prove(source, "--json")
    assert run.status == 1, run.stdout + run.stderr
    stdout = json.loads(run.stdout)["stdout"]
    assert stdout["different_by_sonde"] == [1, 2]
    assert stdout["reordered"] is None


def test_another_line_of_several_processes_is_a_difference(prove):
    first = "of one\n"
    source = two_processes(first, "of two\n") + "\nprint('recorded' if recording else 'not recorded')\n"
    run = prove(source)
    assert run.status == 1, run.stdout + run.stderr
    assert "stdout differs in line 2, 4" in run.stdout
