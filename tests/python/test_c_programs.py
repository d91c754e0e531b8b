"""Programs in C, and in Python through ctypes, that report their own kernels: examples/c."""

import functools
import json
import pathlib
import sys

import numpy as np
import pytest
from processes import CLI, run_alone

import sonde

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "c"
PACKAGE = pathlib.Path(sonde.__file__).parent


run = functools.partial(run_alone, expected=(0, 1))


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    """The program, built in a project of its own with the CMake package of the Python package."""
    project = tmp_path_factory.mktemp("mlp", numbered=True)
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(mlp C)\nset(CMAKE_C_STANDARD 99)\n"
        f"find_package(Sonde 0.1 REQUIRED)\nadd_executable(mlp {EXAMPLES / 'mlp.c'})\n"
        "target_compile_options(mlp PRIVATE -Wall -Wextra -Wpedantic -Werror)\n"
        "target_link_libraries(mlp PRIVATE sonde::sonde m)\n"
    )
    run(project, "cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={sonde.cmake_prefix_path}")
    run(project, "cmake", "--build", "build")
    return project / "build" / "mlp"


@pytest.fixture(scope="module")
def recorded(mlp):
    done = run(mlp.parent, CLI, "run", "--out", mlp.parent / "dump", "--saved-data", "full", "--", mlp)
    return done, sonde.open(mlp.parent / "dump")


def test_the_program_does_the_same_without_a_configuration_and_with_one(mlp, recorded):
    bare = run(mlp.parent, mlp)
    assert bare.stderr == "" and bare.stdout == recorded[0].stdout
    assert bare.stdout.count("\n") == 4
    assert "sonde: recorded 24 ops and 72 tensors of 4 steps" in recorded[0].stderr


def values(dump, step, op, side):
    return dump.tensors.select(op=f"{op}$", step=step, side=side)[0].numpy()


def test_the_recorded_values_are_those_that_the_kernels_computed(recorded):
    dump = recorded[1]
    x, up = np.sin(np.arange(12.0) ** 2).reshape(4, 3), np.sin(np.arange(24.0)).reshape(3, 8)
    down, target = np.cos(np.arange(8.0)).reshape(8, 1), np.arange(4.0).reshape(4, 1) / 4
    for step in range(4):
        active = np.tanh(x @ up)
        error = 2 * (active @ down - target) / 4
        down_gradient = active.T @ error
        assert np.allclose(values(dump, step, "up-Linear/matmul-op0", "output"), x @ up, atol=1e-5)
        assert np.allclose(values(dump, step, "matmul_grad-op0", "output"), down_gradient, atol=1e-5)
        assert np.allclose(values(dump, step, "sgd-op0", "input"), down, atol=1e-5), "before the update"
        down = down - 0.1 * down_gradient
        assert np.allclose(values(dump, step, "sgd-op0", "output"), down, atol=1e-5)


def test_the_graph_joins_the_operators_by_their_memory(mlp, recorded):
    shown = run(mlp.parent, CLI, "graph", mlp.parent / "dump", "--step", "1", "--json")
    ops = json.loads(shown.stdout)["ops"]
    assert [op["op_name"] for op in ops] == [
        "Default/network-Mlp/up-Linear/matmul-op0",
        "Default/network-Mlp/tanh-op0",
        "Default/network-Mlp/down-Linear/matmul-op0",
        "Default/network-Mlp/error-op0",
        "Gradients/Default/network-Mlp/down-Linear/Grad_matmul/matmul_grad-op0",
        "Default/optimizer-SGD/sgd-op0",
    ]
    reads = [[given.get("parameter", given.get("op_name")) for given in op["inputs"]] for op in ops]
    names = [op["op_name"] for op in ops]
    assert reads[1:] == [
        [names[0]],
        [names[1], "down.weight"],
        [names[2], "data-0"],
        [names[1], names[3]],
        ["down.weight", names[4]],
    ]


def test_first_bad_names_the_line_in_c(mlp):
    planted = mlp.parent / "planted"
    run(mlp.parent, CLI, "run", "--out", planted, "--saved-data", "full", "--", mlp, "--plant")
    finding = sonde.first_bad(planted).findings[0]
    assert finding.op_name == "Default/network-Mlp/log-op0"
    assert "log of a negative number" in finding.why
    line = next(
        n for n, text in enumerate((EXAMPLES / "mlp.c").read_text().splitlines(), 1) if "log_of(&active)" in text
    )
    assert finding.code.source_file.endswith("mlp.c") and finding.code.source_line == line


def test_a_configuration_with_an_error_is_reported_and_the_program_goes_on(mlp, tmp_path):
    config = tmp_path / "data_dump.json"
    config.write_text("{")
    done = run(tmp_path, mlp, SONDE_CONFIG=str(config))
    assert done.stdout.count("\n") == 4 and str(config) in done.stderr and done.returncode == 0
    off = run(tmp_path, mlp, SONDE_CONFIG=str(config), SONDE_OFF="1")
    assert off.stderr == ""


def test_pkg_config_names_what_a_c_compiler_needs(tmp_path):
    build = pathlib.Path(__file__).parents[2] / "build"
    if not (build / "CMakeCache.txt").exists():
        pytest.skip("the engine was built elsewhere")
    run(tmp_path, "cmake", "--install", build, "--component", "development", "--prefix", tmp_path / "usr")
    (pc,) = (tmp_path / "usr").rglob("sonde.pc")
    flags = run(tmp_path, "pkg-config", "--cflags", "--libs", "sonde", PKG_CONFIG_PATH=str(pc.parent)).stdout.split()
    run(tmp_path, "cc", "-std=c99", EXAMPLES / "mlp.c", *flags, "-lm", "-o", "mlp")
    assert run(tmp_path, tmp_path / "mlp").stdout.count("\n") == 4


def test_ctypes_records_numpy(tmp_path):
    recorded = run(
        tmp_path, CLI, "run", "--out", "dump", "--saved-data", "full", "--", sys.executable, EXAMPLES / "mean.py"
    )
    assert "recorded 3 ops and" in recorded.stderr
    dump = sonde.open(tmp_path / "dump")
    for step in range(3):
        mean = dump.tensors.select(op="mean-op0$", step=step, side="output")[0].numpy()
        assert np.array_equal(mean, [1 + step, 4 + step])
