"""DTensors in a training: the operators on local tensors have values, names, lines and placements."""

import sys

import pytest
from processes import CLI, run_in

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


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    place = tmp_path_factory.mktemp("placements")
    (place / "train.py").write_text(PROGRAM)
    bare = run_in(place, None, sys.executable, "train.py")
    dump = place / "dump"
    run = run_in(place, dump, CLI, "run", "--out", dump, "--saved-data", "full", "--", sys.executable, "train.py")
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


def test_nothing_is_left_out_for_its_class(recorded):
    reasons = {tensor.skipped for tensor in recorded.tensors} - {"", "empty tensor", "uninitialised memory"}
    assert not reasons
