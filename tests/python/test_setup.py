"""scripts/setup: the Python it takes, the PyTorch that .venv uses, and what it says of a system without apt."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path):
    """A checkout with no more than scripts/setup reads before it installs anything."""
    place = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", place / "scripts")
    for file in ROOT.glob("requirements*.txt"):
        shutil.copy(file, place)
    (place / "build").mkdir()
    return place


def run(checkout, command, **variables):
    """`command` in bash; its functions are those of scripts/setup."""
    unset = ("SONDE_PYTHON", "SONDE_TORCH")
    settings = {name: value for name, value in os.environ.items() if name not in unset}
    script = f"source scripts/setup; SONDE_LOG=build/log; {command}"
    return subprocess.run(
        ["bash", "-c", script], cwd=checkout, env=settings | variables, capture_output=True, text=True, check=False
    )


@pytest.fixture
def with_torch(tmp_path):
    """Makes a virtual environment with a PyTorch of that version, as far as pip knows. Its python3 saves .venv pip."""

    def make(version):
        place = tmp_path / f"torch{version}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
        packages = next(place.glob("lib/python3.*/site-packages"))
        (packages / f"torch-{version}.dist-info").mkdir()
        (packages / f"torch-{version}.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {version}\n")
        (packages / "torch.py").write_text("")
        python3 = place / "bin/python3"
        python3.unlink()
        python3.write_text(
            f'#!/bin/sh\n[ "$1 $2" != "-m venv" ] || set -- "$@" --without-pip\nexec {place}/bin/python "$@"\n'
        )
        python3.chmod(0o755)
        return place

    return make


def find_torch(checkout):
    found = subprocess.run(
        [checkout / ".venv/bin/python", "-c", "import torch; print(torch.__file__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def test_an_active_environment_gives_python_and_torch(checkout, with_torch):
    place = with_torch("2.9.1+cpu")
    active = f"{place}/bin:{os.environ['PATH']}"
    done = run(checkout, "ensure_venv && users_torch", PATH=active)
    assert done.stdout == f"2.9.1+cpu of {place}/bin/python3\n", done.stderr
    assert find_torch(checkout).startswith(str(place))
    run(checkout, "install_into() { cat $3 >asked; }; install_requirements", PATH=active)
    asked = (checkout / "asked").read_text()
    assert "pytest==" in asked
    assert "torch==" not in asked
    assert "-r requirements.txt" not in asked


def test_a_later_call_keeps_what_was_chosen_until_another_is_asked_for(checkout, with_torch):
    first, second = with_torch("2.9.1"), with_torch("2.15.0")
    run(checkout, "ensure_venv", SONDE_PYTHON=f"{first}/bin/python3")
    for variables in ({}, {"SONDE_PYTHON": f"{first}/bin/python3"}, {"PATH": f"{second}/bin:{os.environ['PATH']}"}):
        kept = run(checkout, "ensure_venv && users_torch", **variables)
        assert kept.stdout.startswith("2.9.1 of ")
        assert kept.stderr == ""
    other = run(checkout, "ensure_venv && users_torch", SONDE_PYTHON=f"{second}/bin/python3")
    assert other.stdout.startswith("2.15.0 of ")
    assert find_torch(checkout).startswith(str(second))


@pytest.mark.parametrize(("version", "variables"), [("2.5.1", {}), ("2.9.1", {"SONDE_TORCH": "pinned"})])
def test_an_old_torch_is_not_used_nor_one_that_is_not_wanted(checkout, with_torch, version, variables):
    place = with_torch(version)
    done = run(checkout, "ensure_venv && users_torch", SONDE_PYTHON=f"{place}/bin/python3", **variables)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert find_torch(checkout) == ""
    run(checkout, "install_into() { echo $3 >asked; }; install_requirements")
    assert (checkout / "asked").read_text() == "requirements-dev.txt\n"


def test_an_environment_beside_is_made_once(checkout):
    venv = 'make_venv() { mkdir -p $1/bin; cp $2 $1/bin/python; }; ensure_venv_beside "$SONDE_ROOT/.venv-vllm"'
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "Python 3.11.7 (main, May  9 2026) [GCC 12.2.0]"\n')
    python.chmod(0o755)
    assert "making .venv-vllm" in run(checkout, venv).stderr
    assert run(checkout, venv).stderr == ""
    python.write_text('#!/bin/sh\necho "Python 3.12.1 (main, May  9 2026) [GCC 12.2.0]"\n')
    assert "making .venv-vllm" in run(checkout, venv).stderr


def test_vllm_is_for_one_pytorch(checkout, with_torch):
    other = with_torch("2.9.1")
    run(checkout, "ensure_venv", SONDE_PYTHON=f"{other}/bin/python3")
    refused = run(checkout, "ensure_vllms_torch")
    assert refused.returncode == 1
    assert "compiled for the PyTorch of requirements.txt, and .venv has 2.9.1; set SONDE_TORCH=pinned" in refused.stderr


def test_a_python_that_does_not_fit_is_named(checkout):
    done = run(checkout, "ensure_venv", SONDE_PYTHON="/bin/true/python")
    assert done.returncode == 1
    assert done.stderr == "error: '/bin/true/python' is not a Python of 3.10 to 3.14 with venv\n"


def test_without_apt_it_says_what_is_missing_and_what_holds_it(checkout):
    command = ["scripts/setup", "--no-packages"]
    settings = os.environ | {"PKG_CONFIG_LIBDIR": "/nowhere", "SONDE_PYTHON": sys.executable}
    settings.pop("PKG_CONFIG_PATH", None)
    with (checkout / "scripts/packages.txt").open("a") as list_of_packages:
        list_of_packages.write("no-such-dev   header no/such.h   # for nobody\nno-such   program no-such-program\n")
    done = subprocess.run(command, cwd=checkout, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    first, *lines = done.stderr.splitlines()
    assert first == "error: these are missing; at the end of a line is the name of Debian's package:"
    missing = {tuple(line.split()) for line in lines}
    assert ("library", "libhwy", "libhwy-dev") in missing
    assert ("header", "no/such.h", "no-such-dev") in missing
    assert ("program", "no-such-program", "no-such") in missing
    assert not {line for line in missing if line[0] != "library" and not line[2].startswith("no-such")}
    assert not (checkout / ".venv").exists()


def test_every_package_says_how_it_is_found_elsewhere():
    lines = [line.partition("#")[0].split() for line in (ROOT / "scripts/packages.txt").read_text().splitlines()]
    for line in filter(None, lines):
        assert len(line) == 3, line
        assert line[1] in ("program", "library", "header"), line


def test_without_a_fitting_node_the_page_is_left_out_with_a_word(checkout, tmp_path):
    (tmp_path / "old").mkdir()
    old = tmp_path / "old/node"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo v18.20.4\nexit 1\n')
    old.chmod(0o755)
    done = run(checkout, "ensure_page", PATH=f"{tmp_path}/old:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("note: the page of sonde serve is left out")
    assert "found: v18.20.4" in done.stderr


@pytest.mark.parametrize(
    ("asked", "before", "chosen"),
    [({}, None, "OFF"), ({}, "ON", "ON"), ({"SONDE_BUILD_TESTS": "ON"}, "OFF", "ON")],
)
def test_the_tests_of_the_engine_are_only_compiled_where_they_are_wanted(checkout, asked, before, chosen):
    if before is not None:
        (checkout / "build/CMakeCache.txt").write_text(f"SONDE_BUILD_TESTS:STRING={before}\n")
    unset = "" if asked else "unset SONDE_BUILD_TESTS; "
    assert run(checkout, f"{unset}engine_tests", **asked).stdout == f"{chosen}\n"


def test_a_run_of_the_tests_wants_those_of_the_engine_and_ci_compiles_them_at_once():
    assert "SONDE_BUILD_TESTS=${SONDE_BUILD_TESTS:-ON} scripts/setup" in (ROOT / "scripts/test").read_text()
    assert "export SONDE_BUILD_TESTS=ON" in (ROOT / ".ci/run").read_text()
