"""`"replicas": "first"`: one rank writes what several have; the others name it, and find it there."""

import json
import shutil
import subprocess
import textwrap

import numpy as np
import pytest
import ranks
from processes import CLI, python, run_in

import sonde

REASON = "a copy; its file is that of rank 0"

DDP = (
    ranks.DISTRIBUTED
    + """
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=VIEW)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1, foreach=FOREACH)
    for step in range(3):
        SPOIL
        loss = net(torch.randn(8, 16) + rank).square().mean()
        optimizer.zero_grad(set_to_none=NONE)
        loss.backward()
        optimizer.step()
    print(rank, [parameter.sum().item() for parameter in net.parameters()])
    dist.destroy_process_group()
    """
)


def program(foreach=False, none=True, view=False, spoil="pass", source=DDP):
    values = {"FOREACH": foreach, "NONE": none, "VIEW": view, "SPOIL": spoil}
    for name, value in values.items():
        source = source.replace(name, str(value))
    return source


def recorded(directory, source, replicas="first", **settings):
    directory.mkdir()
    own = {"replicas": replicas} | settings.pop("sonde_settings", {})
    settings = {"saved_data": "full", "iteration": "all", "sonde_settings": own} | settings
    run = ranks.run_ranks(directory, source, **settings)
    assert run.status == 0, run.stderr
    return run


@pytest.fixture(scope="module", params=[(False, True, False), (True, True, True), (False, False, True)])
def both(request, tmp_path_factory):
    """With views of DDP's buckets gradients are in one memory from step to step, or for one step."""
    place = tmp_path_factory.mktemp("replicas")
    source = program(*request.param)
    return recorded(place / "all", source, "all"), recorded(place / "first", source)


def left_out(dump, rank):
    return [tensor for tensor in dump.tensors if tensor.rank == rank and tensor.skipped == REASON]


def bytes_of(rank):
    return sum(path.stat().st_size for path in rank.rglob("*.npy") if path.stat().st_nlink == 1)


def test_the_training_does_not_change(both):
    assert sorted(both[0].stdout.splitlines()) == sorted(both[1].stdout.splitlines())


def test_the_other_rank_names_what_the_first_has_written(both):
    dump = sonde.open(both[1].dump)
    assert not left_out(dump, 0)
    copies = left_out(dump, 1)
    names = {tensor.parameter for tensor in copies}
    assert {"module.0.weight", "module.2.bias", "exp_avg.module.0.weight"} <= names
    for tensor in copies:
        assert tensor.statistics is not None and len(tensor.md5) == 32
        assert "/rank_0/" in str(tensor.tensor_file)
    assert bytes_of(both[1].dump / "rank_1") < bytes_of(both[0].dump / "rank_1")


def test_only_what_is_equal_on_all_ranks_is_left_out(both):
    """Gradients are those of one rank until they are exchanged; before they are made they may be zero."""
    gradients = [one for one in left_out(sonde.open(both[1].dump), 1) if one.parameter.endswith(".grad")]
    assert not any(one.numpy().any() for one in gradients if one.op.phase == "backward")
    # "forward": the record of the gradient itself; "outside": the collective.
    assert {one.op.phase for one in gradients} <= {"optimizer", "forward", "outside", "backward"}


def test_every_value_is_that_of_a_dump_of_all(both):
    every, first = (sonde.open(run.dump) for run in both)
    assert len(every.tensors) == len(first.tensors)
    copies = 0
    for one, other in zip(every.tensors, first.tensors, strict=True):
        assert (one.rank, one.name, one.shape) == (other.rank, other.name, other.shape)
        assert (one.tensor_file is None) == (other.tensor_file is None)
        if one.tensor_file is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            copies += other.skipped == REASON
    assert copies > 40


def test_the_answers_are_those_of_a_dump_of_all(both):
    for question in (["first-bad"], ["stats"], ["verify"], ["verify", "--hashes", "--ranks"]):
        answers = [asked(*question, run.dump) for run in both]
        assert answers[0].returncode == answers[1].returncode == 0, answers
    assert asked("compare", both[1].dump, both[0].dump).returncode == 0


