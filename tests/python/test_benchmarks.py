"""The programs in benchmarks/ start, and their C++ compiles: nothing else runs them between two releases."""

import ast
import json
import pathlib
import subprocess
import sys

import pytest
from processes import run_in

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
# Modules that the programs import.
PARTS = ("models.py",)
PROGRAMS = sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name not in PARTS)


def test_there_are_programs():
    assert {"training.py", "callback_cost.py", "many_files.py"} <= set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_benchmark_starts_and_shows_its_options(program, tmp_path):
    run = run_in(tmp_path, None, sys.executable, BENCHMARKS / program, "--help")
    assert (run.status, run.stderr) == (0, "")
    assert run.stdout.startswith(f"usage: {program} ")
    assert f"`{program}" in (BENCHMARKS / "README.md").read_text()


@pytest.mark.parametrize("program", sorted(path.name for path in BENCHMARKS.glob("*.py")))
def test_a_benchmark_uses_only_names_that_its_neighbours_have(program):
    used = [
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse((BENCHMARKS / program).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    ]
    for module, name in used:
        if (BENCHMARKS / f"{module}.py").exists() and f"import {module}\n" in (BENCHMARKS / program).read_text():
            assert name in names_of(BENCHMARKS / f"{module}.py"), f"{module}.{name}"


def names_of(path):
    """The names at the top of a module."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign):
            names |= {part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        else:
            names.add(getattr(node, "name", ""))
    return names


@pytest.mark.long
def test_the_callbacks_parts_compile_with_the_adapters_sources():
    program = "import callback_cost, json; print(json.dumps(callback_cost.compile_command()))"
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=BENCHMARKS
    ).stdout
    command = [*json.loads(shown), "-fsyntax-only", BENCHMARKS / "callback_cost.cpp"]
    compiled = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (compiled.returncode, compiled.stderr) == (0, "")


def test_the_c_abis_benchmark_compiles_from_the_header_alone():
    command = ["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", BENCHMARKS.parent / "include"]
    compiled = subprocess.run([*command, BENCHMARKS / "c_abi.cpp"], check=False, capture_output=True, text=True)
    assert (compiled.returncode, compiled.stderr) == (0, "")


def test_the_kernels_benchmark_finds_its_function_in_the_table_of_the_abi():
    """The last function ends where the table does."""
    program = """if True:
        import ctypes, device_kernel
        device_kernel.function_of_table()
        library = ctypes.CDLL(str(device_kernel.pathlib.Path(device_kernel.sonde.__file__).parent / "libsonde.so"))
        library.sonde_api.restype = ctypes.POINTER(ctypes.c_uint32)
        header = (device_kernel.pathlib.Path(device_kernel.sonde.__file__).parent / "include/sonde/sonde.h").read_text()
        last = device_kernel.re.findall(r"\\(\\*(\\w+)\\)\\(", header)[-1]
        names = "mismatch", "device_record_bytes", "device_statistics", "device_fold", last
        print(*map(device_kernel.place_of, names), library.sonde_api(2)[0])"""
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=BENCHMARKS)
    assert run.returncode == 0, run.stderr
    mismatch, records, statistics, fold, last, size = map(int, run.stdout.split())
    assert (mismatch, statistics - records, fold - statistics, size - last) == (16, 8, 8, 8)


def test_the_script_for_gpus_shows_an_example_and_refuses_an_unknown_option():
    script = BENCHMARKS.parent / "scripts/gpu"
    shown = subprocess.run([script, "--help"], check=False, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "SONDE_PYTHON=/opt/torch/bin/python scripts/gpu --write" in shown.stdout
    refused = subprocess.run([script, "--wirte"], check=False, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "did you mean --checks or --write?" in refused.stderr
    named = BENCHMARKS.parent / "docs/devices.md"
    for part in "steps", "kernel":
        assert named.read_text().count(f"<!-- scripts/gpu --write, {part}: ") == 2
