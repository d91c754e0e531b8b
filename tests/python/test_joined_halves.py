"""sonde compare of a training in bfloat16 on two ranks with the same on one process, whose sums hide small terms."""

import textwrap

import pytest
from ranks import DISTRIBUTED, run_one, run_ranks

pytestmark = pytest.mark.cold

# Three blocks with a residual. The fault is in the second one: an op too many, or one too few.
RESIDUAL = (
    DISTRIBUTED
    + """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    world, fault, style = int(os.environ["WORLD_SIZE"]), "FAULT", "STYLE"

    class Block(nn.Module):
        def __init__(self, fault):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 128), nn.Linear(128, 64)
            self.fault = fault

        def attend(self, tokens):
            scores = tokens @ tokens.transpose(-1, -2)
            if self.fault != "temperature":
                scores = scores * 4.0  # temperature
            later = torch.ones(8, 8, dtype=torch.bool).triu(1)
            return scores.masked_fill(later, float("-inf")).softmax(-1) @ tokens

        def forward(self, x):
            y = x if self.fault == "norm" else self.norm(x)  # norm
            y = self.up(y)
            if self.fault != "activation":
                y = torch.relu(y)  # activation
            if self.fault == "hidden":
                y = y * 1.05  # hidden
            y = self.attend(self.down(y).view(-1, 8, 8)).view(-1, 64)
            if self.fault != "scale":
                y = y * 0.5  # scale
            if self.fault == "factor":
                y = y * 1.05  # factor
            if self.fault == "shift":
                y = y + 0.05  # shift
            if self.fault == "residual":
                return y
            return x + y  # residual

    net = nn.Sequential(*(Block(fault if i == 1 else "") for i in range(3)), nn.Linear(64, 8)).to(torch.bfloat16)
    slices = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    if world > 1 and style == "tensor":
        for block in net[:3]:
            parallelize_module(block, init_device_mesh("cpu", (world,)), slices)
    elif world > 1:
        net = nn.parallel.DistributedDataParallel(net, find_unused_parameters=fault == "norm")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(2):
        data = torch.randn(64, 64, generator=torch.Generator().manual_seed(step)).to(torch.bfloat16)
        net(data.chunk(world)[rank] if style == "data" else data).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained", flush=True)
    """
)
# Of each fault: the op that only one of the runs has.
OPS = {
    "factor": "mul",
    "shift": "add",
    "scale": "mul",
    "residual": "add",
    "activation": "relu",
    "norm": "layer_norm",
    "temperature": "mul",
}
TOO_MANY = ("factor", "shift")


def line_of(fault):
    lines = textwrap.dedent(RESIDUAL).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {fault}"))


def on_two_ranks(directory, fault, style="data", saved_data="full"):
    directory.mkdir()
    ranks = run_ranks(directory, RESIDUAL.replace("FAULT", fault).replace("STYLE", style), saved_data=saved_data)
    assert ranks.status == 0 and ranks.stdout.count("trained") == 2, ranks.stderr
    return ranks.dump


def on_one_process(directory, fault, saved_data="full"):
    directory.mkdir()
    return run_one(directory, RESIDUAL.replace("FAULT", fault), saved_data, "train.py")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    directory = tmp_path_factory.mktemp("healthy")
    return on_two_ranks(directory / "ranks", ""), on_one_process(directory / "whole", "")


def test_healthy_trainings_in_a_half_type_do_not_differ(healthy, sonde):
    for pair in (healthy, healthy[::-1]):
        found = sonde("compare", *pair)
        assert found.status == 0 and found.stdout.startswith("no difference"), found.stdout


@pytest.mark.parametrize("fault", OPS)
@pytest.mark.parametrize("where", ["ranks", "whole"])
def test_an_op_that_one_side_alone_has_is_named_although_sums_hide_it(tmp_path, healthy, sonde, fault, where):
    ranks, whole = healthy
    if where == "ranks":
        ranks = on_two_ranks(tmp_path / "ranks", fault)
    else:
        whole = on_one_process(tmp_path / "whole", fault)
    is_of_golden = (where == "whole") == (fault in TOO_MANY)
    for exchanged in (False, True):
        pair = (whole, ranks) if exchanged else (ranks, whole)
        found = sonde("compare", *pair)
        lines = found.stdout.splitlines()
        named = f"{'golden op ' if is_of_golden != exchanged else ''}{OPS[fault]} "
        assert found.status == 1 and lines[0].startswith("first difference: "), found.stdout
        assert f"step 0, {named}" in lines[0] and "/1-Block/" in lines[0], found.stdout
        other = "target" if is_of_golden != exchanged else "golden dump"
        expected = f"train.py:{line_of(fault)}: has no counterpart in the {other}"
        assert expected in " ".join(lines[:3]), found.stdout


def named_by_statistics(sonde, ranks, whole, fault):
    found = sonde("compare", ranks, whole)
    lines = found.stdout.splitlines()
    assert found.status == 1 and f"{OPS.get(fault, 'mul')} " in lines[0] and "/1-Block/" in lines[0], found.stdout
    assert f"train.py:{line_of(fault)}: has no counterpart" in " ".join(lines[:3]), found.stdout


def test_statistics_name_an_op_that_is_left_out_before_a_mask_and_among_like_blocks(tmp_path, sonde):
    """Of scores behind a mask, and of blocks whose results have like statistics, they show little."""
    whole = on_one_process(tmp_path / "whole", "", saved_data="statistic")
    healthy = on_two_ranks(tmp_path / "ranks", "", saved_data="statistic")
    assert sonde("compare", healthy, whole).status == 0
    for fault in ("temperature", "activation"):
        ranks = on_two_ranks(tmp_path / fault, fault, saved_data="statistic")
        named_by_statistics(sonde, ranks, whole, fault)


def test_what_goes_into_a_sum_of_slices_is_looked_at_by_statistics(tmp_path, sonde):
    """Statistics of the parts of a sum say the mean of the sum alone."""
    whole = on_one_process(tmp_path / "whole", "", saved_data="statistic")
    healthy = on_two_ranks(tmp_path / "ranks", "", "tensor", saved_data="statistic")
    found = sonde("compare", healthy, whole)
    assert found.status == 0 and "2 ranks are joined" in found.stdout, found.stdout
    ranks = on_two_ranks(tmp_path / "hidden", "hidden", "tensor", saved_data="statistic")
    named_by_statistics(sonde, ranks, whole, "hidden")