def asked(verb, *arguments):
    return subprocess.run([CLI, verb, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("first") / "run", program()).dump


def moved(first, place):
    shutil.copytree(first, place)
    shutil.rmtree(place / "rank_0")
    return place


def test_a_rank_alone_says_where_its_values_are(first, tmp_path):
    dump = moved(first, tmp_path / "dump")
    copies = left_out(sonde.open(dump), 1)
    assert copies and not any(tensor.tensor_file for tensor in copies)
    with pytest.raises(sonde.Error, match=REASON):
        copies[0].numpy()
    shown = asked("stats", dump)
    assert shown.returncode == 0
    assert f"{len(copies)} values of rank 1 are copies of those of rank 0, which are not here" in shown.stderr
    verified = asked("verify", dump)
    assert verified.returncode == 1
    assert "values are copies of those of rank 0, which is not here" in verified.stdout


def test_an_index_finds_the_values_where_they_are_now(first, tmp_path):
    for made_with_both in (True, False):
        dump = tmp_path / str(made_with_both)
        shutil.copytree(first, dump) if made_with_both else moved(first, dump)
        assert asked("index", dump, "--engine", "local").returncode == 0
        if made_with_both:
            shutil.rmtree(dump / "rank_0")
        else:
            shutil.copytree(first / "rank_0", dump / "rank_0")
        files = [tensor.tensor_file for tensor in left_out(sonde.open(dump), 1)]
        assert files
        assert all((file is None) == made_with_both for file in files)


def test_the_index_and_the_journal_say_the_same(first):
    answers = [
        subprocess.run(
            [CLI, "stats", "--json", str(first)],
            env={"SONDE_INDEX": index, "PATH": "/bin", "HOME": str(first.parent)},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for index in ("off", "auto")
    ]
    assert answers[0] == answers[1]
    assert REASON in answers[0]


def test_a_copy_that_is_not_equal_is_found(tmp_path):
    """On rank 1 a weight changes behind DDP's back, after the first step's update: before the next forward."""
    spoil = "net.module[0].weight.data[0, 0] += 1.0 if rank == 1 and step == 1 else 0.0"
    dump = recorded(tmp_path / "run", program(spoil=spoil)).dump
    verified = asked("verify", dump, "--json")
    assert verified.returncode == 1
    found = [issue for issue in json.loads(verified.stdout)["issues"] if issue["kind"] == "replica"]
    assert found
    assert {issue["rank"] for issue in found} == {1}
    assert {issue["step"] for issue in found} == {0, 1, 2}
    assert all("select" in issue["message"] for issue in found if issue["step"] == 0)
    assert any("module.0.weight" in issue["message"] for issue in found)
    assert not any("module.2" in issue["message"] for issue in found)


def issues_of(dump):
    return [issue for issue in json.loads(asked("verify", dump, "--json").stdout)["issues"] if issue["rank"] == 1]


def test_a_file_that_was_removed_is_missing_and_not_unequal(first, tmp_path):
    dump = shutil.copytree(first, tmp_path / "dump")
    gone = {path.stat().st_ino for path in dump.rglob("Parameter.module_0_weight*.npy")}
    for path in dump.rglob("rank_0/**/*.npy"):
        if path.stat().st_ino in gone or "module_0" in path.name or "optimizer" in path.name:
            path.unlink()
    issues = issues_of(dump)
    assert {issue["kind"] for issue in issues} == {"missing"}
    assert all("whose file is gone" in issue["message"] for issue in issues)


def test_what_the_first_rank_did_not_write_any_more_is_missing_and_not_unequal(first, tmp_path):
    """As if it had been killed in the last step."""
    dump = shutil.copytree(first, tmp_path / "dump")
    table = dump / "rank_0/.dump_metadata/sonde/replicas"
    table.chmod(0o600)
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if json.loads(line)["step"] < 2) + '{"graph":0,"st')
    issues = issues_of(dump)
    assert {(issue["kind"], issue["step"]) for issue in issues} == {("missing", 2)}
    assert all("nothing that is equal" in issue["message"] for issue in issues)


# --- what other ranks do not have -------------------------------------------------------------------------------------

ZERO = DDP.replace(
    "torch.optim.Adam(net.parameters(), lr=0.1, foreach=FOREACH)",
    "ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.1)",
).replace("    net = nn.Seq", "    from torch.distributed.optim import ZeroRedundancyOptimizer\n    net = nn.Seq")


