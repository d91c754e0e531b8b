"""`sonde headroom`: what other types would lose of each tensor, beside what PyTorch's own casts make of it."""

import json
import math

import pytest
import torch
from processes import CLI

import sonde

PROGRAM = """
import torch
torch.manual_seed(0)
x = torch.randn(24, 96)
for step in range(2):
    large = (x * 3.0).pow(9)
    small = torch.exp(large.abs().log() * -0.5) * 1e-3
    ratio = small / large
    torch.zeros(5).abs()
    torch.arange(4).mul(2)
"""
TYPES = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@pytest.fixture
def recorded(train, config):
    done = train(PROGRAM, config(saved_data="full"))
    assert done.status == 0, done.stderr
    return done.dump


def largest(name):
    return torch.finfo(getattr(torch, name)).max


def scaled(values, name, scale):
    """As the verb says: a number for the tensor, or a power of two for each 32 neighbours."""
    if scale == "none":
        return values
    if scale == "tensor":
        return values * (largest(name) / values.abs().max()) if values.any() else values
    blocks = values.reshape(-1, 32) if values.shape[-1] % 32 == 0 else values.reshape(1, -1)
    powers = torch.floor(torch.log2(largest(name) / blocks.abs().amax(1, keepdim=True)))
    return (blocks * torch.exp2(powers)).nan_to_num(0).reshape(values.shape)


def lost(values, name, scale):
    """(beyond the largest number, 0 and was not, below the normal numbers), by PyTorch's cast."""
    kind = getattr(torch, name)
    given = scaled(values.double(), name, scale)
    cast = given.float().to(kind).double()
    # PyTorch's casts to 8 bits keep some numbers that are too large at the largest one, and make others NaN.
    limit = torch.finfo(kind).max
    middle = limit + 2.0 ** math.floor(math.log2(limit)) * torch.finfo(kind).eps / 2
    beyond = given.abs() > middle
    assert "float8" in name or torch.equal(beyond, ~cast.isfinite())
    zero = (cast == 0) & (given != 0)
    tiny = (given != 0) & (given.abs() < torch.finfo(kind).tiny) & ~zero
    return [int(part.sum()) for part in (beyond, zero, tiny)]


@pytest.mark.parametrize("scale", ["none", "tensor", "block"])
def test_counts_are_those_of_pytorchs_casts(recorded, scale):
    report = sonde.headroom(recorded, dtypes=list(TYPES), scale=scale)
    rows = {row.op_name.split("/")[-1]: row for row in report.tensors}
    assert {"pow-op0", "mul-op1", "div-op0", "abs-op1"} <= rows.keys() and "arange-op0" not in rows
    opened = sonde.open(recorded)
    for row in report.tensors:
        of = [t for t in opened.tensors if t.op.op_name == row.op_name and (t.side, t.slot) == (row.side, row.slot)]
        values = [torch.from_numpy(t.numpy().copy()) for t in of]
        assert (row.recordings, row.from_values) == (len(of), len(of))
        assert row.max_abs == max(float(v.abs().max()) for v in values)
        for name, found in zip(TYPES, row.as_dtypes, strict=True):
            expected = [sum(parts) for parts in zip(*(lost(v, name, scale) for v in values), strict=True)]
            counted = [found.overflow_count, found.underflow_count, found.subnormal_count]
            assert counted == expected, (row.op_name, name)
            assert found.overflows == (expected[0] > 0)
    assert report.complete


def test_statistics_never_contradict_the_values(train, config, recorded):
    by_values = sonde.headroom(recorded, dtypes=list(TYPES))
    done = train(PROGRAM, config(saved_data="statistic"))
    by_statistics = sonde.headroom(done.dump, dtypes=list(TYPES))
    assert not by_statistics.complete
    known = {(row.op_name, row.slot): row for row in by_values.tensors}
    decided = 0
    for row in by_statistics.tensors:
        other = known[row.op_name, row.slot]
        assert (row.headroom, row.max_abs) == (other.headroom, other.max_abs)
        for mine, theirs in zip(row.as_dtypes, other.as_dtypes, strict=True):
            assert mine.overflows == theirs.overflows
            for count in ("overflow_count", "underflow_count", "subnormal_count"):
                if getattr(mine, count) is not None:
                    decided += 1
                    assert getattr(mine, count) == getattr(theirs, count)
    assert decided > len(by_statistics.tensors)


def test_the_command_prints_shares_and_says_what_overflows(execute, recorded):
    run = execute(CLI, "headroom", recorded, "--dtype", "float16", "--dtype", "float4_e2m1fn")
    assert run.status == 1, run.stderr
    sums = [line for line in run.stdout.splitlines() if " tensors overflow, " in line]
    assert [line.partition(":")[0] for line in sums] == ["float16", "float4_e2m1fn"]
    row = next(line for line in run.stdout.splitlines() if "div-op0" in line)
    assert " over, " in row and " to 0" in row
    assert execute(CLI, "headroom", recorded).status == 0  # nothing was demanded of a type
    document = json.loads(execute(CLI, "headroom", recorded, "--json", "--select", "**/pow*").stdout)
    assert {row["op_type"] for row in document["tensors"]} == {"pow"}


def test_wrong_names_and_a_part_without_numbers_are_said(execute, recorded):
    run = execute(CLI, "headroom", recorded, "--dtype", "float17")
    assert run.status == 2
    assert "dtype: found 'float17', expected one of float64, float32, bfloat16, float16," in run.stderr
    with pytest.raises(ValueError, match="expected none, tensor or block"):
        sonde.headroom(recorded, scale="row")
    run = execute(CLI, "headroom", recorded, "--select", "arange-op0")
    assert run.status == 3
    assert "no tensor of a floating type was recorded here" in run.stderr
