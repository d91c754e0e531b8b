"""The names and types that `import sonde` offers."""

import ast
import ctypes
import pathlib
import re
import subprocess
import sys

import pytest
from processes import CLI

import sonde
from sonde import _core, mindspore
from sonde.library import Library

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = ("acl", "debugger", "dump", "export", "session", "torchair")

# A user's program; its output are types, and its last two lines are wrong.
PROGRAM = """
import sonde

tensor = sonde.open("run7").tensors.select(op="conv2", step=range(3))[0]
reveal_type(tensor.shape)
reveal_type(tensor.statistics.nan_count)
reveal_type(tensor.op)
reveal_type(sonde.acl.finalize_dump())
with sonde.capture(out="run7", kernels=["conv2d"]) as session:
    reveal_type(session.summary)
sonde.set_dump("conv2d", enabled=1)
sonde.dumps
"""


def test_every_module_for_users_is_reached_by_import_sonde(execute):
    lines = [f"assert sonde.{module}.__name__ == 'sonde.{module}'" for module in MODULES]
    run = execute(sys.executable, "-c", "\n".join(["import sonde", *lines, "print('reached')"]))
    assert (run.stdout, run.stderr) == ("reached\n", "")


def test_modules_for_users_are_listed_and_not_imported_before_they_are_used(execute):
    listed = (
        "import sys, sonde; print(*dir(sonde)); print(*(name for name in sys.modules if name.startswith('sonde.')))"
    )
    names, imported = (line.split() for line in execute(sys.executable, "-c", listed).stdout.splitlines())
    assert {*MODULES, *sonde.__all__} <= set(names)
    assert "sonde.session" in imported
    assert not {"sonde.acl", "sonde.debugger", "sonde.dump", "sonde.export", "sonde.torchair"} & set(imported)


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'dumps'"):
        sonde.dumps  # noqa: B018


@pytest.mark.long
def test_types_reach_a_user_of_the_installed_package(execute, tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    run = execute(sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", "mine.py")
    assert re.findall(r'note: Revealed type is "(.*)"', run.stdout.replace("builtins.", "")) == [
        "tuple[int, ...] | None",
        "int | None",
        "sonde.dump.rows.Op",
        "str",
        "str",
    ]
    errors = [line for line in run.stdout.splitlines() if "error:" in line]
    assert len(errors) == 2
    assert '"set_dump" has incompatible type "int"; expected "bool"' in errors[0]
    assert 'Module has no attribute "dumps"' in errors[1]


def test_run_info_is_the_struct_of_the_header():
    header = (ROOT / "include/sonde/sonde.h").read_text()
    fields = re.findall(r"^ +(.+?) ?(\w+);", re.search(r"struct sonde_run_info \{(.*?)\};", header, re.DOTALL)[1], re.M)
    c_types = {"uint32_t": ctypes.c_uint32, "const char*": ctypes.c_char_p}
    assert [(name, c_types[c_type]) for c_type, name in fields] == list(mindspore.RunInfo._fields_)


def functions_of(body):
    """{name: names of parameters} of the functions of a module or class."""
    return {
        node.name: [argument.arg for argument in (*node.args.posonlyargs, *node.args.args) if argument.arg != "self"]
        for node in body
        if isinstance(node, ast.FunctionDef)
    }


def functions_at_runtime(place):
    """The same of the extension, whose functions know their own text."""
    found = {}
    for name in vars(place):
        for text, *_ in getattr(getattr(place, name), "__nb_signature__", ()):
            (function,) = ast.parse(re.sub(r"\\[0-9]+", "...", text) + ": ...").body
            found |= functions_of([function])
    return found


def test_the_stub_of_the_engine_has_its_functions_and_their_parameters():
    body = ast.parse((ROOT / "python/sonde/_core.pyi").read_text()).body
    (dump,) = [node for node in body if isinstance(node, ast.ClassDef) and node.name == "Dump"]
    assert functions_of(body) == functions_at_runtime(_core)
    assert functions_of(dump.body) == functions_at_runtime(_core.Dump)
    assert len(functions_of(body)) > 10 < len(functions_of(dump.body))


def test_what_is_said_of_the_adapter_is_what_it_has():
    methods = re.findall(r'^ {4}\{"(\w+)", \w+, METH_', (ROOT / "adapters/torch/module.cpp").read_text(), re.MULTILINE)
    assert sorted(methods) == sorted(name for name in vars(Library) if not name.startswith("_"))


def test_libraries_and_the_command_are_linked_at_once_so_that_their_tables_of_functions_are_read_only():
    """But _mindspore.so, whose functions are MindSpore's own, which may be loaded later."""
    package = pathlib.Path(sonde.__file__).parent
    files = [pathlib.Path(CLI), package / "libsonde.so", *package.glob("_core*.so")]
    files += (package / "adapters/built").glob("*.so")
    assert len(files) >= 4
    for file in files:
        shown = subprocess.run(["readelf", "-dlW", file], capture_output=True, text=True, check=True).stdout
        assert "BIND_NOW" in shown and "GNU_RELRO" in shown, file