def test_states_that_each_rank_has_a_part_of_are_written_by_each(tmp_path):
    source = program(source=ZERO)
    dump = sonde.open(recorded(tmp_path / "run", source).dump)
    states = [tensor for tensor in dump.tensors if tensor.parameter.startswith("exp_avg")]
    assert {tensor.rank for tensor in states} == {0, 1}
    assert all(tensor.tensor_file is not None for tensor in states)
    assert asked("verify", tmp_path / "run/dump").returncode == 0


# Each collective that gives all ranks the same: its call, and what it gives.
COLLECTIVES = {
    "allreduce_": ("dist.all_reduce(t)", "t"),
    "allreduce_coalesced_": ("dist.all_reduce_coalesced([t])", "t"),
    "allgather_": ("dist.all_gather(parts, t)", "parts[1]"),
    "_allgather_base_": ("dist.all_gather_into_tensor(whole, t)", "whole"),
    "allgather_coalesced_": ("dist.all_gather_coalesced([[part] for part in parts], [t])", "parts[1]"),
    "allgather_into_tensor_coalesced_": (
        "dist.group.WORLD.allgather_into_tensor_coalesced([whole], [t]).wait()",
        "whole",
    ),
    "broadcast_ of c10d": ("dist.broadcast(t, 1)", "t"),
    "all_reduce": ("t = wait(f.all_reduce(t, 'sum', name))", "t"),
    "all_reduce_": ("t = wait(f.all_reduce_(t, 'sum', name))", "t"),
    "all_reduce_coalesced": ("t = wait(f.all_reduce_coalesced([t], 'sum', name)[0])", "t"),
    "all_reduce_coalesced_": ("t = wait(f.all_reduce_coalesced_([t], 'sum', name)[0])", "t"),
    "all_gather_into_tensor": ("whole = wait(f.all_gather_into_tensor(t, 2, name))", "whole"),
    "all_gather_into_tensor_out": ("whole = wait(f.all_gather_into_tensor_out(t, 2, name, out=whole))", "whole"),
    "all_gather_into_tensor_coalesced": ("whole = wait(f.all_gather_into_tensor_coalesced([t], 2, name)[0])", "whole"),
    "broadcast": ("t = wait(f.broadcast(t, 1, name))", "t"),
    "broadcast_": ("t = wait(f.broadcast_(t, 1, name))", "t"),
}
# Those that give some ranks nothing, or each its own.
OTHERS = {
    "reduce_": ("dist.reduce(t, 0)", "t"),
    "reduce_scatter_": ("dist.reduce_scatter(own, list(whole.chunk(2)))", "own"),
    "scatter_": ("dist.scatter(own, list(whole.chunk(2)) if rank == 0 else None, 0)", "own"),
    "alltoall_base_": ("dist.all_to_all_single(whole, whole + 1)", "whole"),
    "reduce_scatter_tensor": ("own = wait(f.reduce_scatter_tensor(whole, 'sum', 2, name))", "own"),
    "all_to_all_single": ("whole = wait(f.all_to_all_single(whole, [1, 1], [1, 1], name))", "whole"),
}


TYPES = {name.split()[0] for name in COLLECTIVES}


def calls(table):
    """A program that uses what each of them gives."""
    lines = [
        "loss = net(torch.ones(3, 2)).sum()",
        "f, wait = torch.ops._c10d_functional, torch.ops._c10d_functional.wait_tensor",
        "name = dist.group.WORLD.group_name",
    ]
    for number, (call, given) in enumerate(table.values()):
        lines += [
            f"t = torch.full((1, 512), 100.0 * {number} + rank + 1)",
            f"own, whole = torch.zeros(1, 512), torch.full((2, 512), 7000.0 + {number} + rank)",
            "parts = [torch.zeros(1, 512), torch.zeros(1, 512)]",
            call,
            f"{given}.mul(3.0)",
        ]
    lines.append("loss.backward()")
    lines.append("optimizer.step()")
    return ranks.DISTRIBUTED + textwrap.indent("\n".join(lines), "    ") + "\n    dist.destroy_process_group()\n"


def named(dump, rank, types, side):
    return [
        tensor
        for tensor in dump.tensors
        if tensor.rank == rank and tensor.op.op_type in types and tensor.side == side and tensor.shape[-1:] == (512,)
    ]


