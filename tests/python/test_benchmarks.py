"""The programs in benchmarks/ start, and their C++ compiles: nothing else runs them between two releases."""

import ast
import json
import pathlib
import subprocess
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
# Modules that the programs import.
PARTS = ("models.py",)
PROGRAMS = sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name not in PARTS)


def test_there_are_programs():
    assert {"training.py", "callback_cost.py", "many_files.py"} <= set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_benchmark_starts_and_shows_its_options(program, tmp_path):
    run = subprocess.run(
        [sys.executable, BENCHMARKS / program, "--help"], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert (run.returncode, run.stderr) == (0, "")
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
