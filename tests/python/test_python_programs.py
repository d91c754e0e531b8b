"""python/sonde/programs: programs for an interpreter that may not have Sonde."""

import ast
import pathlib
import sys

import cann_files as cann
import numpy as np
import pytest
from processes import CLI

PROGRAMS = sorted((pathlib.Path(__file__).resolve().parents[2] / "python/sonde/programs").glob("[a-z]*.py"))

# Also of Python 3.6's own library: a program that starts others and waits.
MORE_MODULES = {"alerts": {"base64", "contextlib", "pathlib", "select", "signal", "subprocess", "time", "urllib"}}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_command_has_the_text_of_the_program(program):
    assert program.read_bytes() in pathlib.Path(CLI).read_bytes()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_older_python_without_packages_understands_the_program(program):
    tree = ast.parse(program.read_text(), feature_version=(3, 6))
    imported = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name.partition(".")[0] for node in imported if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in imported if isinstance(node, ast.ImportFrom)}
    assert names <= {"importlib", "json", "os", "struct", "sys", "typing"} | MORE_MODULES.get(program.stem, set())


@pytest.fixture
def bare_python(tmp_path):
    """A Python without any package, by the name python3 in a directory of its own."""
    directory = tmp_path / "bare"
    directory.mkdir()
    python = directory / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 -S "$@"\n')
    python.chmod(0o755)
    return python


def test_export_says_what_an_interpreter_lacks(sonde, bare_python, tmp_path):
    run = sonde("export", tmp_path, "--to", "run7.npz", "--python", bare_python)
    assert run.status == 2
    assert run.stderr.startswith("sonde: error: cannot export with ")
    assert run.stderr.endswith(
        ": No module named 'sonde'; install sonde and numpy there, or name an interpreter that has them: --python\n"
    )


def test_a_rule_of_the_users_says_that_it_needs_numpy(sonde, bare_python, tmp_path):
    scripts = tmp_path / "scripts" / "format_convert"
    scripts.mkdir(parents=True)
    (scripts / "convert_NCHW_to_NHWC.py").write_text("def convert(shape_from, shape_to, array):\n    return array\n")
    image = cann.container([cann.Tensor(np.ones((1, 2, 2, 2), np.float32), cann_format=cann.NCHW)])
    file = tmp_path / "Conv2D.conv1.3.7.1700000000000000"
    file.write_bytes(image)
    arguments = [file, "--format", "NHWC", "--scripts", scripts.parent, "--out", tmp_path / "out"]
    run = sonde("convert", *arguments, PATH=bare_python.parent)
    assert "custom conversion scripts need NumPy, which " in run.stderr
    assert run.status != 0
