"""`sonde replay`: recorded operators again; the wrong kernel is named, and no healthy one."""

import collections
import json
import textwrap

import pytest
from repro_programs import FAULTS, MODELS, RELU, WRONG_KERNEL, asker


@pytest.fixture
def ask(script, execute):
    return asker("replay", script, execute)


def replayed_by(run, status=0):
    assert run.status == status, run.stderr
    return json.loads(run.stdout)["replayed"]


@pytest.fixture(scope="module")
def wrong(compare):
    return compare(textwrap.dedent(WRONG_KERNEL) + textwrap.dedent(RELU), saved_data="tensor").dump


def test_no_operator_of_healthy_networks_is_wrong(ask, compare):
    dump = compare(MODELS, saved_data="tensor").dump
    replayed = replayed_by(ask(dump, all=True))
    verdicts = collections.Counter(op["verdict"] for op in replayed)
    assert verdicts["wrong"] == 0, [op for op in replayed if op["verdict"] == "wrong"]
    assert verdicts["same_bits"] > 150
    others = {op["op_type"] for op in replayed if op["verdict"] == "cannot_be_replayed"}
    assert others <= {"item", "empty", "to", "randn", "randint", "normal_", "uniform_", "random_"}
    types = {op["op_type"]: op["reference"] for op in replayed}
    wide = ("conv2d", "convolution_backward", "native_batch_norm_backward", "scaled_dot_product_attention", "lstm")
    assert {types[one] for one in wide} == {"float64"}


def test_a_wrong_kernel_of_the_program_is_wrong_here(ask, wrong):
    relu, *others = sorted(replayed_by(ask(wrong, all=True), status=1), key=lambda op: op["op_type"] != "relu")
    assert (relu["op_type"], relu["verdict"], relu["same"]) == ("relu", "wrong", False)
    assert "here it gives another value: the kernel was wrong" in relu["why"]
    assert relu["error"] > 1000 * relu["bound"]
    assert "wrong" not in {op["verdict"] for op in others}


def test_a_kernel_that_is_wrong_here_too_is_wrong_by_float64(ask, wrong):
    (relu,) = replayed_by(ask(wrong, "relu-op0", before=textwrap.dedent(WRONG_KERNEL)), status=1)
    assert (relu["verdict"], relu["same"], relu["reference"]) == ("wrong", True, "float64")
    assert "this kernel gives the recorded bits again" in relu["why"]


@pytest.fixture(scope="module")
def faulty(compare):
    return compare(FAULTS, saved_data="tensor").dump


def test_a_fault_of_the_model_is_no_wrong_kernel(ask, faulty):
    replayed = replayed_by(ask(faulty, all=True))
    assert "wrong" not in {op["verdict"] for op in replayed}
    division = next(op for op in replayed if op["op_name"].endswith("network-Faulty/div-op0"))
    assert (division["verdict"], division["same"]) == ("same_bits", True)
    why = {op["op_type"]: op["why"] for op in replayed if op["verdict"] == "cannot_be_replayed"}
    assert "random numbers" in why["dropout"]


def test_the_table_names_wrong_ones_and_counts_the_others(ask, wrong):
    run = ask(wrong, all=True, json=False)
    assert run.status == 1
    header, row, why, counts, *_ = run.stdout.splitlines()
    assert header.split() == ["verdict", "step", "error", "bound", "op", "source"]
    assert row.startswith("wrong    0 ")
    assert "Default/relu-op0" in row
    assert "output.0 is " in why
    assert counts.startswith("1 wrong, ")


def test_what_to_replay_must_be_said_once(ask, faulty):
    for others in ({}, {"op": "cat-op0", "all": True}):
        run = ask(faulty, **others)
        assert run.status == 2
        assert "name an operator, or give --all" in run.stderr


def test_bad_input_is_answered_as_by_repro(ask, faulty, config, train):
    run = ask(faulty, "softmx-op0")
    assert run.status == 2
    assert "the nearest: Default/network-Faulty/softmax-op0" in run.stderr
    bare = train(FAULTS, config(saved_data="statistic"))
    run = ask(bare.dump, all=True)
    assert run.status == 3
    assert '"tensor" as saved_data, and 0 as input_output, in the configuration' in run.stderr


def test_an_operator_that_cannot_be_replayed_alone_has_status_3(ask, faulty):
    (dropout,) = replayed_by(ask(faulty, "dropout-op0", step="0"), status=3)
    assert dropout["verdict"] == "cannot_be_replayed"
