"""Bad surroundings of the adapter: the training computes the same and ends the same, and one line names cause and cure.

The package is a copy without the adapter's library, so it must be built. Most compilers here only pretend to compile:
they copy the library that is there."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import SMALL_TRAINING

import sonde as package
from sonde import adapter, adapter_build, torch_installation

ENDS_WITH_5 = SMALL_TRAINING + "    raise SystemExit(5)\n"
OTHER_USER = 65534


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory):
    """A directory with a copy of the package that has no library of the adapter."""
    copy = tmp_path_factory.mktemp("unbuilt")
    installed = pathlib.Path(package.__file__).parent
    shutil.copytree(installed, copy / "sonde", ignore=shutil.ignore_patterns("__pycache__", "built"))
    return copy


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The output of the training without Sonde."""
    (tmp_path_factory.getbasetemp() / "bare.py").write_text(textwrap.dedent(ENDS_WITH_5))
    command = [sys.executable, "bare.py"]
    environment = {**os.environ, "SONDE_OFF": "1"}
    directory = tmp_path_factory.getbasetemp()
    done = subprocess.run(command, check=False, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 5 and done.stdout.startswith("trained")
    return done.stdout


@pytest.fixture
def pretending(tmp_path):
    """pretending(then): a compiler that has compiled already; then a command of the shell, with $out."""

    def write(then="", name="compiler"):
        path = tmp_path / name
        path.write_text(f"""#!/bin/sh
echo "$@" >>"$0.log"
shared=false
while [ $# -gt 0 ]; do
  case $1 in -shared) shared=true ;; -o) out=$2; shift ;; esac
  shift
done
if $shared; then cp '{adapter.find_or_build()}' "$out"; else : >"$out"; fi
{then}
""")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture
def training(train, config, tmp_path, unbuilt):
    """training(**environment): recorded by the copy, with an empty cache and a place of its own for temporary files."""

    def run(**environment):
        (tmp_path / "tmp").mkdir(exist_ok=True)
        places = {"TMPDIR": tmp_path / "tmp", "XDG_CACHE_HOME": tmp_path / "cache"}
        source = f"    import sys\n    sys.path.insert(0, {str(unbuilt)!r})\n" + ENDS_WITH_5
        return train(source, config=config(), **{**places, **environment})

    return run


def complaints(run):
    """The lines that are not about progress, or the result."""
    return [line for line in run.sonde_lines if "building the adapter" not in line and "sonde: recorded" not in line]


@pytest.mark.long
def test_a_compiler_that_pretends_is_enough(training, pretending, bare, tmp_path):
    run = training(CXX=pretending())
    assert (run.status, run.stdout, complaints(run)) == (5, bare, [])
    assert "sonde: recorded" in run.stderr
    assert [path.suffix for path in (tmp_path / "cache" / "sonde").iterdir() if path.name != ".lock"] == [".so"]


BROKEN = {
    "none on the path": ("", "", "a C++ compiler is not installed; on Debian: apt install g++"),
    "not installed": ("no-such-compiler -O1", "", "'no-such-compiler' (from CXX) is not installed"),
    "not a command": ("g++ 'a", "", "CXX is not a command: no closing quotation"),
    "fails": ("false", "", "false: it printed nothing (to see all: python -m sonde.adapter build)"),
    "writes nothing": ("true", "", "true wrote no library; is CXX a C++ compiler?"),
    "writes rubbish": (None, 'echo rubbish >"$out"', "; delete it, and the next run builds it again"),
    "writes half of it": (
        None,
        'truncate -s 9000 "$out"',
        "': it is cut off; delete it, and the next run builds it again",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_compiler_that_does_not_compile_is_one_line(training, pretending, bare, dump, case, tmp_path):  # noqa: PLR0917
    command, then, cause = BROKEN[case]
    path = {"PATH": tmp_path} if command == "" else {}
    run = training(CXX=pretending(then) if command is None else command, **path)
    assert (run.status, run.stdout) == (5, bare)
    (line,) = complaints(run)
    assert line.startswith("sonde: not recording: cannot ")
    assert cause in line
    assert not dump.exists()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    "case", ["nothing can be made", "a file", "others write", "the group writes", "another user's"]
)
def test_a_cache_that_cannot_be_used_is_one_line_and_leaves_nothing_behind(training, pretending, bare, case, tmp_path):
    cache = tmp_path / "cache"
    (cache / "sonde").mkdir(parents=True, mode=0o700)
    if case == "nothing can be made":
        cache = pathlib.Path("/proc/no-cache")  # where not even root can
    elif case == "a file":
        shutil.rmtree(cache)
        cache.write_text("")
    elif case == "another user's":
        if os.geteuid() != 0:
            pytest.skip("needs a second user: runs as root")
        os.chown(cache / "sonde", OTHER_USER, OTHER_USER)
    else:
        (cache / "sonde").chmod(0o777 if case == "others write" else 0o770)
    run = training(CXX=pretending(), XDG_CACHE_HOME=cache)
    assert (run.status, run.stdout) == (5, bare)
    (line,) = complaints(run)
    assert line.startswith(f"sonde: cannot keep the adapter: '{cache}")
    assert line.endswith("; it is built for this run only; XDG_CACHE_HOME can name a directory of your own")
    assert "sonde: recorded" in run.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_nowhere_to_build_is_one_error(monkeypatch, tmp_path):
    def none(**_):
        raise FileNotFoundError("no usable temporary directory found")

    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-cache")
    monkeypatch.setattr(adapter.tempfile, "mkdtemp", none)
    monkeypatch.setattr(adapter, "_BUILT", tmp_path)
    with pytest.raises(adapter.AdapterError, match=r"'/proc/no-cache': .*, and no usable .*XDG_CACHE_HOME can name"):
        adapter.find_or_build()


@pytest.fixture
def torch_of_links(tmp_path):
    """torch_of_links(without): another PyTorch, of links to the real one's parts, in a directory for PYTHONPATH."""

    def make(without):
        place = tmp_path / "links"
        (place / "torch").mkdir(parents=True)
        for part in adapter.find_torch().directory.iterdir():
            if part.name != without:
                (place / "torch" / part.name).symlink_to(part)
        return place

    return make


@pytest.mark.cold
@pytest.mark.long
def test_a_torch_without_headers_is_one_line(training, bare, torch_of_links, dump):
    place = torch_of_links("include")
    run = training(PYTHONPATH=place)
    assert (run.status, run.stdout) == (5, bare)
    cause = f"this PyTorch has no headers in '{place}/torch/include'; reinstall torch"
    assert complaints(run) == [f"sonde: not recording: cannot build the adapter: {cause} (AdapterError)"]
    assert not dump.exists()


@pytest.mark.cold
@pytest.mark.long
def test_of_two_torches_on_the_path_the_adapter_is_for_the_imported_one(training, pretending, bare, torch_of_links):
    place = torch_of_links("nothing")
    compiler = pretending()
    run = training(PYTHONPATH=place, CXX=compiler)
    assert (run.status, run.stdout, complaints(run)) == (5, bare, [])
    assert "sonde: recorded" in run.stderr
    assert f"-L{place}/torch/lib -ltorch_cpu" in pathlib.Path(f"{compiler}.log").read_text()


@pytest.mark.parametrize("missing", ["torch_cpu", "torch_python", "c10"])
def test_a_torch_without_a_library_is_refused_by_name(tmp_path, missing):
    (tmp_path / "lib").mkdir()
    (tmp_path / "include/ATen").mkdir(parents=True)
    (tmp_path / "include/ATen/record_function.h").write_text("")
    for name in {"torch_cpu", "torch_python", "c10"} - {missing}:
        (tmp_path / "lib" / f"lib{name}.so").write_text("")
    with pytest.raises(adapter.AdapterError, match=f"has no lib{missing}.so in .*; reinstall torch"):
        adapter.Torch(tmp_path, "2.13.0", "abc").check_headers()


@pytest.mark.parametrize(
    "version", [None, "", "__version__ = '2.1", "import no_such_module", "__version__ = nothing", "a\0"]
)
def test_a_half_installed_torch_is_refused_with_the_cause(monkeypatch, tmp_path, version):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("")
    if version is not None:
        (tmp_path / "torch/version.py").write_text(version)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(adapter.AdapterError, match=r"cannot read the version of PyTorch in .*; reinstall torch"):
        adapter.find_torch()


def test_a_module_in_torchs_place_is_no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", type(sys)("torch"))
    with pytest.raises(adapter.AdapterError, match="cannot find PyTorch in"):
        adapter.find_torch()


def test_a_library_for_another_abi_fails_when_it_is_loaded_not_when_it_is_called(monkeypatch, tmp_path):
    """Also where the host has asked for lazy binding."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/one.cpp").write_text(
        'void old_abi();\nextern "C" __attribute__((visibility("default"))) void* PyInit__sonde_torch() '
        "{ old_abi(); return nullptr; }\n"
    )
    monkeypatch.setattr(torch_installation, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(adapter_build, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(adapter.Torch, "libraries", ())  # this process has not imported torch
    library = adapter.build(adapter.find_torch(), tmp_path / "built")
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_LAZY)
    try:
        with pytest.raises(
            adapter.AdapterError, match=r"cannot load the adapter .*undefined symbol: .*old_abi.*; delete"
        ):
            adapter.load_file(library)
    finally:
        sys.setdlopenflags(flags)


FLAGS = [
    "-E -s -P -X no_debug_ranges -X frozen_modules=off",
    pytest.param("-I", marks=pytest.mark.long),
    pytest.param("-O -X dev -W error -bb", marks=pytest.mark.long),
]


@pytest.mark.cold
@pytest.mark.parametrize("flags", FLAGS)
def test_the_interpreters_flags_change_nothing(execute, script, config, bare, flags):
    command = [sys.executable, *flags.split(), script(ENDS_WITH_5)]
    run = execute(*command, MINDSPORE_DUMP_CONFIG=config())
    assert (run.status, run.stdout) == (5, bare)
    assert [line for line in run.stderr.splitlines() if "sonde" in line] == run.sonde_lines
    (line,) = run.sonde_lines
    assert line.startswith("sonde: recorded ")