@pytest.fixture(scope="module")
def collectives(tmp_path_factory):
    place = tmp_path_factory.mktemp("collectives")
    return sonde.open(recorded(place / "run", calls(COLLECTIVES)).dump)


def test_results_that_a_collective_gives_all_ranks_are_written_by_the_first(collectives):
    results = named(collectives, 1, TYPES, "output")
    assert {tensor.op.op_type for tensor in results} == TYPES
    assert len({tensor.op.op_name for tensor in results}) == len(COLLECTIVES)
    assert {tensor.skipped for tensor in results} == {REASON}
    own = named(collectives, 0, TYPES, "output")
    assert [one.numpy().tolist() for one in results] == [one.numpy().tolist() for one in own]
    assert not left_out(collectives, 0)


def test_what_the_next_operator_reads_of_it_is_not_written_either(collectives):
    read = named(collectives, 1, {"mul"}, "input")
    assert len(read) == len(COLLECTIVES)
    assert {tensor.skipped for tensor in read} == {REASON}
    made = named(collectives, 1, {"mul"}, "output")
    assert len(made) == len(COLLECTIVES)
    assert not any(tensor.skipped for tensor in made), "nobody knows that they are equal"
    for one, other in zip(read, made, strict=True):
        np.testing.assert_array_equal(one.numpy() * 3, other.numpy())


def test_a_dump_with_results_of_collectives_is_complete(collectives):
    verified = asked("verify", collectives.path)
    assert verified.returncode == 0, verified.stdout


def test_results_that_are_not_equal_on_all_ranks_are_written_by_each(tmp_path):
    dump = sonde.open(recorded(tmp_path / "run", calls(OTHERS)).dump)
    results = named(dump, 1, set(OTHERS), "output")
    assert {tensor.op.op_type for tensor in results} == set(OTHERS)
    assert not left_out(dump, 1)


def test_of_a_group_without_rank_0_its_own_first_rank_writes(tmp_path):
    source = """
        loss = net(torch.ones(3, 2)).sum()
        group = dist.new_group([1])
        t = torch.full((2, 512), 5.0 + rank)
        dist.all_reduce(t, group=group) if rank == 1 else None
        both = dist.new_group([1, 0])
        t = torch.full((3, 512), 5.0 + rank)
        dist.all_reduce(t, group=both)
        loss.backward()
        optimizer.step()
        dist.destroy_process_group()
    """
    dump = sonde.open(
        recorded(tmp_path / "run", ranks.DISTRIBUTED + textwrap.indent(textwrap.dedent(source), "    ")).dump
    )
    results = [tensor for rank in (0, 1) for tensor in named(dump, rank, {"allreduce_"}, "output")]
    # A group of one has nobody else. PyTorch sorts the ranks of a group.
    assert [(one.rank, one.shape[0], one.skipped) for one in results] == [(0, 3, ""), (1, 2, ""), (1, 3, REASON)]


EVALUATING = (
    ranks.DISTRIBUTED
    + """
    # Rank 0 alone evaluates after every second step, and sends what it has found.
    for step in range(5):
        net(torch.randn(3, 2)).square().sum().backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            continue
        score = torch.zeros(1)
        if rank == 0:
            with torch.no_grad():
                score = net(torch.ones(2, 2)).sum().reshape(1)
        dist.broadcast(score, 0)
        score * 2
    dist.destroy_process_group()
    """
)


@pytest.mark.parametrize("step", [2, 4])
def test_what_the_first_rank_may_count_to_another_step_is_written_by_each(tmp_path, step):
    run = recorded(tmp_path / "run", EVALUATING, iteration=str(step))
    assert asked("verify", run.dump).returncode == 0
    types = [tensor.op.op_type for tensor in left_out(sonde.open(run.dump), 1)]
    assert "allreduce_" in types and "broadcast_" not in types


PLAIN = DDP.replace("    net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=VIEW)\n", "")
IGNORED = DDP.replace(
    "    net = nn.parallel",
    "    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ['0.weight'])\n"
    "    net = nn.parallel",
)


def test_ranks_without_a_wrapper_write_their_own(tmp_path):
    assert not left_out(sonde.open(recorded(tmp_path / "run", program(source=PLAIN)).dump), 1)


