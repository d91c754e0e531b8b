"""A training of MindSpore's own dump, without Sonde, beside its port to PyTorch; and a loss that a graph returns."""

import json
import pathlib
import sys

import pytest
from processes import CLI, run_in

MIGRATION = pathlib.Path(__file__).parents[2] / "examples" / "migration"


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """A directory with lenet.npz and `stock`, the dump that MindSpore itself has written."""
    from conftest import PYTHON

    directory = tmp_path_factory.mktemp("ported")
    run_in(directory, None, sys.executable, MIGRATION / "make_weights.py", "lenet.npz")
    settings = json.loads((MIGRATION / "data_dump.json").read_text())
    settings["common_dump_settings"]["path"] = str(directory / "stock")
    (directory / "data_dump.json").write_text(json.dumps(settings))
    surroundings = {"SONDE_OFF": 1, "MINDSPORE_DUMP_CONFIG": directory / "data_dump.json"}
    run = run_in(directory, None, PYTHON, MIGRATION / "lenet_mindspore.py", "lenet.npz", **surroundings)
    assert run.status == 0, run.stderr
    return directory


def first(stock, *plant):
    dump = stock / f"port{len(plant)}"
    port = (sys.executable, MIGRATION / "lenet_pytorch.py", "lenet.npz", *plant)
    run_in(stock, None, CLI, "run", "--out", dump, "--saved-data", "tensor", "--", *port)
    run = run_in(stock, None, CLI, "compare", dump, stock / "stock")
    return run.status, " ".join(run.stdout.split())


def test_a_port_beside_a_dump_of_mindspore_alone_has_no_difference(stock):
    status, said = first(stock)
    assert status == 0, said
    assert said.startswith("no difference that rounding does not explain")


def test_a_fault_of_the_port_is_named_and_no_running_mean(stock):
    status, said = first(stock, "--plant", "epsilon")
    assert status == 1, said
    assert said.startswith(
        "first difference: step 0, batch_norm Default/network-LeNet5/bn1-BatchNorm2d/batch_norm-op0"
    ), said


def test_a_loss_that_a_graph_returns_counts(case, sonde):
    run = case(saved_data="full").run("returned_loss")
    assert "nan" in run.stdout.lower(), run.stdout
    said = sonde("first-bad", run.dump)
    assert said.status == 1, said.stdout
    assert "Log-op0" in said.stdout.splitlines()[0], said.stdout
