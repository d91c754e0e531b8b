"""Modes that MindSpore has on other devices, on a CPU: overflow, samples, flagged cells."""

import json

import dumps
import numpy as np
import pytest
from conftest import HERE


def operators(dump, step):
    return {name for name, _, _ in dumps.tensors(dump, step) if "-op" in name}


@pytest.fixture(scope="module")
def native(case):
    case = case(saved_data="tensor", iteration="0")
    assert case.run_native("lenet", 1).status == 0
    return dumps.tensors(case.dump)


@pytest.fixture(scope="module")
def overflow(case):
    run = case(saved_data="full", op_debug_mode=3, statistic_category=["max", "nan count"]).run("overflowing")
    assert run.status == 0, run.stderr
    return run


def test_only_operators_that_overflowed_are_recorded(overflow):
    assert operators(overflow.dump, 1) == {f"Default_{type}-op0" for type in ("Mul", "ReLU", "Sub", "Add")}
    for step in set(dumps.steps(overflow.dump)) - {1}:
        assert not dumps.tensors(overflow.dump, step)


def test_the_closing_line_names_the_first_and_its_line(overflow):
    (line,) = overflow.sonde_lines
    program = (HERE / "programs" / "overflowing.py").read_text().splitlines()
    number = program.index("        y = ops.exp(x) * factor") + 1
    assert "the first was Default/Mul-op0 (" in line
    assert f"overflowing.py:{number})" in line


def test_what_overflowed_has_its_inputs_and_outputs_and_rows(overflow):
    found = dumps.tensors(overflow.dump, 1)
    product = found["Default_Mul-op0", "output", 0]
    assert np.isposinf(product).all()
    assert np.isfinite(found["Default_Mul-op0", "input", 0]).all()
    assert len(dumps.statistics(overflow.dump, 1)) == len(found)


def test_a_program_that_overflows_computes_the_same(overflow, case):
    assert overflow.stdout == case().run_bare("overflowing").stdout


def test_overflow_number_ends_the_look(case):
    run = case(saved_data="tensor", op_debug_mode=3, overflow_number=1).run("overflowing")
    assert run.status == 0, run.stderr
    assert dumps.steps(run.dump) == [1]
    assert operators(run.dump, 1) == {"Default_Mul-op0"}
    assert any("overflow_number 1 was reached" in line for line in run.sonde_lines), run.stderr


def test_a_sample_is_the_first_elements(case, native):
    e2e = {"enable": True, "trans_flag": True, "sample_mode": 1, "sample_num": 10}
    run = case({"inputs": "after"}, e2e, saved_data="tensor", iteration="0").run("lenet", 1)
    assert run.status == 0, run.stderr
    found = dumps.tensors(run.dump)
    assert found.keys() == native.keys()
    assert sum(array.size == 10 for array in found.values()) > 50
    for place, array in found.items():
        whole = native[place]
        expected = whole.reshape(-1)[:10] if whole.size > 10 else whole
        assert array.shape == expected.shape, place
        assert array.tobytes() == expected.tobytes(), place


@pytest.mark.parametrize("whose", ["mindspore", "sonde"])
def test_a_flagged_cell_is_recorded_forward_and_backward(case, native, whose):
    run = case(saved_data="tensor", dump_mode=2).run("set_dump", whose)
    assert run.status == 0, run.stderr
    expected = {name for name, _, _ in native if "conv2-Conv2d" in name}
    assert len(expected) == 3
    assert operators(run.dump, 1) == expected


def test_arguments_of_operators_are_those_of_the_primitive(case):
    e2e = {"enable": True, "trans_flag": True, "save_kernel_args": True}
    run = case(None, e2e, saved_data="tensor", iteration="0").run("lenet", 1)
    assert run.status == 0, run.stderr
    arguments = {path.name: json.loads(path.read_text()) for path in dumps.step_directory(run.dump).glob("*.json")}
    assert len(arguments) == len({name for name, _, _ in dumps.tensors(run.dump) if "-op" in name})
    pools = [values for name, values in arguments.items() if name.startswith("MaxPool.")]
    assert len(pools) == 2
    assert all(values["kernel_size"] == "[1, 1, 2, 2]" for values in pools)
    (first,) = [values for name, values in arguments.items() if name.endswith("conv1-Conv2d_Conv2D-op0.json")]
    assert (first["kernel_size"], first["pad_mode"]) == ("[5, 5]", "valid")
