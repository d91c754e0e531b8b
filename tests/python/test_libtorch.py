"""C++ programs with libtorch, examples/libtorch: preloaded by `sonde run`, or linked with Sonde; without Python."""

import functools
import json
import pathlib
import re
import sys

import pytest
from processes import CLI, run_alone, settings_of

import sonde
from sonde import adapter, torch_installation

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "libtorch"
TORCH = adapter.find_torch().directory

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)))


torch.jit.script(Net()).save("net.pt")
"""


run = functools.partial(run_alone, timeout=280)


def test_cmake_leaves_out_the_sources_that_the_build_on_first_use_leaves_out():
    text = (pathlib.Path(__file__).parents[2] / "cmake" / "sonde-torch.cmake").read_text()
    (names,) = re.findall(r"EXCLUDE REGEX \"/torch/\(([a-z_|]+)\)", text)
    assert set(names.split("|")) == torch_installation.OF_PYTHON


def build_programs(build):
    prefix = f"{sonde.cmake_prefix_path};{TORCH / 'share' / 'cmake'}"
    run("/", "cmake", "-S", EXAMPLE, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-O0")
    run("/", "cmake", "--build", build, "-j2")
    (build / "net.py").write_text(NET)
    run(build, sys.executable, "net.py")


@pytest.fixture(scope="module")
def programs(once_per_run):
    """The directory of the built programs, and of net.pt."""
    return once_per_run("libtorch", build_programs)


def config_of(directory, **common):
    file = directory / "data_dump.json"
    common = {"saved_data": "full", "statistic_category": ["max", "l2norm"], **common}
    file.write_text(json.dumps(settings_of(directory / "dump", None, None, common)))
    return file


def rows(dump, *options):
    shown = run("/", CLI, "graph", dump, "--json", *options)
    return json.loads(shown.stdout)["ops"]


@pytest.fixture(scope="module")
def trained(programs, tmp_path_factory):
    """(the bare run, the recorded run, its dump)"""
    dump = tmp_path_factory.mktemp("trained", numbered=True) / "dump"
    bare = run(programs, programs / "train")
    return bare, run(programs, CLI, "run", "--out", dump, "--saved-data", "full", "--", programs / "train"), dump


def test_sonde_run_records_a_program_that_knows_nothing_of_it(trained):
    bare, recorded, dump = trained
    assert recorded.stdout == bare.stdout and bare.stdout.count("\n") == 4
    assert f"in {dump}/rank_0" in recorded.stderr
    (journal,) = sonde.open(dump).ranks
    assert journal is not None


def test_operators_of_a_training_have_modules_parameters_and_steps(trained):
    ops = {op["op_name"]: op for op in rows(trained[2], "--step", "1")}
    assert list(ops)[-1].startswith("Default/optimizer-SGD/")
    convolution = ops["Default/network-Net/conv-Conv2d/conv2d-op0"]
    assert [given.get("parameter") for given in convolution["inputs"][1:]] == ["conv.weight", "conv.bias"]
    assert {
        "Default/network-Net/norm-BatchNorm2d/batch_norm-op0",
        "Default/relu-op0",
        "Default/network-Net/head/1-Linear/addmm-op0",
        "Gradients/Default/network-Net/conv-Conv2d/Grad_conv2d/convolution_backward-op0",
    } <= set(ops)
    read = {given.get("parameter") for op in ops.values() for given in op["inputs"]}
    assert {"momentum_buffer.conv.weight", "conv.weight"} <= read
    updates = [name for name in ops if name.startswith("Default/optimizer-SGD/add_")]
    assert len(updates) == 12, "momentum and parameter, of six parameters"
    names = [{op["op_name"] for op in rows(trained[2], "--step", str(step))} for step in (1, 2, 3)]
    assert names[0] == names[1] == names[2]


@pytest.mark.parametrize(
    ("optimizer", "state"),
    [
        ("Adam", {"exp_avg", "exp_avg_sq"}),
        ("RMSprop", {"square_avg", "momentum_buffer"}),
        ("Adagrad", {"sum"}),
    ],
)
def test_an_optimizer_in_chosen_steps_gives_the_same_bits_and_names_its_state(programs, tmp_path, optimizer, state):
    command = (programs / "train", f"--{optimizer.lower()}")
    bare = run(programs, *command)
    recorded = run(programs, CLI, "run", "--out", tmp_path / "dump", "--iteration", "2", "--", *command)
    assert recorded.stdout == bare.stdout
    steps = {(step.graph, step.step) for step in sonde.open(tmp_path / "dump").steps}
    assert steps == {(0, 2)}
    ops = [op for op in rows(tmp_path / "dump") if op["op_name"].startswith(f"Default/optimizer-{optimizer}/")]
    read = {given.get("parameter", "") for op in ops for given in op["inputs"]}
    assert {f"{one}.conv.weight" for one in state} <= read


def test_first_bad_finds_a_planted_logarithm(programs, tmp_path):
    run(programs, CLI, "run", "--out", tmp_path / "dump", "--saved-data", "full", "--", programs / "train", "--plant")
    finding = sonde.first_bad(tmp_path / "dump").findings[0]
    assert (finding.op_type, finding.step) == ("log", 2)


def test_stop_after_ends_the_program(programs, tmp_path):
    command = ("--iteration", "0-1", "--stop-after", "--", programs / "train")
    ended = run(programs, CLI, "run", "--out", tmp_path / "dump", *command)
    assert ended.stdout.count("\n") == 1, "step 1 ends inside Optimizer.step"
    assert {step.step for step in sonde.open(tmp_path / "dump").steps} == {0, 1}


@pytest.fixture(scope="module")
def inferred(programs, tmp_path_factory):
    directory = tmp_path_factory.mktemp("inferred", numbered=True)
    bare = run(programs, programs / "infer", "net.pt")
    recorded = run(programs, programs / "infer", "net.pt", SONDE_CONFIG=str(config_of(directory)))
    return bare, recorded, directory / "dump"


def test_a_linked_program_records_torchscript_with_its_modules_lines_and_scopes(programs, inferred):
    bare, recorded, dump = inferred
    assert recorded.stdout == bare.stdout and bare.stderr == ""
    ops = rows(dump, "--step", "1")
    assert [op["op_name"] for op in ops] == [
        "Default/batch/full-op0",
        "Default/batch/div-op0",
        "Default/batch/network-Net/conv-Conv2d/conv2d-op0",
        "Default/batch/network-Net/relu-op0",
        "Default/batch/network-Net/head/0-Flatten/flatten-op0",
        "Default/batch/network-Net/head/1-Linear/linear-op0",
        "Default/batch/sum-op0",
        "Default/batch/item-op0",
    ]
    lines = (EXAMPLE / "infer.cpp").read_text().splitlines()
    assert lines[ops[0]["source_line"] - 1].strip() == 'const sonde::Scope batch("batch");'
    assert ops[3]["source_file"] == str(programs / "net.py")
    assert NET.splitlines()[ops[3]["source_line"] - 1].strip() == "return self.head(torch.relu(self.conv(x)))"


def test_each_call_of_the_outermost_scope_is_a_step_of_the_evaluation(inferred):
    assert {(step.graph, step.step) for step in sonde.open(inferred[2]).steps} == {(1, 0), (1, 1), (1, 2)}


def test_a_configuration_with_an_error_leaves_the_program_alone(programs, tmp_path):
    config = tmp_path / "data_dump.json"
    config.write_text("[")
    done = run(programs, programs / "infer", "net.pt", SONDE_CONFIG=str(config))
    assert done.stdout.count("\n") == 3
    assert done.stderr.startswith("sonde: not recording: ") and str(config) in done.stderr


def test_children_of_the_program_do_not_load_the_library(programs, tmp_path):
    (library,) = programs.glob("libsonde_torch.so")
    config = config_of(tmp_path)
    settings = {"LD_PRELOAD": str(library), "SONDE_CONFIG": str(config)}
    shown = run(programs, "/bin/sh", "-c", "env", **settings)
    assert "SONDE_CONFIG=" in shown.stdout and "LD_PRELOAD=" not in shown.stdout
    assert not (tmp_path / "dump").exists()


def test_a_program_that_is_not_linked_with_libtorch_runs_as_it_is(tmp_path):
    done = run(tmp_path, CLI, "run", "--out", tmp_path / "dump", "--", "/bin/echo", "hello")
    assert done.stdout == "hello\n" and "nothing was recorded" in done.stderr


def test_libtorch_that_is_not_there_is_named(tmp_path):
    done = run(tmp_path, sys.executable, "-m", "sonde.adapter", "build", "--libtorch", tmp_path, expected=(1,))
    assert done.stderr.startswith(f"sonde: cannot find libtorch in '{tmp_path}'")
