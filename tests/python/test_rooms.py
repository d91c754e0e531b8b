"""Wings and rooms of the engine: docs/design.md names all, and the order in which they may include each other."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [
    path for part in ("include", "src", "cli") for path in (ROOT / part).rglob("*") if path.suffix in (".h", ".cpp")
]
MADE = ROOT / "build/contract"  # of tools/contract.py
LARGEST = 0.12  # of the project's lines


JOINS_THE_HALVES = "src/face/api"


def section():
    return (ROOT / "docs/design.md").read_text().partition("## Wings and rooms")[2].partition("\n## ")[0]


def wings():
    """Each wing with those that it may include."""
    rows = re.findall(r"^\| `src/(\w+)` \| ([\w, ]*)\|", section().partition("| room |")[0], re.MULTILINE)
    return {wing: set(re.findall(r"\w+", included)) for wing, included in rows}


def rooms():
    """Folders in the order of the table."""
    return re.findall(r"^\| `([a-z_/]+)` \|", section().partition("| room |")[2], re.MULTILINE)


def room_of(path):
    inside = path.relative_to(ROOT).parts
    return inside[0] if inside[0] == "cli" else "/".join(inside[: 3 if inside[0] == "src" else 2])


def wing_of(room):
    return room.split("/")[1]


def test_the_table_names_every_folder_and_no_other():
    assert {room_of(path) for path in SOURCES} == set(rooms())
    named = re.search(r"foreach\(room IN ITEMS\s([^)]*)\)", (ROOT / "CMakeLists.txt").read_text())[1].split()
    assert [f"src/{name}" for name in named] == [room for room in rooms() if room.startswith("src/")]


@pytest.mark.parametrize("room", rooms())
def test_a_room_includes_only_rooms_above_it(room):
    above = rooms()[: rooms().index(room) + 1]
    for path in SOURCES:
        if room_of(path) != room:
            continue
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            if (MADE / name).exists():
                continue
            found = [base / name for base in (path.parent, ROOT / "src", ROOT / "include") if (base / name).exists()]
            assert found, (path, name)
            assert room_of(found[0]) in above, f"{path.relative_to(ROOT)} includes {name}"


def test_there_are_eight_wings():
    assert set(wings()) == {path.name for path in (ROOT / "src").iterdir() if path.is_dir()}
    assert len(wings()) == 8
    assert "read" not in wings()["record"] and "record" not in wings()["read"]


@pytest.mark.parametrize("room", [room for room in rooms() if room.startswith("src/") and room != JOINS_THE_HALVES])
def test_a_wing_includes_only_the_wings_of_its_row(room):
    allowed = wings()[wing_of(room)] | {wing_of(room)}
    for path in SOURCES:
        if room_of(path) == room:
            seen = re.findall(r'#include "(\w+)/\w+/', path.read_text())
            assert set(seen) <= allowed, path.relative_to(ROOT)


@pytest.mark.parametrize("face", ["cli", JOINS_THE_HALVES])
@pytest.mark.parametrize("work", ["StepSet::parse", "RE2", "select_watched", "read_mapping"])
def test_the_command_and_the_library_leave_the_work_to_rooms(face, work):
    """The function that both need belongs to a room: parse_steps, NameMatcher, make_watchpoints, compare_options, …."""
    for path in SOURCES:
        assert room_of(path) != face or work not in path.read_text(), path


def test_no_room_is_a_hall():
    lines = {path: path.read_text().count("\n") for path in SOURCES}
    others = [path for part in ("adapters", "python", "tests") for path in (ROOT / part).rglob("*") if path.is_file()]
    code = [path for path in others if path.suffix in (".h", ".cpp", ".py", ".c")]
    total = sum(lines.values()) + sum(path.read_text().count("\n") for path in code)
    for room in rooms():
        own = sum(count for path, count in lines.items() if room_of(path) == room)
        assert room == "cli" or own <= LARGEST * total, f"{room}: {own} of {total} lines"


def test_tests_have_the_folders_of_the_rooms():
    folders = {path.name for path in (ROOT / "tests/engine").iterdir() if path.is_dir()}
    assert folders <= {room.split("/")[-1] for room in rooms()}


def test_the_life_of_a_tensor_names_functions_that_exist():
    rows = re.findall(r"^\| +\d+ \| `([\w:]+)` \| `([\w/.]+)` \|", (ROOT / "src/README.md").read_text(), re.MULTILINE)
    assert len(rows) == 28
    for name, file in rows:
        assert re.search(rf"^[^/]*\b{re.escape(name)}\(", (ROOT / file).read_text(), re.MULTILINE), (name, file)


# Names that only one kind of processor has.
PROCESSOR = re.compile(
    r"\w*intrin\.h|cpuid|rdtsc|__x86_64__|__i386__|__SSE|__AVX|_mm\w*_|__builtin_(cpu|ia32)|\basm\b|__aarch64__"
)
KERNELS = ("src/ground/stats", "tests/engine/stats")


def test_only_kernels_know_the_processor():
    parts = ("include", "src", "cli", "adapters", "tests", "benchmarks", "fuzz")
    files = [path for part in parts for path in (ROOT / part).rglob("*") if path.suffix in (".c", ".h", ".cpp")]
    found = {path.relative_to(ROOT).as_posix() for path in files if PROCESSOR.search(path.read_text())}
    assert {path for path in found if not path.startswith(KERNELS)} == set()
    assert "src/ground/stats/cpu_features.cpp" in found


def test_who_joins_includes_it():
    """fmt 11 has fmt::join in a header of its own; files that are compiled together would hide that."""
    for path in SOURCES:
        assert "fmt::join" not in path.read_text() or "#include <fmt/ranges.h>" in path.read_text(), path
