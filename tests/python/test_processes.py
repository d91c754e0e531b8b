"""Programs of several processes: distributed training, workers, forks, second runs, and processes that end badly."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import dumps
import journal_reader
import numpy as np
import pytest
from conftest import SMALL_TRAINING
from processes import torchrun
from ranks import DISTRIBUTED, run_ranks

import sonde as package

COLLECTIVES = (
    DISTRIBUTED
    + """
    net(torch.ones(1, 2)).sum().backward()
    mine = torch.full((3,), rank + 1.0)

    total = mine.clone()
    dist.all_reduce(total)
    total.mul_(100)  # must not be taken for what the collective left

    later = mine.clone()
    work = dist.all_reduce(later, async_op=True)
    torch.ones(4).exp()
    work.wait()
    later.add_(0.5)

    sent = mine.clone()
    dist.broadcast(sent, src=1)
    parts = [torch.zeros(3), torch.zeros(3)]
    dist.all_gather(parts, mine)
    both = torch.zeros(6)
    dist.all_gather_into_tensor(both, mine)
    share = torch.zeros(3)
    dist.reduce_scatter_tensor(share, torch.arange(6.0) + rank)
    if rank == 0:
        dist.send(mine * 7, dst=1)
    else:
        received = torch.zeros(3)
        dist.recv(received, src=0)
        received.numpy()[:] = -1  # past every operator
        received.abs()
    dist.reduce_scatter(share, [mine, mine])
    dist.gather(mine, parts if rank == 0 else None, dst=0)
    dist.scatter(share, [mine, mine] if rank == 0 else None, src=0)
    dist.all_to_all_single(both, both.clone())
    torch.hypot(mine, mine, out=mine.clone())
    torch.max(mine[None], 0, out=(mine.clone(), torch.zeros(3, dtype=torch.int64)))
    from torch.distributed.fsdp import _fully_shard  # makes the operators
    torch.ops.fsdp.all_gather_copy_in([mine], torch.zeros(6), [3], 3, rank)
    torch.ops.fsdp.split_with_sizes_copy(both, [3, 3], 0, out=parts)
    torch.ops.fsdp.chunk_cat([mine], 0, 1, out=torch.zeros(1, 3))
    dist.barrier()
    optimizer.step()
    dist.destroy_process_group()
    print("trained", flush=True)
