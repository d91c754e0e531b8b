"""DTensors: operators on local tensors have values, names, lines and placements; what FSDP gathers has names."""

import json
import sqlite3
import sys

import pytest
from processes import CLI, python, run_alone, run_in

import sonde

# A mesh of one process needs no second one; what a redistribution does with several is in tests/parallel.
PROGRAM = """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)]))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)  # LINE


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=False)
for _ in range(2):
    x = DTensor.from_local(torch.arange(6.0).reshape(2, 3), mesh, [Replicate()])
    net(x).sum().full_tensor().backward()
    optimizer.step()
    optimizer.zero_grad()
print([parameter.to_local().tolist() for parameter in net.parameters()])
dist.destroy_process_group()
"""

# The same tensor on many lines, in modules and outside of them in turns: sites and graphs have small numbers.
LINES = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
x = distribute_tensor(torch.ones(4, 3), init_device_mesh("cpu", (1,)), [Shard(0)])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, f):
        return f()


net = Net()
net(lambda: x.sub(2).log().abs())
"""
LINES += "".join(f"net(lambda: x.mul({i}))\nx.add({i})\nwith torch.no_grad(): x.add({i})\n" for i in range(12))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    place = tmp_path_factory.mktemp("placements")
    (place / "train.py").write_text(PROGRAM)
    bare = run_in(place, None, sys.executable, "train.py")
    dump = place / "dump"
    run = run_in(place, dump, CLI, "run", "--out", dump, "--saved-data", "full", "--", *python(), "train.py")
    assert bare.status == run.status == 0, run.stderr
    assert bare.stdout == run.stdout
    return sonde.open(dump)


def op_of(dump, op_type, where):
    return next(op for op in dump.ops if op.op_type == op_type and where in op.op_name and op.step == 1)


def test_the_local_operator_has_values_and_the_line_of_the_call(recorded):
    line = PROGRAM.splitlines().index("        return torch.nn.functional.linear(x, self.weight)  # LINE") + 1
    product = op_of(recorded, "mm", "network-Net/linear-DTensor/")
    assert product.source.line == line
    assert [tensor.shape for tensor in product.tensors] == [(2, 3), (3, 4), (2, 4)]
    assert not any(tensor.skipped for tensor in product.tensors)


def test_the_placements_of_the_arguments_are_attributes(recorded):
    product = op_of(recorded, "mm", "network-Net/linear-DTensor/")
    assert product.attributes["placements"] == "(Replicate of (2, 3) on tp=1; Shard(0) of (4, 3) on tp=1, from (0, 0))"


def test_wrapped_parameters_gradients_and_states_have_their_names(recorded):
    names = {tensor.parameter for tensor in recorded.tensors}
    assert {"weight", "weight.grad", "momentum_buffer.weight"} <= names


@pytest.fixture(scope="module")
def many_lines(tmp_path_factory):
    place = tmp_path_factory.mktemp("lines")
    (place / "lines.py").write_text(LINES)
    run = run_in(place, None, CLI, "run", "--out", "dump", "--", *python(), "lines.py")
    assert run.status == 0, run.stderr
    return sonde.open(place / "dump")


def test_operators_on_one_wrapper_have_each_their_own_line_and_name(many_lines):
    found = [op for op in many_lines.ops if op.op_type in ("add", "mul")]
    assert len(found) == 36
    for op in found:
        assert f"x.{op.op_type}(" in LINES.splitlines()[op.source.line - 1]
        assert f"/{op.op_type}-DTensor/" in op.op_name
    assert len({op.source.line for op in found}) == 36


def test_a_finding_says_which_part_of_the_whole_its_tensor_is(many_lines):
    (finding,) = sonde.first_bad(many_lines).findings
    assert finding.op_type == "log"
    assert finding.tensor.placement.startswith("Shard(0) of (4, 3)")


def test_nothing_is_left_out_for_its_class(recorded):
    reasons = {tensor.skipped for tensor in recorded.tensors} - {"", "empty tensor", "uninitialised memory"}
    assert not reasons


# --- the placement of each tensor ------------------------------------------------------------------------------------

WEIGHT = "Shard(0) of (4, 3) on tp=1, from (0, 0)"
PRODUCT = "Default/network-Net/linear-DTensor/mm-op0"


def test_arguments_and_results_have_their_placements(recorded):
    product = op_of(recorded, "mm", "network-Net/linear-DTensor/")
    assert [tensor.placement for tensor in product.tensors] == [
        "Replicate of (2, 3) on tp=1",
        "Shard(1) of (3, 4) on tp=1, from (0, 0)",
        "Shard(1) of (2, 4) on tp=1, from (0, 0)",
    ]


@pytest.mark.parametrize("name", ["weight", "weight.grad", "momentum_buffer.weight"])
def test_parameters_gradients_and_states_have_theirs(recorded, name):
    own = [tensor for tensor in recorded.tensors if tensor.parameter == name and tensor.shape == (4, 3)]
    expected = WEIGHT if name == "weight" else "Replicate of (4, 3) on tp=1"  # by PyTorch's rules for a mesh of one
    assert {tensor.placement for tensor in own} == {expected}


def test_a_placement_has_the_global_shape(recorded):
    placed = [tensor for tensor in recorded.tensors if tensor.placement]
    assert len(placed) > 20
    assert all(f" of {tensor.shape} on tp=1" in tensor.placement for tensor in placed)  # the parts are wholes


def answer(*command):
    return run_alone(".", CLI, *command).stdout


def test_every_face_says_it(recorded, tmp_path):
    dump = recorded.path
    assert f"  placement   {WEIGHT}\n" in answer("show", dump, "weight", "--step", "1")
    rows = json.loads(answer("stats", dump, "--json", "--step", "1"))["tensors"]
    listed = {row["placement"] for row in rows if row["parameter"] == "weight" and "placement" in row}
    assert WEIGHT in listed
    graph = json.loads(answer("graph", dump, "--json", "--step", "1"))
    product = next(op for op in graph["ops"] if op["op_name"] == PRODUCT)
    assert product["inputs"][0]["type"]["placement"] == "Replicate of (2, 3) on tp=1"
    assert product["outputs"][0]["placement"] == "Shard(1) of (2, 4) on tp=1, from (0, 0)"
    assert WEIGHT in recorded.tensors.to_arrow()["placement"].to_pylist()
    index = tmp_path / "index.sqlite"
    answer("index", dump, "--out", index)
    with sqlite3.connect(index) as database:
        found = database.execute("SELECT DISTINCT placement FROM all_tensors WHERE parameter = 'weight'").fetchall()
    assert (WEIGHT,) in found


# --- parameters that FSDP gathers ------------------------------------------------------------------------------------

GATHERED = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 4)

    def forward(self, x):
        return self.up(x)


torch.manual_seed(0)
net = nn.Sequential(Block(), nn.Linear(4, 2))
if sys.argv[1] == "fsdp2":
    mesh = init_device_mesh("cpu", (1,))
    fully_shard(net[0], mesh=mesh)
    fully_shard(net, mesh=mesh)
else:
    original = {"use_orig_params": sys.argv[1] == "fsdp1, original"}
    net[0] = FullyShardedDataParallel(net[0], device_id=torch.device("cpu"), **original)
    net = FullyShardedDataParallel(net, device_id=torch.device("cpu"), **original)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print([parameter.detach().sum().item() for parameter in net.parameters()])
dist.destroy_process_group()
"""


@pytest.mark.parametrize("style", ["fsdp2", "fsdp1", "fsdp1, original"])
def test_gathered_parameters_have_the_names_of_the_sharded_ones(style, tmp_path):
    (tmp_path / "train.py").write_text(GATHERED)
    program = [*python(), "train.py", style]
    bare = run_in(tmp_path, None, *program)
    run = run_in(tmp_path, tmp_path / "dump", CLI, "run", "--out", tmp_path / "dump", "--", *program)
    assert bare.status == run.status == 0, run.stderr
    assert bare.stdout == run.stdout
    dump = sonde.open(tmp_path / "dump")
    for step in (0, 1):
        layers = [op for op in dump.ops if op.op_type == "linear" and op.step == step]
        names = [[tensor.parameter for tensor in op.inputs[1:]] for op in layers]
        assert names == [["0.up.weight", "0.up.bias"], ["1.weight", "1.bias"]]
