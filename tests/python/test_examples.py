"""The scripts of examples/alexnet, run as their user runs them."""

import pathlib
import re
import shutil
import sys
import sysconfig

import numpy as np
import pytest

ALEXNET = pathlib.Path(__file__).parents[2] / "examples" / "alexnet"
CONV2 = "conv2d.Default_network-AlexNet_conv2-Conv2d_conv2d-op"


@pytest.fixture
def run_script(execute, tmp_path):
    """Runs a script beside a copy of a small training."""
    directory = shutil.copytree(ALEXNET, tmp_path / "alexnet")
    training = directory / "train_alexnet.py"
    training.write_text(training.read_text().replace("default=0.25", "default=0.05").replace("default=16", "default=2"))
    tools = {"PYTHON": sys.executable, "SONDE": pathlib.Path(sysconfig.get_path("scripts")) / "sonde"}
    return lambda name, dump: execute("bash", directory / name, dump, **tools)


def test_a_line_of_the_program_leads_to_its_tensors_as_npy_and_as_converted_containers(run_script, dump):
    synchronous = run_script("run_sync_dump.sh", dump / "sync")
    assert synchronous.status == 0, synchronous.stderr
    asynchronous = run_script("run_async_dump.sh", dump / "async")
    assert asynchronous.status == 0, asynchronous.stderr

    for found in (synchronous.stdout, asynchronous.stdout):
        operators = re.findall(r"^(\w+)  (Default/.*)", found, re.M)
        assert [op_type for op_type, _ in operators] == ["conv2d", "relu", "max_pool2d"]
        assert re.search(r"input\.1 +float32 \(12, 8, 5, 5\)", found), found
        assert "Gradients/Default/network-AlexNet/conv2-Conv2d" in found

    # Iteration 3 of MindSpore 1.2 is the third: number 2 where they count from 0.
    npy = sorted((dump / "sync").rglob(f"2/{CONV2}*.npy"))
    converted = sorted((dump / "async" / "npy" / "3").glob(f"{CONV2}*.npy"))
    assert len(npy) == len(converted) == 4
    for one, other in zip(npy, converted, strict=True):
        assert np.load(one).tobytes() == np.load(other).tobytes()


def test_finding_says_what_is_missing(execute, tmp_path):
    nothing = execute(sys.executable, ALEXNET / "find_operator.py", tmp_path, "train_alexnet.py:29")
    assert nothing.status != 0
    assert f"no .ir below {tmp_path}" in nothing.stderr
    mistyped = execute(sys.executable, ALEXNET / "find_operator.py", tmp_path, "train_alexnet.py")
    assert "expected FILE:LINE" in mistyped.stderr


def test_the_operator_that_went_wrong_is_named_in_one_dump_and_beside_a_good_one(execute, dump):
    example = ALEXNET.parent / "first_bad"
    for name, *options in (("nan",), ("good", "--healthy")):
        run = execute(
            sys.executable,
            example / "train.py",
            *options,
            MINDSPORE_DUMP_CONFIG=example / "data_dump.json",
            MS_DIAGNOSTIC_DATA_PATH=dump / name,
        )
        assert run.status == 0, run.stderr
    sonde = pathlib.Path(sysconfig.get_path("scripts")) / "sonde"

    found = execute(sonde, "first-bad", dump / "nan")
    assert found.status == 1
    assert found.stdout.startswith("first bad: Default/network-Network/log-op0\n")
    assert "log of a negative number" in found.stdout
    assert re.search(r"^masked_fill-op0:output.0 .*softmax-op0", found.stdout, re.M)
    assert execute(sonde, "first-bad", dump / "good").status == 0

    compared = execute(sonde, "compare", dump / "nan", dump / "good")
    assert compared.status == 1
    assert re.match(r"first difference: step 2, sub .*/sub-op0, train.py:\d+: is called with 0.2", compared.stdout)
