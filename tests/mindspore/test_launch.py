"""The kernels of MindSpore: inputs in the state before their operator, and operators that throw."""

import collections
import csv
import re

import numpy as np
import pytest
import trees

# LeNet with Momentum: the inputs that its operators write (adapters/mindspore/README.md).
IN_PLACE = {("ApplyMomentum", "0"), ("ApplyMomentum", "1"), ("AssignAdd", "0")}


def tensors(dump):
    """{(step, operator, side, slot): value} of graph 0; an operator's short name, `ApplyMomentum-op0`."""
    found = collections.defaultdict(list)
    for path in sorted(dump.glob("rank_0/Net/0/*/*.npy")):
        kind, name, _, _, _, side, slot = path.name.split(".")[:7]
        operator = kind if kind == "Parameter" else name[name.rindex(f"_{kind}-") + 1 :]
        found[int(path.parent.name), operator, side, int(slot)].append(np.load(path))
    return {key: values[0] for key, values in found.items()}


def input_of(name):
    """("ApplyMomentum", "0") of the name of a file of an input; None of every other."""
    fields = name.rsplit("/", 1)[-1].split(".")
    return (fields[0], fields[6]) if len(fields) > 6 and fields[5] == "input" else None


def run(case, *program, native=False):
    said = case.run_native(*program) if native else case.run(*program)
    assert said.status == 0, said.stderr
    return said


@pytest.fixture(scope="module")
def lenet(case):
    """LeNet's dumps: by MindSpore, with inputs before, with inputs after."""
    dumps = {}
    for name in ("native", "before", "after"):
        settings = None if name == "native" else {"inputs": name}
        mine = case(saved_data="tensor", sonde_settings=settings)
        dumps[name] = mine, run(mine, "lenet", 2, native=name == "native")
    return dumps


def different(one, other):
    one, other = trees.files(one), trees.files(other)
    assert one.keys() == other.keys()
    return {
        name
        for name in one
        if name.endswith(".npy") and [p.read_bytes() for p in one[name]] != [p.read_bytes() for p in other[name]]
    }


def test_results_are_the_same(lenet):
    outputs = {said.stdout for _, said in lenet.values()}
    assert len(outputs) == 1 and "loss" in outputs.pop()


def test_inputs_read_after_are_mindspores(lenet):
    assert not different(lenet["native"][0].dump, lenet["after"][0].dump)


def test_inputs_read_before_differ_where_operators_overwrite_them_and_nowhere_else(lenet):
    names = different(lenet["native"][0].dump, lenet["before"][0].dump)
    assert {input_of(name) for name in names} == IN_PLACE


def test_a_weight_goes_in_as_the_last_step_left_it(lenet):
    of = tensors(lenet["before"][0].dump)
    for k in range(8):
        operator = f"ApplyMomentum-op{k}"
        before, after = of[1, operator, "input", 0], of[1, operator, "output", 0]
        assert np.array_equal(before, of[0, operator, "output", 0])
        assert not np.array_equal(before, after)
        assert not of[0, operator, "input", 1].any()  # the momentum is still zero
        momentum = of[1, operator, "input", 1] * np.float32(0.9) + of[1, operator, "input", 3]
        np.testing.assert_allclose(before - np.float32(0.01) * momentum, after, rtol=1e-5, atol=1e-7)


def test_what_is_no_output_is_read_before_it_is_overwritten_too(case):
    mine = case(saved_data="tensor")
    run(mine, "in_place")
    of = tensors(mine.dump)
    assert np.array_equal(of[0, "BatchNorm-op0", "input", 3], np.zeros(3))  # the moving mean
    assert np.array_equal(of[0, "BatchNorm-op0", "input", 4], np.ones(3))  # and variance
    assert of[1, "BatchNorm-op0", "input", 3].all()
    assert np.array_equal(of[0, "Adam-op0", "input", 1], np.zeros_like(of[0, "Adam-op0", "input", 1]))
    assert of[1, "Adam-op0", "input", 1].any()


def test_statistics_are_of_the_value_before(case):
    mine = case(saved_data="statistic", dump_mode=1, kernels=["ApplyMomentum"], iteration="1")
    run(mine, "lenet", 2)
    with (mine.dump / "rank_0/Net/0/1/statistic.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["Op Name"].endswith("ApplyMomentum-op0")]
    written = {(row["IO"], row["Slot"]): row for row in rows}
    before, after = written["input", "0"], written["output", "0"]
    assert before["Shape"] == after["Shape"]
    assert before["L2Norm Value"] != after["L2Norm Value"]


def test_the_inputs_of_an_operator_that_throws_are_recorded(case, sonde):
    mine = case(saved_data="tensor", op_debug_mode=4, sonde_settings={"inputs": "after"})  # of no effect: it threw
    native = case(saved_data="tensor")
    theirs = run(native, "throwing", native=True)
    said = run(mine, "throwing")
    assert said.stdout == theirs.stdout and "caught" in said.stdout
    of = tensors(mine.dump)
    assert of.keys() == {(1, "GatherNd-op0", "input", 0), (1, "GatherNd-op0", "input", 1)}
    assert of[1, "GatherNd-op0", "input", 0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert of[1, "GatherNd-op0", "input", 1].tolist() == [[7, 1]]
    assert re.search(r"GatherNd-op0 \(.*throwing\.py:\d+\) threw an exception", "\n".join(said.sonde_lines))
    listed = sonde("ls", mine.dump)
    assert listed.status == 0 and "finished" in listed.stdout


def test_the_run_goes_on_after_an_operator_that_throws(case):
    mine = case(saved_data="tensor")
    run(mine, "throwing")
    of = tensors(mine.dump)
    assert (1, "GatherNd-op0", "input", 1) in of
    assert (1, "GatherNd-op0", "output", 0) not in of
    assert of[0, "Add-op0", "output", 0].tolist() == [3]
