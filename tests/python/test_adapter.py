"""The library that watches PyTorch: found, built on first use, refused if it would not fit."""

import contextlib
import itertools
import json
import os
import pathlib
import platform
import shutil
import stat
import sys
import threading
import time

import pytest
from processes import CLI

import sonde
from sonde import adapter, adapter_build, torch_installation

OTHER_USER = 65534
needs_a_second_user = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: runs as root")


@pytest.fixture
def package(monkeypatch, tmp_path):
    """The adapter module with an empty package and an empty cache; its sources are one line that compiles at once."""
    sources = tmp_path / "package" / "adapters" / "torch"
    sources.mkdir(parents=True)
    (sources / "one.cpp").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(adapter, "_BUILT", tmp_path / "package" / "adapters" / "built")
    monkeypatch.setattr(torch_installation, "SOURCES", sources)
    monkeypatch.setattr(adapter_build, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


def test_the_first_use_builds_into_the_cache_with_one_line(package, capfd):
    library = adapter.find_or_build()
    assert library.parent == package / "cache" / "sonde"
    assert library.read_bytes().startswith(b"\x7fELF")
    err = capfd.readouterr().err
    assert err.startswith(f"sonde: building the adapter for PyTorch {adapter.find_torch().version} ")
    assert err.endswith(" s\n")
    assert err.count("\n") == 1


def test_the_second_use_builds_nothing(package, capfd):
    first = adapter.find_or_build()
    capfd.readouterr()
    changed = first.stat().st_mtime_ns
    assert adapter.find_or_build() == first
    assert first.stat().st_mtime_ns == changed
    assert capfd.readouterr().err == ""


def test_the_package_comes_before_the_cache(package):
    built = adapter.build(adapter.find_torch(), package / "package" / "adapters" / "built")
    assert adapter.find_or_build() == built
    assert not (package / "cache").exists()


def test_other_sources_make_another_library(package):
    first = adapter.find_or_build()
    (package / "package" / "adapters" / "torch" / "one.cpp").write_text('extern "C" int two() { return 2; }\n')
    assert adapter.find_or_build() != first


def test_sources_that_need_the_slow_headers_are_compiled_together(package, tmp_path):
    sources = package / "package" / "adapters" / "torch"
    for name in ("two", "three"):
        (sources / f"{name}.cpp").write_text("#include <torch/csrc/autograd/node.h>\n")
    units = {unit.stem: unit.read_text() for unit in adapter_build._write_units(adapter.find_torch(), tmp_path)}
    assert [line.count(".cpp") for line in units["with_autograd"].splitlines()] == [1, 1]
    assert units["others"] == f'#include "{sources / "one.cpp"}"\n'


def test_nothing_half_built_is_left_behind(package):
    (package / "package" / "adapters" / "torch" / "two.cpp").write_text("this is not C++\n")
    with pytest.raises(adapter.AdapterError, match=r"cannot build the adapter: .*error"):
        adapter.find_or_build()
    assert os.listdir(package / "cache" / "sonde") == [".lock"]


def test_a_library_that_others_may_write_is_not_loaded(package):
    library = adapter.find_or_build()
    library.chmod(library.stat().st_mode | stat.S_IWOTH)
    assert adapter.find(adapter.find_torch()) is None
    assert not adapter.find_or_build().stat().st_mode & stat.S_IWOTH


def test_a_library_built_under_a_loose_umask_is_still_found(package):
    before = os.umask(0)
    try:
        assert adapter.find_or_build() == adapter.find(adapter.find_torch())
    finally:
        os.umask(before)


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "directory", "another user's"])
def test_what_stands_in_the_place_of_the_lock_is_left_alone_and_never_waited_for(package, kind, capfd):
    victim, lock = package / "victim", package / "cache" / "sonde" / ".lock"
    victim.write_text("precious")
    lock.parent.mkdir(parents=True, mode=0o700)
    if kind == "link":
        lock.symlink_to(victim)
    elif kind == "dangling link":
        lock.symlink_to(package / "new")
    elif kind == "pipe":
        os.mkfifo(lock)
    elif kind == "directory":
        lock.mkdir()
    else:
        if os.geteuid() != 0:
            pytest.skip("needs a second user: runs as root")
        lock.write_text("")
        os.chown(lock, 65534, 65534)
    library = adapter.find_or_build()
    assert library.exists() and library.parent != lock.parent
    shutil.rmtree(library.parent)
    assert victim.read_text() == "precious" and not (package / "new").exists()
    assert f"sonde: cannot keep the adapter: '{lock}': " in capfd.readouterr().err


