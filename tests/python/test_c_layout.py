"""The C ABI stays as it is: the exported functions, and the sizes, offsets and values of sonde.h, as committed.

    python tests/python/test_c_layout.py --update      # writes them anew, to be reviewed as text

What exists keeps its place and its value (sonde.h, "Versions"); new entries come at the end of a struct or an enum.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import sonde

HERE = pathlib.Path(__file__).parent
HEADER = HERE.parent.parent / "include/sonde/sonde.h"
PACKAGE = pathlib.Path(sonde.__file__).parent
SYMBOLS, LAYOUT = HERE / "c_abi/symbols.txt", HERE / "c_abi/layout.txt"


def run(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=True).stdout


def exported():
    """(the functions of C that libsonde.so exports, one a line; the names of C++)"""
    listed = run("nm", "-D", "--defined-only", "--demangle", PACKAGE / "libsonde.so").splitlines()
    names = sorted({line.split(maxsplit=2)[2].partition("@")[0] for line in listed if " A " not in line})
    return "".join(f"{name}\n" for name in names if "::" not in name), [name for name in names if "::" in name]


def test_the_extension_of_python_exports_nothing_else():
    """A C++ library that it exported would take the place of PyTorch's."""
    (extension,) = PACKAGE.glob("_core.*so")
    assert run("nm", "-D", "--defined-only", extension).split()[1:] == ["T", "PyInit__core"]


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def structs(text):
    """(name, names of its fields) of each struct that the header defines."""
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        fields = []
        for declaration in body.replace("\n", " ").split(";"):
            pointer = re.search(r"\(\*(\w+)\)\(", declaration)
            names = re.findall(r"(\w+)(?:\[\d+\])?\s*(?:,|$)", declaration.strip())
            fields += [pointer[1]] if pointer else names
        yield name, fields


def constants(text):
    """Values of enums, and macros that are numbers."""
    for body in re.findall(r"^enum \w+ \{\n(.*?)^\};", text, re.MULTILINE | re.DOTALL):
        yield from re.findall(r"^ *(SONDE_\w+) =", body, re.MULTILINE)
    yield from re.findall(r"^#define (SONDE_\w+) \d+u?", text, re.MULTILINE)


def layout():
    """Compiles a program in C that prints the header as numbers."""
    text = without_comments(HEADER.read_text())
    lines = [f'  printf("{name} %lld\\n", (long long){name});' for name in constants(text)]
    for name, fields in structs(text):
        lines.append(f'  printf("struct {name} %zu\\n", sizeof(struct {name}));')
        for field in fields:
            place = f"offsetof(struct {name}, {field}), sizeof(((struct {name}*)0)->{field})"
            lines.append(f'  printf("  {field} %zu %zu\\n", {place});')
    with tempfile.TemporaryDirectory() as scratch:
        source, program = pathlib.Path(scratch, "layout.c"), pathlib.Path(scratch, "layout")
        head = ['#include "sonde/sonde.h"', "#include <stdio.h>", "int main(void) {"]
        source.write_text("\n".join([*head, *lines, "}", ""]))
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{HEADER.parents[1]}", source, "-o", program)
        return run(program)


def test_the_library_exports_the_committed_functions_and_no_others():
    functions, others = exported()
    assert functions == SYMBOLS.read_text()
    assert others and all(name.startswith("sonde::") for name in others)


def test_the_header_has_the_committed_sizes_offsets_and_values():
    assert layout() == LAYOUT.read_text()


def test_the_layout_knows_every_struct_field_and_number_of_the_header():
    text = without_comments(HEADER.read_text())
    listed = LAYOUT.read_text()
    assert re.findall(r"^struct (\w+) \{", text, re.MULTILINE) == re.findall(r"^struct (\w+)", listed, re.MULTILINE)
    (table,) = (fields for name, fields in structs(text) if name == "sonde_api")
    assert len(table) == len(re.findall(r"\(\*\w+\)\(", text[text.index("struct sonde_api {") :])) + 3, "and its head"
    assert set(re.findall(r"\bSONDE_[A-Z0-9_]+\b", text)) - {"SONDE_EXPORT", "SONDE_SONDE_H_"} <= set(listed.split())


if __name__ == "__main__" and sys.argv[1:] == ["--update"]:
    SYMBOLS.write_text(exported()[0])
    LAYOUT.write_text(layout())
