"""The recorded operators, sides and steps of a MindSpore program."""

import dumps
import pytest

NETWORK = "Default/network-WithLossCell/_backbone-LeNet5"
CONV1 = f"{NETWORK}/conv1-Conv2d/Conv2D-op0"
# Its name is op1 in the execution order and the .ir, and op0 in MindSpore's files.
BACK = f"Gradients/{NETWORK}/conv2-Conv2d/Grad_Conv2D/Conv2DBackpropInput"
KERNELS = [CONV1, f"{BACK}-op1", "MaxPool", "name-regex(.*/fc[12]-Dense/BiasAdd-op.*)", "NoSuchType"]


def names(dump, step=0):
    return {name for name, _, _ in dumps.tensors(dump, step)}


@pytest.fixture(scope="module")
def chosen(case):
    run = case(saved_data="tensor", dump_mode=1, kernels=KERNELS).run("lenet", 1)
    assert run.status == 0, run.stderr
    return run


@pytest.fixture(scope="module")
def everything(case):
    """The files that MindSpore alone writes."""
    case = case(saved_data="tensor")
    assert case.run_native("lenet", 1).status == 0
    return names(case.dump)


@pytest.fixture(scope="module")
def steps(case):
    run = case(saved_data="tensor", iteration="1|3-4", input_output=2).run("lenet", 6)
    assert run.status == 0, run.stderr
    return run


def test_an_operator_by_its_full_name(chosen):
    assert {name for name in names(chosen.dump) if "conv1-Conv2d" in name} == {dumps.sanitised(CONV1)}


def test_an_operator_by_its_name_in_the_ir(chosen):
    order = dumps.execution_order(chosen.dump)
    assert f"{BACK}-op1" in order
    assert f"{BACK}-op0" not in order
    assert {name for name in names(chosen.dump) if "conv2-Conv2d" in name} == {dumps.sanitised(f"{BACK}-op0")}


def test_operators_by_type(chosen, everything):
    found = {name for name in names(chosen.dump) if "pool" in name}
    assert found == {name for name in everything if "_MaxPool" in name and "-op" in name}
    assert len(found) == 4  # forward and backward


def test_operators_by_pattern(chosen):
    found = {name for name in names(chosen.dump) if "BiasAdd" in name}
    assert found == {dumps.sanitised(f"{NETWORK}/fc{n}-Dense/BiasAdd-op0") for n in (1, 2)}


def test_nothing_else(chosen):
    assert all(any(part in name for part in ("conv", "pool", "BiasAdd")) for name in names(chosen.dump))


def test_an_entry_that_matches_nothing_is_reported(chosen):
    assert any("NoSuchType" in line for line in chosen.sonde_lines), chosen.stderr


def test_the_operators_of_every_step_are_in_the_order_selected_or_not(chosen):
    assert len(dumps.execution_order(chosen.dump)) > 40


def test_steps(steps):
    assert dumps.steps(steps.dump) == [1, 3, 4]
    history = steps.dump / "rank_0" / "execution_order" / "ms_global_execution_order_graph_0.csv"
    assert history.read_text() == "1\n3\n4\n"


def test_outputs_only_and_parameters_with_them(steps, everything):
    found = dumps.tensors(steps.dump, 3)
    assert {io for _, io, _ in found} == {"output"}
    assert {name for name, _, _ in found} == everything


def test_inputs_only(case, everything):
    run = case(saved_data="tensor", input_output=1).run("lenet", 1)
    assert run.status == 0, run.stderr
    found = dumps.tensors(run.dump)
    assert {io for _, io, _ in found} == {"input"}
    assert {name for name, _, _ in found} == {name for name in everything if "-op" in name}