@pytest.mark.parametrize("level", ["sonde", "cache"])
@pytest.mark.parametrize("kind", ["others write", "another user's"])
def test_a_cache_that_others_could_have_filled_is_neither_loaded_from_nor_built_into(package, level, kind, capfd):
    library = adapter.find_or_build()
    place = library.parent if level == "sonde" else library.parent.parent
    if kind == "others write":
        place.chmod(0o777)
    elif os.geteuid() != 0:
        pytest.skip("needs a second user: runs as root")
    else:
        os.chown(place, 65534, 65534)
    capfd.readouterr()
    assert adapter.find(adapter.find_torch()) is None
    other = adapter.find_or_build()
    assert other.parent != library.parent
    shutil.rmtree(other.parent)
    assert f"sonde: cannot keep the adapter: '{place}': " in capfd.readouterr().err
    assert sorted(os.listdir(library.parent)) == [".lock", library.name]


def test_a_library_that_is_a_link_is_not_loaded(package):
    library = adapter.find_or_build()
    elsewhere = library.rename(package / "elsewhere.so")
    library.symlink_to(elsewhere)
    assert adapter.find(adapter.find_torch()) is None
    assert adapter.find_or_build() == library and not library.is_symlink()


@needs_a_second_user
@pytest.mark.parametrize("case", ["a link of another user", "a directory of another user", "one that others write"])
def test_a_cache_reached_through_what_another_user_can_exchange_is_not_used(package, monkeypatch, capfd, case):
    library = adapter.find_or_build()
    others = package / "others"
    others.mkdir()
    (others / "link").symlink_to(package / "cache")
    if case == "a link of another user":
        os.lchown(others / "link", OTHER_USER, OTHER_USER)
    elif case == "a directory of another user":
        os.chown(others, OTHER_USER, OTHER_USER)
    else:
        others.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(others / "link"))
    capfd.readouterr()
    assert adapter.find(adapter.find_torch()) is None
    other = adapter.find_or_build()
    assert other.parent != library.parent
    shutil.rmtree(other.parent)
    place = others / "link" if case == "a link of another user" else others
    assert f"sonde: cannot keep the adapter: '{place}': " in capfd.readouterr().err


def test_links_of_this_user_are_followed_and_the_library_is_named_without_them(package, monkeypatch):
    library = adapter.find_or_build()
    (package / "one").symlink_to("two")
    (package / "two").symlink_to(package / "cache" / ".." / "cache")
    (package / "loop").symlink_to("loop")
    monkeypatch.setenv("XDG_CACHE_HOME", str(package / "one"))
    assert adapter.find(adapter.find_torch()) == library
    monkeypatch.setenv("XDG_CACHE_HOME", str(package / "loop"))
    assert adapter.find(adapter.find_torch()) is None


@needs_a_second_user
def test_a_link_that_turns_while_the_cache_is_looked_at_never_gives_another_library(package, monkeypatch):
    library = adapter.find_or_build()
    others, evil = package / "others", package / "evil"
    (evil / "sonde").mkdir(parents=True)
    shutil.copy(library, evil / "sonde" / library.name)
    others.mkdir()
    for path in (others, evil, evil / "sonde", evil / "sonde" / library.name):
        os.chown(path, OTHER_USER, OTHER_USER)
    others.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(others / "link"))
    stop = threading.Event()

    def turn():
        for target in itertools.cycle([evil, package / "cache"]):
            if stop.is_set():
                return
            with contextlib.suppress(FileExistsError):
                (others / "new").symlink_to(target)
            os.rename(others / "new", others / "link")

    attacker = threading.Thread(target=turn)
    attacker.start()
    torch = adapter.find_torch()
    found = {adapter.find(torch) for _ in range(300)}
    os.chown(others, 0, 0)  # a directory of one's own, whose links others make
    found |= {adapter.find(torch) for _ in range(300)}
    stop.set()
    attacker.join()
    assert found <= {None, library}


@needs_a_second_user
def test_a_temporary_directory_that_others_can_exchange_is_not_built_in(package, monkeypatch):
    (package / "tmp").mkdir()
    os.chown(package / "tmp", OTHER_USER, OTHER_USER)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-cache")
    monkeypatch.setattr(adapter.tempfile, "tempdir", str(package / "tmp"))
    with pytest.raises(adapter.AdapterError, match=f"'{package}/tmp': it belongs to user {OTHER_USER}; XDG_CACHE_HOME"):
        adapter.find_or_build()
    assert list((package / "tmp").iterdir()) == []