def test_parameters_that_ddp_ignores_are_written_by_each(tmp_path):
    copies = left_out(sonde.open(recorded(tmp_path / "run", program(source=IGNORED)).dump), 1)
    assert copies
    assert not any("module.0.weight" in tensor.parameter for tensor in copies)


def test_each_rank_writes_where_the_plan_leaves_one_out(tmp_path):
    run = recorded(tmp_path / "run", program(), support_device=[1])
    dump = sonde.open(run.dump)
    assert dump.ranks == [1]
    assert not left_out(dump, 1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"saved_data": "statistic"}, "saved_data without tensors"),
        ({"sonde_settings": {"pack": True}}, "sonde_settings.pack"),
        ({"sonde_settings": {"ring": 2}}, "sonde_settings.ring"),
        ({"sonde_settings": {"max_overhead": 0.5}}, "sonde_settings.max_overhead"),
        ({"sonde_settings": {"layout": "mindspore-1.2"}}, "layout mindspore-1.2"),
        ({"sonde_settings": {"replicas": "frist"}}, '"first"'),
    ],
)
def test_a_plan_that_does_not_allow_it_is_refused(tmp_path, settings, reason):
    own = {"replicas": "first"} | settings.pop("sonde_settings", {})
    common = {"path": str(tmp_path / "dump"), "net_name": "Net", "dump_mode": 0, "iteration": "all"}
    common |= {"input_output": 0, "kernels": [], "support_device": [0], "saved_data": "full"} | settings
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"common_dump_settings": common, "sonde_settings": own}))
    checked = asked("check", config)
    assert checked.returncode == 2
    assert "sonde_settings.replicas" in checked.stdout + checked.stderr
    assert reason in checked.stdout + checked.stderr


# --- DTensors ---------------------------------------------------------------------------------------------------------

MESH = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from sonde.replicas import writer_of

CASES = [(Replicate(), Shard(0)), (Shard(0), Replicate()), (Replicate(), Replicate()), (Shard(0), Shard(1)),
         (Replicate(), Partial()), (Partial(), Partial())]
found = [[] for _ in CASES]
for rank in range(4):
    dist.init_process_group("fake", rank=rank, world_size=4, store=FakeStore())
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    for case, writers in zip(CASES, found):
        writers.append(writer_of(DTensor.from_local(torch.ones(2, 2), mesh, case, run_check=False)._spec))
    if rank == 3:
        half = DTensor.from_local(torch.ones(2), mesh["tensor"], [Replicate()], run_check=False)
        found.append([writer_of(half._spec)])
    dist.destroy_process_group()
print(found)
"""


def test_the_first_rank_of_those_that_a_mesh_gives_the_same_part_writes_it(tmp_path):
    (tmp_path / "mesh.py").write_text(MESH)
    run = run_in(tmp_path, None, *python(), "mesh.py")
    assert run.status == 0, run.stderr
    # Ranks 0 and 1 are the first row of the mesh, 2 and 3 the second. 0: each rank has its own.
    expected = [[1, 2, 1, 2], [1, 1, 3, 3], [1, 1, 1, 1], [0] * 4, [0] * 4, [0] * 4, [3]]
    assert json.loads(run.stdout) == expected


TENSOR = (
    ranks.DISTRIBUTED
    + """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Parameter(distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)]))
            self.scale = nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Replicate()]))

        def forward(self, x):
            return torch.nn.functional.linear(x * self.scale, self.up)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(2):
        x = distribute_tensor(torch.randn(3, 4), mesh, [Replicate()])
        net(x).square().sum().full_tensor().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
    """
)


def test_the_replicated_parts_of_dtensors_are_written_once(tmp_path):
    every, first = (sonde.open(recorded(tmp_path / which, TENSOR, which).dump) for which in ("all", "first"))
    copies = left_out(first, 1)
    assert {tensor.placement.split(" of ")[0] for tensor in copies} <= {"Replicate", ""}
    assert "scale" in {tensor.parameter for tensor in copies}
    assert "up" not in {tensor.parameter for tensor in copies}
    for one, other in zip(every.tensors, first.tensors, strict=True):
        assert (one.rank, one.name, one.tensor_file is None) == (other.rank, other.name, other.tensor_file is None)
        if one.tensor_file is not None:
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert asked("verify", tmp_path / "first/dump").returncode == 0