"""
)

PARALLEL = """
    import os, sys, torch
    import torch.distributed as dist
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    net = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.0001)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank())
    losses = []
    for step in range(3):
        optimizer.zero_grad()
        loss = net(torch.randn(5, 4)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    state = dict(net.state_dict(), losses=torch.stack(losses))
    torch.save({name: value.clone() for name, value in state.items()}, f"{sys.argv[1]}_{dist.get_rank()}.pt")
    dist.destroy_process_group()
    if sys.argv[1] == "bare":
        # Once in many runs PyTorch aborts while the interpreter ends: a thread of gloo still runs ("terminate called
        # without an active exception"). The test looks at what the reference computed, not at its end. A run with
        # Sonde ends as programs do.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
"""


@pytest.fixture
def two_ranks(execute, script, tmp_path):
    """two_ranks(source, config): two processes, as `torchrun --nproc-per-node 2 train.py` starts them."""

    def run(source, config=None, *arguments):
        options = ["--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
        command, environment = torchrun(tmp_path, *options)
        if config is not None:
            environment["MINDSPORE_DUMP_CONFIG"] = config
        return execute(*command, script(source), *arguments, OMP_NUM_THREADS=1, **environment)

    return run


def ranks_of(dump):
    return sorted(path.name for path in dump.iterdir())


@pytest.fixture(scope="module")
def collectives(tmp_path_factory):
    run = run_ranks(tmp_path_factory.mktemp("collectives"), COLLECTIVES, saved_data="full")
    assert run.status == 0 and run.stdout.count("trained") == 2, run.stderr
    return run


def test_collectives_are_recorded_with_what_they_read_and_what_they_left(collectives):
    run = collectives
    for rank in (0, 1):
        found = dumps.tensors(run.dump, rank=rank)

        def value(op, io, slot=0, found=found):
            return found[f"Default_{op}", io, slot].tolist()

        mine = [rank + 1.0] * 3
        assert value("allreduce_-op0", "input") == mine
        assert value("allreduce_-op0", "output") == [3] * 3
        assert value("mul_-op0", "input") == [3] * 3
        assert value("allreduce_-op1", "input") == mine
        assert value("allreduce_-op1", "output") == [3] * 3
        assert value("add_-op0", "output") == [3.5] * 3
        assert value("broadcast_-op0", "output") == [2] * 3
        assert value("allgather_-op0", "input", 2) == mine
        assert [value("allgather_-op0", "output", slot) for slot in (0, 1)] == [[1] * 3, [2] * 3]
        assert value("_allgather_base_-op0", "output") == [1, 1, 1, 2, 2, 2]
        assert value("_reduce_scatter_base_-op0", "output") == ([1, 3, 5] if rank == 0 else [7, 9, 11])
        assert not any("barrier" in name for name, _, _ in found)  # its tensor is fresh memory
    assert dumps.tensors(run.dump, rank=0)["Default_send-op0", "input", 0].tolist() == [7] * 3
    assert value("recv_-op0", "output") == [7] * 3
    assert value("abs-op0", "input") == [-1] * 3


ONLY_WRITTEN = {  # inputs
    "allgather_": (0, 1),
    "_allgather_base_": (0,),
    "_reduce_scatter_base_": (0,),
    "reduce_scatter_": (0,),
    "scatter_": (0,),
    "alltoall_base_": (0,),
    "hypot": (2,),
    "max": (1, 2),
    "all_gather_copy_in": (1,),
    "split_with_sizes_copy": (1, 2),
    "chunk_cat": (1,),
}


def test_arguments_that_only_receive_the_result_are_no_inputs(collectives):
    for rank, more in ((0, {"gather_": (0, 1)}), (1, {"recv_": (0,), "gather_": ()})):
        ops = {op.op_name: op for op in package.open(str(collectives.dump)).ops if op.rank == rank}
        for name, slots in {**ONLY_WRITTEN, **more}.items():
            op = ops[f"Default/{name}-op0"]
            assert tuple(t.slot for t in op.tensors if t.skipped == "only written") == slots, name
            assert all(not t.skipped for t in op.tensors if t.side == "output"), name
        for name in ("allreduce_", "broadcast_"):
            assert not any(t.skipped for t in ops[f"Default/{name}-op0"].tensors), name


def test_completed_collectives_are_in_the_journal_with_source_and_file(collectives, sonde):
    run = collectives
    shown = sonde("show", run.dump, "Default/allreduce_-op0:output.0", "--rank", "1", "--json")
    assert shown.status == 0, shown.stderr
    assert "allreduce_" in json.dumps(json.loads(shown.stdout))
    journal = journal_reader.read((run.dump / "rank_1/.dump_metadata/sonde/journal").read_bytes())
    names = {name["id"]: name["op_name"] for name in journal.runs[0].op_names}
    records = {names[record["op"]]: record for record in journal.runs[0].records if record["op"]}
    output = next(t for t in records["Default/allreduce_-op0"]["tensors"] if not t["is_input"])
    assert output["file"] and not output["skipped"]
    after = next(t for t in records["Default/mul_-op0"]["tensors"] if t["is_input"])
    assert after["content"] == output["content"]  # read once
    assert after["source"] == records["Default/allreduce_-op0"]["sequence"]


def test_collectives_say_their_group_and_their_reduction(collectives):
    ops = [op for op in package.open(str(collectives.dump)).ops if op.rank == 1]
    ops = {op.op_name.rpartition("/")[2]: op.attributes for op in ops}
    group = {"process_group": "0", "group_ranks": "[0, 1]"}
    assert group.items() <= ops["broadcast_-op0"].items()
    assert (group | {"reduce_op": "SUM"}).items() <= ops["allreduce_-op0"].items()


def test_ranks_that_call_the_same_collectives_have_no_finding(collectives, sonde):
    found = sonde("verify", collectives.dump, "--ranks", "--json")
    assert found.status == 0, found.stdout
    answer = json.loads(found.stdout)
    assert answer["issues"] == [] and answer["collectives"] > 12


def test_ranks_gathered_under_a_wrong_name_or_without_one_of_them_are_named(collectives, sonde, tmp_path):
    for number, source in ((0, 0), (1, 0)):
        shutil.copytree(collectives.dump / f"rank_{source}", tmp_path / "wrong" / f"rank_{number}")
    found = sonde("verify", tmp_path / "wrong", "--ranks")
    assert found.status == 1 and "run 0 is of rank 0, and lies in the directory of rank 1" in found.stdout
    shutil.copytree(collectives.dump / "rank_1", tmp_path / "alone" / "rank_1")
    found = sonde("verify", tmp_path / "alone", "--ranks")
    assert found.status == 3 and "lacks 1 rank that takes part in collectives, 0:" in found.stdout


def test_the_rank_that_did_not_arrive_is_named(tmp_path, sonde):
    run = run_ranks(
        tmp_path,
        DISTRIBUTED
        + """
    net(torch.ones(1, 2)).sum().backward()
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        dist.all_reduce(torch.ones(3), async_op=True)
    torch.ones(3).exp()
    import sonde
    sonde.stop()
    os._exit(0)
    """,
        saved_data="statistic",
    )
    found = sonde("verify", run.dump, "--ranks", "--json")
    assert found.status == 1, run.stderr + found.stdout
    (issue,) = json.loads(found.stdout)["issues"]
    assert (issue["kind"], issue["rank"]) == ("collective", 1)
    late = "rank 1 did not arrive at call 2 of group 0 (ranks 0, 1), where rank 0 waits (Default/allreduce_-op1 "
    assert issue["message"].startswith(late) and "its last operator is Default/exp-op0" in issue["message"]


def test_data_parallel_training_is_the_same_bit_for_bit_and_its_gradients_are_reduced(two_ranks, config, tmp_path):
    torch = pytest.importorskip("torch")
    bare = two_ranks(PARALLEL, None, "bare")
    assert bare.status == 0, bare.stderr
    run = two_ranks(PARALLEL, config(saved_data="tensor", support_device=[0, 1]), "watched")
    assert run.status == 0, run.stderr
    reduced = []
    for rank in (0, 1):
        without, watched = (torch.load(tmp_path / f"{name}_{rank}.pt") for name in ("bare", "watched"))
        assert all(torch.equal(without[name], watched[name]) for name in without)
        assert dumps.steps(run.dump, rank=rank) == [0, 1, 2]
        found = dumps.tensors(run.dump, rank=rank, iteration=2)
        names = sorted(name for name, io, _ in found if "allreduce_" in name and io == "output")
        assert len(names) > 1  # buckets
        ops = [
            op for op in package.open(str(run.dump)).ops if (op.rank, op.step, op.op_type) == (rank, 2, "allreduce_")
        ]
        buckets = " ".join(op.attributes["called_by"] for op in ops)
        assert all(f"DDP bucket {number}: " in buckets for number in range(len(names)))
        assert all(name in buckets for name in ("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"))
        assert [op.call_number for op in ops] == list(range(ops[0].call_number, ops[0].call_number + len(ops)))
        reduced.append([found[name, "output", 0] for name in names])
        gradient = found["module_0_weight_grad", "output", 0]
        assert any(gradient.ravel()[0] in bucket for bucket in reduced[-1])
    assert all(np.array_equal(*pair) for pair in zip(*reduced, strict=True))


def test_operators_of_a_library_s_hook_on_gradients_have_the_hook_s_line_and_no_layer(train, config, sonde):
    """DDP calls it after the gradient of the last parameter of a bucket, which may be of any layer."""
    run = train(
        """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
    net.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()
    dist.destroy_process_group()
    """,
        config(saved_data="statistic"),
    )
    assert run.status == 0, run.stderr
    listed = sonde("ls", "--ops", run.dump).stdout
    ops = [line for line in listed.splitlines() if line.split()[1] in ("to", "div_", "allreduce_")]
    assert len(ops) >= 3, listed  # the cast back may run on another thread
    assert not any("Linear" in op for op in ops), listed
    assert sum("default_hooks.py" in op and "fp16_compress_hook" in op for op in ops) >= 3, listed
    assert all(".py:" in line for line in listed.splitlines() if line.split()[1] == "copy_"), listed


@pytest.fixture(scope="module")
def functional(tmp_path_factory):
    run = run_ranks(
        tmp_path_factory.mktemp("functional"),
        DISTRIBUTED
        + """
    functional = torch.ops._c10d_functional
    net(torch.ones(1, 2)).sum().backward()
    total = functional.all_reduce(torch.full((3,), rank + 1.0), "sum", dist.group.WORLD.group_name)
    views = [total.view(3, 1), total[1:].view(2, 1), *total.chunk(3), total.expand(2, 3), total.view_as(torch.ones(3))]
    (functional.wait_tensor(views[2]) + 1).sum()
    alone = functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD.group_name).unsqueeze(0)
    optimizer.step()
    del alone
    dist.destroy_process_group()
    """,
        saved_data="full",
    )
    assert run.status == 0, run.stderr
    return run


def test_functional_collectives_have_their_values_when_they_were_waited_for(functional):
    found = dumps.tensors(functional.dump, rank=1)
    assert found["Default_all_reduce-op0", "output", 0].tolist() == [3.0] * 3
    waited = [array.tolist() for (name, io, _), array in found.items() if "wait_tensor" in name and io == "output"]
    assert waited == [[3.0]]


def test_views_of_what_a_collective_has_not_written_yet_get_their_values_with_it(functional, sonde):
    ops = {op.op_name: op for op in package.open(str(functional.dump)).ops if op.rank == 1}
    makers = {"view-op0": "all_reduce-op0", "slice-op0": "all_reduce-op0", "view-op1": "slice-op0"}
    makers |= dict.fromkeys(("chunk-op0", "expand-op0", "view_as-op0"), "all_reduce-op0")
    (run,) = journal_reader.read((functional.dump / "rank_1/.dump_metadata/sonde/journal").read_bytes()).runs
    names = {name["id"]: name["op_name"] for name in run.op_names}
    numbers = {names[record["op"]]: record["sequence"] for record in run.records if record["op"]}
    sources = {names[record["op"]]: record["tensors"][0]["source"] for record in run.records if record["tensors"]}
    for name, maker in makers.items():
        tensors = ops[f"Default/{name}"].tensors
        assert [t.side for t in tensors][:2] == ["input", "output" if name != "view_as-op0" else "input"], name
        assert not any(t.skipped for t in tensors) and tensors[0].statistics.max == 3, name
        assert sources[f"Default/{name}"] == numbers[f"Default/{maker}"], name
    assert {t.skipped for t in ops["Default/unsqueeze-op0"].tensors} == {"a collective that nobody waited for"}
    found = sonde("first-bad", functional.dump, "--json")
    assert found.status == 0, found.stdout


def test_a_collective_nobody_waits_for_does_no_harm(tmp_path):
    run = run_ranks(
        tmp_path,
        DISTRIBUTED
        + """
    kept = []
    for step in range(2):
        net(torch.ones(1, 2)).sum().backward()
        if rank == 0:
            kept.append(dist.irecv(torch.zeros(2), src=1))
            dist.all_reduce(torch.ones(2), async_op=True)
        else:
            dist.isend(torch.ones(2), dst=0).wait()
            dist.all_reduce(torch.ones(2))
        optimizer.step()
    for work in kept:  # an unfinished receive at the end of the process hangs PyTorch itself, now and then
        work.wait()
    dist.barrier()
    print("trained", flush=True)
    """,
        saved_data="tensor",
    )
    assert run.stdout.count("trained") == 2, run.stderr
    assert len(run.sonde_lines) == 2, run.stderr
    assert dumps.steps(run.dump, rank=0) == [0, 1]


def test_a_killed_process_leaves_what_it_had_written(script, config, dump, sonde, tmp_path):
    source = SMALL_TRAINING.replace("range(3)", "range(100000)")
    process = subprocess.Popen(
        [sys.executable, script(source)],
        env={**os.environ, "MINDSPORE_DUMP_CONFIG": str(config(saved_data="full"))},
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    table = dumps.step_directory(dump, 3) / "statistic.csv"
    deadline = time.monotonic() + 60
    while not table.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    (going_on,) = json.loads(sonde("first-bad", dump, "--json").stdout)["unfinished"]
    assert going_on["state"] == "running" and going_on["step"] >= 3
    process.send_signal(signal.SIGKILL)
    process.wait()
    (ended,) = json.loads(sonde("first-bad", dump, "--json").stdout)["unfinished"]
    assert ended["state"] == "killed" and ended["step"] >= going_on["step"]
    said = sonde("first-bad", dump)
    assert said.status == 3
    assert said.stdout.startswith("nothing found in what was recorded: "), said.stdout
    where = "in" if ended["in_step"] else "after"
    assert said.stdout.splitlines()[0].endswith(f"; the run was killed {where} step {ended['step']}"), said.stdout
    answer = said.stdout.splitlines()[1]
    assert f"The last complete step is {ended['complete_step']}; " in answer
    assert f"--iteration {ended['complete_step'] + 1}-N" in answer
    earlier = sonde("first-bad", dump, "--json", "--step", 0)  # that step is complete
    assert (earlier.status, json.loads(earlier.stdout)["unfinished"]) == (0, [])
    for verb in (["watch", dump, "-c", "tensor_overflow"], ["stats", dump], ["compare", dump, dump], ["stomp", dump]):
        done = sonde(*verb)
        assert (done.status, "nothing wrong" in done.stdout, "no difference" in done.stdout) == (3, False, False), verb
        assert f"the run was killed, or could not write its end, {where} step {ended['step']}" in done.stderr, verb
    for verb in (["watch", dump, "-c", "tensor_overflow"], ["stats", dump]):
        assert sonde(*verb, "--step", 0).status == 0, verb
    listed = sonde("ls", dump, "--json")
    assert listed.status == 0, listed.stderr
    for step in range(3):
        found = dumps.tensors(dump, step)
        rows = [row for row in dumps.statistics(dump, step) if row["Op Name"].startswith("Default/")]
        assert len(found) >= len(rows) > 20
        assert found["Default_network-Small_conv-Conv2d_conv2d-op0", "output", 0].shape == (2, 4, 6, 6)


@pytest.mark.cold
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("raise RuntimeError('mid-step')", 1),
        ("import sys; sys.exit(3)", 3),
        ("import os, time; time.sleep(0.5); os._exit(4)", 4),
    ],
)
def test_what_ran_before_a_process_ended_in_mid_step_is_there(train, config, end, status):
    source = SMALL_TRAINING.replace("loss.backward()", f"loss.backward()\n        if step == 2:\n            {end}")
    run = train(source, config(saved_data="full"))
    assert run.status == status
    steps = dumps.steps(run.dump)
    if status == 4:  # no code of ours runs: files that the writer had not finished are missing
        assert steps[:2] == [0, 1]
        return
    assert steps == [0, 1, 2]
    assert ("Default_network-Small_fc-Linear_linear-op0", "output", 0) in dumps.tensors(run.dump, 2)
    assert any("recorded" in line for line in run.sonde_lines), run.stderr


FORKED = (
    SMALL_TRAINING.replace("range(3)", "range(4)")
    .replace(
        "loss.backward()",
        """loss.backward()
        if step == 1:
            child = os.fork()
            if child == 0:
                for _ in range(3):
                    optimizer.step()
                    network(torch.randn(2, 1, 8, 8)).square().mean().backward()
                print("child trained", flush=True)
                {end}
            assert os.waitpid(child, 0)[1] == 0""",
    )
    .replace("import torch\n", "import os, sys, torch\n", 1)
)


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "raise SystemExit"])
def test_a_child_forked_in_mid_step_is_recorded_beside_its_parent(train, config, end):
    run = train(FORKED.replace("{end}", end), config(saved_data="full"))
    assert run.status == 0 and "child trained" in run.stdout, run.stderr
    assert dumps.steps(run.dump) == [0, 1, 2, 3]
    whole = dumps.statistics(run.dump, 2)
    assert [row["Op Name"] for row in dumps.statistics(run.dump, 1)] == [row["Op Name"] for row in whole]
    assert len(dumps.tensors(run.dump, 1)) == len(dumps.tensors(run.dump, 2))
    assert ranks_of(run.dump) == ["rank_0", "rank_1"]
    if end == "os._exit(0)":  # no code of ours runs at its end
        return
    assert sum("recorded" in line for line in run.sonde_lines) == 2, run.stderr
    taken = [line for line in run.sonde_lines if "belongs to another process of rank 0" in line]
    assert len(taken) == 1 and taken[0].endswith("rank_1 is the next free one"), run.stderr
    assert len(dumps.steps(run.dump, rank=1)) >= 3


def test_a_child_can_record_a_dump_of_its_own(train, config, dump, tmp_path):
    child = f"""
                import sonde
                sonde.start(sonde.session.settings({str(tmp_path / "child")!r}))
                for _ in range(3):
                    network(torch.randn(2, 1, 8, 8)).square().mean().backward()
                    optimizer.step()
                sonde.stop()
                os._exit(0)"""
    run = train(FORKED.replace("{end}", child.strip()), config())
    assert run.status == 0, run.stderr
    assert dumps.steps(dump) == [0, 1, 2, 3]
    assert dumps.steps(tmp_path / "child") == [0, 1, 2]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_that_load_data_do_not_record(train, config, method):
    run = train(
        f"""
        import os, torch
        from torch import nn
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                return torch.full((2,), float(i)).square() + 0 * os.getpid()

        if __name__ == "__main__":
            torch.set_num_threads(1)
            net = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            loader = DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context="{method}")
            for batch in loader:
                net(batch).sum().backward()
                optimizer.step()
            print("trained")
        """,
        config(),
    )
    assert run.status == 0 and "trained" in run.stdout, run.stderr
    assert dumps.steps(run.dump) == [0, 1]
    assert not any("square" in row["Op Name"] for row in dumps.statistics(run.dump))
    assert len(run.sonde_lines) == 1


def test_a_program_the_training_calls_is_recorded_beside_it(train, config):
    """It inherits the variable; the directory has a living owner, and Sonde reports it."""
    called = SMALL_TRAINING.replace("range(3)", "range(1)")
    source = (
        SMALL_TRAINING
        + f"""
    import subprocess, sys, textwrap
    done = subprocess.run([sys.executable, "-c", textwrap.dedent({called!r})], capture_output=True, text=True)
    print("called:", done.returncode, done.stdout, done.stderr)
    """
    )
    run = train(source, config())
    assert "called: 0 trained" in run.stdout
    said = [line for line in run.stdout.splitlines() if "sonde" in line]
    assert any(f"{run.dump}/rank_0 belongs to another process" in line for line in said), run.stdout
    assert dumps.steps(run.dump) == [0, 1, 2]
    assert dumps.steps(run.dump, rank=1) == [0]


def test_a_second_run_into_the_same_path_is_appended(train, config, sonde):
    first = config(saved_data="full", iteration="0")
    train(config=first)
    before = dumps.tensors(config and train(config=config(saved_data="full", iteration="1")).dump, 0)
    listed = sonde("ls", train(config=first).dump)
    assert listed.status == 0 and before
    run = train(config=config(saved_data="full", iteration="2"))
    assert dumps.steps(run.dump) == [0, 1, 2]
    journal = journal_reader.read((run.dump / "rank_0/.dump_metadata/sonde/journal").read_bytes())
    assert len(journal.runs) == 4 and journal.torn_bytes == 0


@pytest.mark.cold
def test_the_interpreter_waits_at_its_end_for_what_is_still_to_be_written(train, config):
    run = train(
        """
        import torch
        from torch import nn
        torch.set_num_threads(1)
        net = nn.Linear(1000, 1000)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.randn(1000, 1000)).sum().backward()
        optimizer.step()
        """,
        config(saved_data="tensor"),
    )
    assert run.status == 0
    found = dumps.tensors(run.dump)
    written = sum(array.nbytes for array in found.values())
    assert written > 40e6
    assert not list((run.dump / "rank_0/.dump_metadata/sonde/partial").glob("*/*"))
