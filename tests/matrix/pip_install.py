"""`pip install .` as a user calls it, in a clean environment with another Python and another PyTorch; then a training
is recorded there, and `sonde ls` lists it.

The environment is new. It has links to everything that one of the matrix has but Sonde, and pip builds the package in
a directory of its own: neither build/ nor .venv takes part. tests/matrix/run.py calls it.

    python tests/matrix/pip_install.py --recorded-by PYTHON      only the training, with the Sonde that PYTHON has
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

TRAINING = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = network(torch.randn(2, 1, 8, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""
SETTINGS = {
    "dump_mode": 0,
    "net_name": "Net",
    "iteration": "all",
    "saved_data": "statistic",
    "input_output": 0,
    "kernels": [],
    "support_device": [0],
}


class CannotInstall(Exception):
    """The package could not be installed, or did not record; the text says what failed."""


def check(python, packages):
    """Installs into a new environment that has what `packages` has, which is the site-packages of `python`. Gives the
    seconds that pip took. Raises CannotInstall."""
    with tempfile.TemporaryDirectory(prefix="sonde-pip-install-") as place:
        scratch = pathlib.Path(place)
        environment = _clean_environment(scratch)
        installed = _make_venv(python, packages, scratch / "venv", environment)
        started = time.monotonic()
        _run([installed, "-m", "pip", "install", "-q", "--no-deps", ROOT], scratch, environment)
        seconds = time.monotonic() - started
        record(installed, scratch, environment)
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


def record(python, scratch, environment):
    """Raises CannotInstall where the training changes, or is not recorded, or `sonde ls` does not list it."""
    (scratch / "train.py").write_text(TRAINING)
    settings = {"common_dump_settings": {**SETTINGS, "path": str(scratch / "dump")}}
    settings["e2e_dump_settings"] = {"enable": True, "trans_flag": True}
    (scratch / "data_dump.json").write_text(json.dumps(settings))
    bare = _run([python, "train.py"], scratch, environment)
    variable = {"MINDSPORE_DUMP_CONFIG": str(scratch / "data_dump.json")}
    recorded = _run([python, "train.py"], scratch, {**environment, **variable})
    if recorded.stdout != bare.stdout:
        raise CannotInstall("the recorded training computes other numbers than the bare one")
    if "sonde: recorded" not in recorded.stderr:
        raise CannotInstall(f"the training was not recorded: {recorded.stderr.strip()}")
    command = [python.parent / "sonde", "ls", scratch / "dump", "--ops", "--jsonl"]
    listed = [json.loads(line) for line in _run(command, scratch, environment).stdout.splitlines()]
    if not any("conv2d" in row["op_name"] for row in listed):
        raise CannotInstall(f"`sonde ls` lists {len(listed)} operators, none of them a convolution")


def _run(command, directory, environment):
    command = [str(part) for part in command]
    done = subprocess.run(
        command, check=False, cwd=directory, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).splitlines()[-20:])
        raise CannotInstall(f"{' '.join(command[:5])} …: exit status {done.returncode}\n{last}")
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded-by", metavar="PYTHON", type=pathlib.Path, required=True)
    python = parser.parse_args().recorded_by
    with tempfile.TemporaryDirectory(prefix="sonde-record-") as place:
        scratch = pathlib.Path(place)
        record(python.absolute(), scratch, _clean_environment(scratch))
    print("recorded, and listed by `sonde ls`")


if __name__ == "__main__":
    sys.exit(main())
