"""`pip install .` as a user calls it, in a clean environment with another Python and another PyTorch; then
tests/wheel/check.py trains there, without and with Sonde, and looks at the dump.

The environment is new. It has links to everything that one of the matrix has but Sonde, and pip builds the package in
a directory of its own: neither build/ nor .venv takes part. tests/matrix/run.py calls it.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CannotInstall(Exception):
    """The package could not be installed, or did not record; the text says what failed."""


def check(python, packages):
    """Installs into a new environment that has what `packages` has, which is the site-packages of `python`. Returns the
    seconds that pip took. Raises CannotInstall."""
    with tempfile.TemporaryDirectory(prefix="sonde-pip-install-") as place:
        scratch = pathlib.Path(place)
        environment = _clean_environment(scratch)
        installed = _make_venv(python, packages, scratch / "venv", environment)
        started = time.monotonic()
        _run([installed, "-m", "pip", "install", "-q", "--no-deps", ROOT], scratch, environment)
        seconds = time.monotonic() - started
        _run([installed, ROOT / "tests/wheel/check.py", scratch / "run", "--compiles"], scratch, environment)
    return seconds


def _clean_environment(scratch):
    """Nothing that leads to another Sonde, and an empty cache, so that the adapter is compiled there."""
    ours = ("SONDE_", "MINDSPORE_", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment["XDG_CACHE_HOME"] = str(scratch / "cache")
    if shutil.which("ccache"):
        environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache"
    return environment


def _make_venv(python, packages, venv, environment):
    _run([python, "-m", "venv", "--without-pip", venv], venv.parent, environment)
    for entry in packages.iterdir():
        if not entry.name.startswith(("sonde", "__pycache__")):
            (venv / "lib" / packages.parent.name / "site-packages" / entry.name).symlink_to(entry)
    new = venv / "bin/python"
    found = "import importlib.util, sys; sys.exit(importlib.util.find_spec('sonde') is not None)"
    _run([new, "-c", found], venv.parent, environment)
    return new


def _run(command, directory, environment):
    command = [str(part) for part in command]
    done = subprocess.run(
        command, check=False, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).splitlines()[-20:])
        raise CannotInstall(f"{' '.join(command[:5])} …: exit status {done.returncode}\n{last}")
