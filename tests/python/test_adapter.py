"""The library that watches PyTorch: found, built on first use, refused where it would not fit."""

import os
import pathlib
import shutil
import stat
import sys

import pytest

import sonde
from sonde import adapter


@pytest.fixture
def package(monkeypatch, tmp_path):
    """The adapter module with an empty package and an empty cache; its sources are one line that compiles at once."""
    sources = tmp_path / "package" / "adapters" / "torch"
    sources.mkdir(parents=True)
    (sources / "one.cpp").write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(adapter, "_PACKAGE", tmp_path / "package")
    monkeypatch.setattr(adapter, "_BUILT", tmp_path / "package" / "adapters" / "built")
    monkeypatch.setattr(adapter, "_SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    return tmp_path


def test_the_first_use_builds_into_the_cache_with_one_line(package, capfd):
    library = adapter.find_or_build()
    assert library.parent == package / "cache" / "sonde"
    assert library.read_bytes().startswith(b"\x7fELF")
    err = capfd.readouterr().err
    assert err.startswith("sonde: building the adapter for PyTorch 2.13")
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
    monkeypatch.setattr(adapter.sysconfig, "get_path", lambda name: "/nonexistent")
    with pytest.raises(adapter.AdapterError, match=r"Python\.h is not in .* apt install python3-dev"):
        adapter.find_or_build()


@pytest.mark.parametrize("version", ["2.12.1", "2.14.0+cu130", "3.0.0"])
def test_another_minor_of_torch_is_refused_by_name(package, monkeypatch, version):
    strange = adapter.Torch(pathlib.Path("/torch"), version, "abc")
    monkeypatch.setattr(adapter, "find_torch", lambda: strange)
    with pytest.raises(adapter.AdapterError, match=rf"PyTorch {version.split('+')[0]}.* knows 2\.13"):
        adapter.find_or_build()


def test_another_minor_of_python_is_refused_by_name(package, monkeypatch):
    monkeypatch.setattr(adapter, "PYTHON_MINORS", ("3.9",))
    with pytest.raises(adapter.AdapterError, match=r"is not supported; .* CPython 3\.9"):
        adapter.find_or_build()


def test_training_goes_on_when_torch_is_refused(train, config, tmp_path, dump):
    copy = tmp_path / "copy"
    shutil.copytree(pathlib.Path(sonde.__file__).parent, copy / "sonde")
    source = copy / "sonde" / "adapter.py"
    source.write_text(source.read_text().replace('TORCH_MINORS = ("2.13",)', 'TORCH_MINORS = ("2.11",)'))
    run = train(config=config(), PYTHONPATH=copy)
    assert run.status == 0
    assert "trained" in run.stdout
    assert len(run.stderr.splitlines()) == 1
    assert "PyTorch 2.13" in run.stderr
    assert "knows 2.11" in run.stderr
    assert not dump.exists()


def test_status_says_what_is_there(execute):
    run = execute(sys.executable, "-m", "sonde.adapter", "status")
    assert '"torch": "2.13' in run.stdout
    assert run.status == 0
