"""Dumps that msprobe's PrecisionDebugger really wrote, of a small network on a CPU, as Sonde reads them.

The expected results are in msprobe's own dump.json, and in the program: tests/python/probe_training.py.
"""

import json
import math
import subprocess

import pytest
import torch
from probe import needs_probe, run_program

import sonde as sonde_package

pytestmark = needs_probe

RUNS = ["L0-statistics", "L1-statistics", "mix-statistics", "L1-tensor", "mix-tensor", "mix-tensor-healthy"]
DUMPED = [run for run in RUNS if not run.endswith("healthy")]
LISTS = {"input_args": "input", "input_kwargs": "input", "input": "input", "parameters": "input", "output": "output"}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    root = tmp_path_factory.mktemp("msprobe", numbered=True)
    run_program("probe_training", root, *RUNS, directory=root)
    return root


def sonde(*arguments):
    """Status and standard output of the command."""
    done = subprocess.run(["sonde", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def rows_of(dump, step):
    return [json.loads(line) for line in sonde("stats", dump, "--jsonl", "--step", step)[1].splitlines()]


def leaves(node):
    """Tensors and numbers below a list or a dictionary of dump.json, in order; None for a place without one."""
    if isinstance(node, dict) and "type" in node:
        yield node if "Tensor" in node["type"] or node["type"] == "torch.Size" else None
    elif isinstance(node, dict):
        for child in node.values():
            yield from leaves(child)
    elif isinstance(node, list):
        for child in node:
            yield from leaves(child)
    else:
        yield None


def records_of(dump, step):
    """{(record, side, slot): the tensor's facts in dump.json}, in its order."""
    (path,) = (dump / f"step{step}").glob("*/dump.json")
    found = {}
    for name, record in json.loads(path.read_text())["data"].items():
        slots = {"input": 0, "output": 0}
        parts = record.items() if set(record) <= set(LISTS) else [("output", list(record.values()))]
        for part, node in parts:
            side = LISTS[part]
            for leaf in leaves(node):
                if leaf is not None and leaf.get("shape") is not None:
                    found[name, side, slots[side]] = leaf
                slots[side] += 1
    return found


def number(value):
    """A number in the JSON form of `sonde stats --jsonl`: no NaN and no infinities."""
    if value is None or isinstance(value, str):
        return value
    value = float(value)
    return value if math.isfinite(value) else str(value)


@pytest.mark.parametrize("run", DUMPED)
def test_names_shapes_types_and_statistics_are_those_that_msprobe_wrote(dumps, run):
    for step in range(3):
        expected = records_of(dumps / run, step)
        rows = {(row["op_name"], row["side"], row["slot"]): row for row in rows_of(dumps / run, step)}
        assert list(dict.fromkeys(name for name, *_ in rows)) == list(dict.fromkeys(name for name, *_ in expected))
        assert set(rows) == set(expected)
        for place, record in expected.items():
            row = rows[place]
            assert (row["dtype"], row["shape"]) == (record["dtype"].removeprefix("torch."), record["shape"]), place
            ours = [row.get(name) for name in ("max", "min", "avg", "l2norm")]
            assert ours == [number(record[name]) for name in ("Max", "Min", "Mean", "Norm")], place


@pytest.mark.parametrize("run", ["L1-tensor", "mix-tensor"])
def test_tensors_are_those_that_torch_loads(dumps, run):
    opened = sonde_package.open(dumps / run)
    records = {step: records_of(dumps / run, step) for step in range(3)}
    seen = 0
    for tensor in opened.tensors:
        if tensor.tensor_file is None:
            continue
        record = records[tensor.step][tensor.op.op_name, tensor.side, tensor.slot]
        (path,) = (dumps / run / f"step{tensor.step}").glob(f"*/dump_tensor_data/{record['data_name']}")
        assert tensor.numpy().tobytes() == torch.load(path).contiguous().numpy().tobytes(), path.name
        seen += 1
    assert seen == sum(len(list((dumps / run).glob(f"step{step}/*/dump_tensor_data/*.pt"))) for step in range(3))


@pytest.mark.parametrize("run", DUMPED)
def test_ls_lists_ops_with_their_lines(dumps, run):
    status, listed = sonde("ls", dumps / run, "--ops", "--jsonl")
    ops = {row["op_name"]: row for row in map(json.loads, listed.splitlines())}
    assert status == 0
    name = "Torch.log.0.forward" if run.startswith("L1") else "Module.head.Head.forward.0"
    if run.startswith("mix"):
        assert ops["Torch.log.0.forward"]["scope"] == "head-Head"
    assert ops[name]["source_file"].endswith("probe_training.py")
    assert ops[name]["times"] == 3
    assert {row["phase"] for row in ops.values()} == {"forward", "backward"}


@pytest.mark.parametrize("run", DUMPED)
def test_first_bad_names_the_logarithm(dumps, run):
    status, found = sonde("first-bad", dumps / run, "--json")
    report = json.loads(found)
    finding = report["findings"][0]
    assert (status, finding["step"]) == (1, 1)
    if run.startswith("L0"):  # it contains only modules
        assert finding["op_name"] == "Module.head.Head.forward.0"
        return
    assert finding["op_name"] == "Torch.log.0.forward"
    assert finding["why"].startswith("log of a negative number")
    assert len(report["findings"]) == 1
    assert report["reaches"] == "the loss"


def test_first_bad_of_the_healthy_training_finds_nothing(dumps):
    status, found = sonde("first-bad", dumps / "mix-tensor-healthy")
    assert status == 0, found
    assert "nothing wrong" in found and "1 healthy infinity" in found


def test_compare_names_what_was_called_with_another_margin(dumps):
    status, found = sonde("compare", dumps / "mix-tensor", dumps / "mix-tensor-healthy")
    assert status == 1
    assert found.startswith("first difference: step 1, __sub__ Tensor.__sub__.0.forward, probe_training.py:")
    assert sonde("compare", dumps / "mix-tensor", dumps / "mix-tensor")[0] == 0
    assert sonde("compare", dumps / "L1-statistics", dumps / "L1-tensor")[0] == 0
