"""The distribution is tensorsonde: its second command, and another distribution that is named sonde."""

import importlib.metadata
import pathlib
import subprocess
import sys
import sysconfig

import pytest
from processes import CLI

from sonde import distribution

COMMAND = pathlib.Path(sysconfig.get_path("scripts")) / "tensorsonde"
METADATA = "Metadata-Version: 2.1\nName: sonde\nVersion: 3.4\n"


def other_distribution(place, files=("sonde/__init__.py", "../../../bin/sonde")):
    """As pip leaves it: what is installed, with the files of its record."""
    info = place / "sonde-3.4.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    return place


def test_the_distribution_has_its_name_and_no_other_of_ours_is_installed():
    names = importlib.metadata.packages_distributions()["sonde"]
    assert set(names) == {distribution.NAME} == {"tensorsonde"}
    assert distribution.complaint_about_another() == ""


def test_the_command_with_the_name_of_the_distribution_is_the_same_command():
    asked = ["--version"]
    ours, native = (
        subprocess.run([command, *asked], check=True, capture_output=True, text=True) for command in (COMMAND, CLI)
    )
    assert ours.stdout == native.stdout != ""
    assert subprocess.run([COMMAND, "ls", "/nonexistent"], check=False, capture_output=True).returncode == 3


def test_a_command_that_another_distribution_has_replaced_is_named(tmp_path):
    (tmp_path / "sonde").write_text("#!/usr/bin/env python\n")
    program = (
        "import sys, sonde_command as c; c.sysconfig.get_path = lambda name: ''; "
        f"c.__file__ = '{tmp_path}/lib/python3/site-packages/sonde_command.py'; "
        f"sys.argv = ['{tmp_path}/tensorsonde']; sys.exit(c.main())"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.startswith("sonde: error: the native command 'sonde' is missing or another distribution has")


def test_the_command_is_found_from_an_environment_over_the_one_that_has_it(tmp_path):
    program = "import sonde_command as c; c.sysconfig.get_path = lambda name: ''; print(c.native_command())"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert pathlib.Path(ran.stdout.strip()).samefile(pathlib.Path(sysconfig.get_path("scripts")) / "sonde")


@pytest.mark.parametrize(
    ("files", "owned"),
    [
        (("sonde/__init__.py", "../../../bin/sonde"), "module and command"),
        (("sonde.py",), "module"),
        (("../../../bin/sonde",), "command"),
        (("thermometer/__init__.py",), None),
    ],
)
def test_another_distribution_with_our_names_is_said_by_info_and_by_a_run(execute, train, config, files, owned):
    place = other_distribution(config().parent / "packages", files)
    shown = execute(CLI, "info", PYTHONPATH=place)
    run = train(config=config(saved_data="statistic"), PYTHONPATH=place)
    line = f"the distribution sonde 3.4, which is not tensorsonde, is installed too and owns the same {owned} 'sonde'; "
    assert shown.stdout.count(line) == run.stderr.count(line) == (0 if owned is None else 1)
    assert "pip install --force-reinstall --no-deps tensorsonde" in run.stderr or owned is None
    assert run.stdout.startswith("trained")