def test_a_cache_that_cannot_be_made_does_not_stop_the_build(package, monkeypatch):
    (package / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(package / "file"))
    library = adapter.find_or_build()
    assert library.exists()
    shutil.rmtree(library.parent)


@pytest.mark.parametrize(("name", "value"), [("CXX", "no-such-compiler"), ("PATH", "/nonexistent")])
def test_a_missing_compiler_is_named_with_its_package(package, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(adapter.AdapterError, match=r"is not installed; on Debian: apt install g\+\+"):
        adapter.find_or_build()


def test_missing_python_headers_are_named_with_their_package(package, monkeypatch):
    monkeypatch.setattr(torch_installation.sysconfig, "get_path", lambda name: "/nonexistent")
    with pytest.raises(adapter.AdapterError, match=r"Python\.h is not in .* apt install python3-dev"):
        adapter.find_or_build()


@pytest.mark.parametrize("version", ["2.5.1", "1.13.0+cu117", "unknown"])
def test_a_torch_before_the_oldest_is_refused_by_name(package, monkeypatch, version):
    strange = adapter.Torch(pathlib.Path("/torch"), version, "abc")
    monkeypatch.setattr(adapter, "find_torch", lambda: strange)
    with pytest.raises(adapter.AdapterError, match=rf"PyTorch {version.split('+')[0]}.* knows PyTorch 2\.6 and later"):
        adapter.find_or_build()


def test_another_minor_of_python_is_refused_by_name(package, monkeypatch):
    monkeypatch.setattr(torch_installation, "PYTHON_MINORS", ("3.8", "3.9"))
    with pytest.raises(adapter.AdapterError, match=r"is not supported; .* CPython 3\.8 to 3\.9"):
        adapter.find_or_build()


def test_a_free_threaded_python_is_refused_by_name(package, monkeypatch):
    variables = {"Py_GIL_DISABLED": 1}
    monkeypatch.setattr(torch_installation.sysconfig, "get_config_var", variables.get)
    with pytest.raises(adapter.AdapterError, match=r"the free-threaded build of Python .* is not supported"):
        adapter.find_or_build()


@pytest.mark.parametrize(
    ("version", "tested"),
    [
        ("2.13.0", True),
        ("2.13.1+cpu", True),
        ("2.6.0+cu124", True),
        ("2.16.0", False),
        ("2.13.0a0+git1234567", False),
        ("2.15.0.dev20260801+cpu", False),
    ],
)
def test_a_release_of_a_tried_minor_needs_no_self_test(version, tested):
    assert adapter.Torch(pathlib.Path("/torch"), version, "abc").is_tested == tested


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")', False),
        ('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=1")', True),
        (None, True),
    ],
)
def test_the_abi_of_the_standard_library_is_that_of_torch(tmp_path, config, expected):
    if config is not None:
        place = tmp_path / "share" / "cmake" / "Torch"
        place.mkdir(parents=True)
        (place / "TorchConfig.cmake").write_text(config)
    torch = adapter.Torch(tmp_path, "2.6.0", "abc")
    assert torch.cxx11_abi == expected
    assert f"-D_GLIBCXX_USE_CXX11_ABI={int(expected)}" in adapter_build._compile_flags(torch)


@pytest.fixture
def untried(tmp_path, monkeypatch):
    """A copy of the package that was tried with no version of PyTorch, with the adapter that was built for it."""
    copy = tmp_path / "copy"
    shutil.copytree(pathlib.Path(sonde.__file__).parent, copy / "sonde")
    source = copy / "sonde" / "torch_installation.py"
    text = source.read_text()
    start = text.index("TESTED_TORCH_MINORS = (")
    source.write_text(text[:start] + "TESTED_TORCH_MINORS = ()" + text[text.index(")", start) + 1 :])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return copy


def test_a_torch_that_nobody_tried_is_recorded_after_a_self_test(train, config, tmp_path, dump, untried):
    run = train(config=config(), PYTHONPATH=untried, XDG_CACHE_HOME=tmp_path / "cache")
    assert run.status == 0, run.stderr
    assert "is not a tested version; testing the adapter (only once) ... passed" in run.stderr
    assert "sonde: recorded" in run.stderr
    again = train(config=config(), PYTHONPATH=untried, XDG_CACHE_HOME=tmp_path / "cache")
    assert "is not a tested version; the adapter's self-test passed" in again.stderr
    assert "testing the adapter" not in again.stderr


