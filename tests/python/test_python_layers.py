"""Modules of the Python package import each other in one direction: each can be read with those below it alone."""

import ast
import graphlib
import pathlib
import re

import pytest

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
MADE = PYTHON.parent / "build/contract/python"
DESIGN = PYTHON / "README.md"
OURS = ("sonde", "sonde_autoload", "sonde_command", "sonde_early")
TOP = {**{name: name for name in OURS}, "__init__": "sonde"}


def modules(*roots):
    """{name: path} of every module, and of the extension by its stub."""
    found = {}
    for root in roots or (PYTHON, MADE):
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.pyi")]):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(name, path, known):
    """Modules of ours that a file imports: anywhere in it, also in a function, also for its types alone."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            base = base if node.level else node.module
            wanted = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base for alias in node.names]
        else:
            continue
        yield from (module for module in wanted if module.split(".")[0] in OURS)


def graph(*roots):
    known = modules(*roots)
    return {name: set(imported_by(name, path, known)) - {name} for name, path in known.items()}


def circle(edges):
    """A cycle of modules, as text; '' if there is none."""
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def test_no_module_imports_itself_through_others():
    assert circle(graph()) == ""


def rows_of_the_table():
    """Modules and packages of python/README.md, a set for each row."""
    table = DESIGN.read_text().partition("## Modules of the Python package")[2].partition("\n## ")[0]
    rows = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    names = [[name.removeprefix("sonde/").removesuffix(".py").rstrip("/") for name in row] for row in rows]
    return [{TOP.get(name, f"sonde.{name}") for name in row} for row in names]


def row_of(module, rows):
    return next((n for n, row in enumerate(rows) if module in row or ".".join(module.split(".")[:2]) in row), None)


def test_modules_import_only_rows_above_theirs():
    rows = rows_of_the_table()
    assert {name for name in modules() if row_of(name, rows) is None} == set()
    assert {name for row in rows for name in row} <= set(modules())
    for module, imported in graph().items():
        for other in imported:
            assert row_of(other, rows) <= row_of(module, rows), f"{module} imports {other}"


def test_exceptions_and_the_console_are_at_the_bottom():
    edges = graph()
    assert [edges[f"sonde.{name}"] for name in ("errors", "console", "host", "library")] == [set()] * 4
    assert edges["sonde_early"] == set()


def test_modules_of_ours_are_imported_by_statements_which_this_file_can_see():
    """`sonde` itself is above all, and imports some of its modules on request by name."""
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if name != "sonde" and isinstance(node, ast.Call) and node.args:
                called = ast.unparse(node.func).rpartition(".")[2]
                assert called not in ("import_module", "__import__") or "sonde" not in ast.unparse(node.args[0]), name


@pytest.mark.parametrize(
    "lower", ["from . import upper", "def later():\n    from .upper import thing", "import sonde.upper"]
)
def test_a_circle_is_seen_also_in_a_function(tmp_path, lower):
    package = tmp_path / "sonde"
    package.mkdir()
    (package / "__init__.py").write_text("from . import upper\n")
    (package / "upper.py").write_text("from .lower import other\n")
    (package / "lower.py").write_text(f"{lower}\n")
    assert circle(graph(tmp_path)) in (
        "sonde.upper -> sonde.lower -> sonde.upper",
        "sonde.lower -> sonde.upper -> sonde.lower",
    )
