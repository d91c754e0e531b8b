"""sonde/dump.h: a program outside the checkout, compiled against the installed files."""

import pathlib
import re
import shutil
import subprocess

import mindspore_tree
import numpy as np
import pytest

import sonde

ROOT = pathlib.Path(__file__).parent.parent.parent
PACKAGE = pathlib.Path(sonde.__file__).parent


def run(*command, **settings):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, check=False, **settings)


def compiled(directory, name):
    """A program of examples/cpp."""
    include, library = PACKAGE / "include", PACKAGE / "libsonde.so"
    built = run(
        *("c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", ROOT / f"examples/cpp/{name}.cpp", f"-I{include}"),
        *(library, f"-Wl,-rpath,{PACKAGE}", "-o", directory / name),
    )
    assert built.returncode == 0, built.stderr
    return directory / name


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("cpp", numbered=True), "largest")


def test_a_program_asks_a_dump_through_the_header(program, tmp_path):
    dump = mindspore_tree.write(tmp_path)
    values = [float(np.load(file).max()) for file in dump.glob("rank_0/Net/0/*/*.output.*.npy")]
    asked = run(program, dump)
    assert asked.returncode == 0, asked.stderr
    lines = [line.split() for line in asked.stdout.splitlines()]
    assert [float(line[0]) for line in lines] == sorted(values, reverse=True)[:5]
    assert all(line[4:] == ["float32", "of", "6", "elements"] for line in lines)
    chosen = run(program, dump, "Conv2D-op1$").stdout.splitlines()
    assert [line.split()[3] for line in chosen] == ["Default/network-Net/conv-Conv2d/Conv2D-op1:output.0"] * 2


def test_errors_come_as_values(program, tmp_path):
    assert (run(program, tmp_path / "no").returncode, run(program, tmp_path / "no").stderr.count("\n")) == (3, 1)
    dump = mindspore_tree.write(tmp_path)
    assert "is not a regular expression" in run(program, dump, "(").stderr


INSTALLED = PACKAGE / "include/sonde"
HEADERS = sorted(path.name for path in INSTALLED.iterdir())


def exported(header):
    """The parts of the library in a header, with their C++ names: `sonde::Dump::path`."""
    names, inside = [], ""
    for line in (INSTALLED / header).read_text().splitlines():
        if opened := re.match(r"(?:class|struct) (\w+) .*{$", line):
            inside = opened[1] + "::"
        elif line.startswith("};"):
            inside = ""
        elif found := re.match(r"\s*SONDE_EXPORT .*?(\w+)\(", line):
            names.append(("" if header == "sonde.h" else "sonde::" + inside) + found[1])
    names.remove("sonde::Dump::open_version") if header == "dump.h" else None  # private: Dump::open calls it
    return names


# Functions that share a name, so that the name is not one address; analyses.cpp of the extension links them.
OVERLOADED = ("sonde::word_of", "sonde::text_of", "sonde::json_text_of")


@pytest.mark.parametrize("header", HEADERS)
def test_a_program_with_one_header_links_with_all_that_it_shows(header, tmp_path):
    names = sorted(set(exported(header)) - set(OVERLOADED))
    uses = "".join(f"  used += reinterpret_cast<const char*>(&address{i})[0];\n" for i in range(len(names)))
    takes = "".join(f"  auto address{i} = &{name};\n" for i, name in enumerate(names))
    if header == "dump.h":
        takes += '  used += sonde::Dump::open("") ? 1 : 0;\n'
    source = tmp_path / "main.cpp"
    source.write_text(
        f'#include "sonde/{header}"\nint main() {{\n  int used = 0;\n{takes}{uses}  return used == 1;\n}}\n'
    )
    built = run(
        *("c++", "-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", source),
        *(f"-I{PACKAGE / 'include'}", PACKAGE / "libsonde.so", "-o", tmp_path / "program"),
    )
    assert built.returncode == 0, built.stderr


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_shows_something_or_holds_plain_data_for_one_that_does(header):
    text = (INSTALLED / header).read_text()
    declared = r"^ *(?:explicit |friend )?[\w:<>,&* ]*\w[=&<>!]*\([^()]*\)(?: const)?(?: noexcept)?;"
    found = (line.strip() for line in re.findall(declared, text, re.MULTILINE))
    shown = tuple(f"friend Result<ComparedDumps> {name.removeprefix('sonde::')}(" for name in exported(header))
    hidden = [line for line in found if not line.startswith(("SONDE_EXPORT ", "return ", *shown))]
    assert hidden == [] or header == "sonde.h", "without SONDE_EXPORT it does not link"
    # libtorch.h finds the functions of another library when the program runs.
    assert any(exported(other) for other in users_of(header)) or header == "libtorch.h"


def users_of(header):
    """The header, and those that include it."""
    name = f'#include "sonde/{header}"'
    direct = [other for other in HEADERS if name in (INSTALLED / other).read_text()]
    return {header, *(user for other in direct for user in users_of(other))}


def test_what_is_installed_is_what_links():
    written = {path.name for path in (ROOT / "include/sonde").iterdir()}
    assert {*HEADERS} == written | {"answers.h", "known_statistics.h", "questions.h"}  # made from contract/


@pytest.mark.skipif(not (ROOT / "build" / "CMakeCache.txt").exists(), reason="the engine was built elsewhere")
def test_pkg_config_and_cmake_find_what_is_installed(tmp_path):
    installed = run("cmake", "--install", ROOT / "build", "--component", "development", "--prefix", tmp_path / "usr")
    assert installed.returncode == 0, installed.stderr
    (pc,) = (tmp_path / "usr").rglob("sonde.pc")
    flags = run(
        "pkg-config", "--cflags", "--libs", "sonde", env={"PKG_CONFIG_PATH": str(pc.parent), "PATH": "/usr/bin"}
    )
    include, library = (pathlib.Path(flag[2:]) for flag in flags.stdout.split() if flag[:2] in ("-I", "-L"))
    assert (include / "sonde/dump.h").is_file() and (library / "libsonde.so").is_file(), flags
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "examples/cpp/largest.cpp", project)
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(example CXX)\nfind_package(sonde 0.1 REQUIRED)\n"
        'get_target_property(at sonde::sonde IMPORTED_LOCATION)\nmessage(STATUS "found ${at}")\n'
    )
    found = run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'usr'}")
    assert f"found {library.resolve() / 'libsonde.so'}" in found.stdout, found.stdout + found.stderr