@pytest.mark.long
def test_a_python_that_nobody_tried_needs_the_self_test_too(train, config, tmp_path, untried):
    source = untried / "sonde" / "torch_installation.py"
    text = source.read_text().replace(
        "TESTED_TORCH_MINORS = ()", f"TESTED_TORCH_MINORS = ('{adapter.find_torch().minor}',)"
    )
    source.write_text(text.replace("TESTED_PYTHON_MINORS = (", "TESTED_PYTHON_MINORS = () and ("))
    run = train(config=config(), PYTHONPATH=untried, XDG_CACHE_HOME=tmp_path / "cache")
    assert run.status == 0, run.stderr
    assert f"sonde: Python {platform.python_version()} is not a tested version; testing the adapter" in run.stderr
    assert "sonde: recorded" in run.stderr


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("frames", "the adapter does not find the interpreter's frames"),
        pytest.param("numbers", "a recorded training computes other numbers than a bare one", marks=pytest.mark.long),
        pytest.param(
            "statistics", "no tensor of the dump has the statistics of the logits in PyTorch", marks=pytest.mark.long
        ),
        ("crash", "it was ended by SIGSEGV"),
    ],
)
def test_a_failed_self_test_says_what_failed_and_the_training_goes_on(  # noqa: PLR0917
    train, config, tmp_path, dump, untried, change, reason
):
    program = untried / "sonde" / "self_test_training.py"
    test = untried / "sonde" / "self_test.py"
    if change == "frames":
        test.write_text(test.read_text().replace("seen = walk()", "seen = walk()[1:]"))
    elif change == "numbers":
        program.write_text(program.read_text().replace("torch.manual_seed(3)", "torch.seed()"))
    elif change == "statistics":
        program.write_text(program.read_text().replace("logits.detach().clone()", "logits.detach() + 1"))
    else:
        program.write_text(program.read_text() + "\nimport ctypes\nctypes.string_at(0)\n")
    run = train(config=config(), PYTHONPATH=untried, XDG_CACHE_HOME=tmp_path / "cache")
    assert run.status == 0
    assert "trained" in run.stdout
    assert f"is not a tested version, and the adapter's self-test failed: {reason}" in run.stderr.replace(
        "in step 0, ", ""
    )
    assert not dump.exists()
    again = train(config=config(), PYTHONPATH=untried, XDG_CACHE_HOME=tmp_path / "cache")
    assert reason in again.stderr and len(again.stderr.splitlines()) == 1


def test_training_goes_on_when_torch_is_refused(train, config, tmp_path, dump):
    copy = tmp_path / "copy"
    shutil.copytree(pathlib.Path(sonde.__file__).parent, copy / "sonde")
    source = copy / "sonde" / "torch_installation.py"
    source.write_text(source.read_text().replace("OLDEST_TORCH = (2, 6)", "OLDEST_TORCH = (3, 0)"))
    run = train(config=config(), PYTHONPATH=copy)
    assert run.status == 0
    assert "trained" in run.stdout
    assert len(run.stderr.splitlines()) == 1
    assert f"PyTorch {adapter.find_torch().version} is not supported" in run.stderr
    assert "knows PyTorch 3.0 and later" in run.stderr
    assert not dump.exists()


def test_status_says_what_is_there(execute):
    run = execute(sys.executable, "-m", "sonde.adapter", "status")
    assert json.loads(run.stdout)["torch"] == adapter.find_torch().version
    assert run.status == 0


def test_the_command_builds_in_the_background_and_shows_when_it_is_done(execute, tmp_path):
    # A package that nothing was built into; a compiler that waits for a file, so that both states are seen.
    copy = tmp_path / "copy"
    shutil.copytree(pathlib.Path(sonde.__file__).parent, copy / "sonde", ignore=shutil.ignore_patterns("built"))
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f"#!/bin/sh\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n"
        'while [ "$1" ]; do [ "$1" = -o ] && echo compiled >"$2"; shift; done\n'
    )
    compiler.chmod(0o755)
    variables = {"PYTHONPATH": copy, "XDG_CACHE_HOME": tmp_path / "cache", "CXX": compiler}
    started = execute(CLI, "adapter", "build", "--background", **variables)
    assert started.status == 0, started.stderr
    assert "in the background" in started.stdout

    def state():
        facts = json.loads(execute(CLI, "info", "--json", **variables).stdout)["python"]
        return facts.get("adapter") or facts["problem"]

    def wait_for(text):
        deadline = time.monotonic() + 60
        while text not in (seen := state()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert text in seen

    wait_for("being built")
    (tmp_path / "go").touch()
    wait_for(str(tmp_path / "cache" / "sonde"))
    again = execute(CLI, "adapter", "build", "--background", **variables)
    assert again.stdout.startswith(str(tmp_path / "cache"))
