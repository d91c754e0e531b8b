"""Processes as a user starts them, in a clean environment outside the checkout, and their configurations."""

import os
import pathlib
import shlex
import subprocess
import sys
import sysconfig

from warm_python import WarmPython

CLI = os.environ.get("SONDE_CLI") or os.path.join(sysconfig.get_path("scripts"), "sonde")

_OURS = (
    "SONDE_",
    "MINDSPORE_",
    "MS_DIAGNOSTIC",
    "MS_ACL",
    "MS_DEV",
    "ASCEND_",
    "DUMP_G",
    "ENABLE_MS",
    "ENV_DUMP",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "OMPI_",
    "PMI_",
    "SLURM_",
    "TORCH_DEVICE_BACKEND",
)

# A thread of OpenMP that waits for others sleeps. Otherwise it spins, and takes a core from the tests beside it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_warm = WarmPython()
cold = False  # whether a script gets its own interpreter: the test is marked so


def python(fresh=None):
    """The beginning of a command that runs a script: sys.executable, or what does the same in a tenth of the time.
    `fresh`: whether it must be the former; without, as the test is marked."""
    fresh = cold if fresh is None else fresh
    return [sys.executable] if fresh or os.environ.get("SONDE_TESTS_COLD") else _warm.client()


def torchrun(directory, *arguments):
    """`torchrun ARGUMENTS`, and what it needs in its environment so that its processes are python() too."""
    return [*python(), "-m", "torch.distributed.run", *arguments], {"PYTHON_EXEC": python_file(directory)}


def python_file(directory):
    """python() as a file in this directory, for what starts Python by a path: a shell, torchrun."""
    path = pathlib.Path(directory) / "python"
    path.write_text(f'#!/bin/sh\nexec {shlex.join(python())} "$@"\n')
    path.chmod(0o755)
    return path


class Run:
    """A finished process: status, stdout, stderr, and the dump directory that it was given."""

    def __init__(self, process, dump):
        self.status = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.dump = dump

    @property
    def sonde_lines(self):
        return [line for line in self.stderr.splitlines() if line.startswith("sonde")]


def settings_of(dump, e2e, sonde_settings, common):
    settings = {
        "dump_mode": 0,
        "path": str(dump),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": "statistic",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
        **common,
    }
    content = {"common_dump_settings": settings, "e2e_dump_settings": e2e or {"enable": True, "trans_flag": True}}
    if sonde_settings is not None:
        content["sonde_settings"] = sonde_settings
    return content


def preloading(library):
    """LD_PRELOAD of a process that loads this library too: the runtime of the sanitizers must stay the first."""
    return " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))


def clean_environment(**variables):
    """Ours, without the variables that Sonde reads, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return kept | {name: str(value) for name, value in variables.items()}


def run_in(directory, dump, *command, timeout=120, **environment):
    """The command in a clean environment, outside the checkout. SONDE_TESTS_PATIENCE: how many times longer than
    `timeout` seconds it may take (scripts/sanitize)."""
    timeout *= float(os.environ.get("SONDE_TESTS_PATIENCE", "1"))
    kept = clean_environment(**environment)
    if not (cold or os.environ.get("SONDE_TESTS_COLD")) and _warm.can_run(command, environment):
        return Run(_warm.run(command, directory, kept, timeout), dump)
    arguments = [str(part) for part in command]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, cwd=directory, env=kept, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, error = process.communicate(timeout=timeout)
        finally:
            if process.poll() is None:  # it ran out of time, or the test was interrupted
                _end(process)
    return Run(subprocess.CompletedProcess(arguments, process.returncode, out, error), dump)


def run_alone(directory, *command, expected=(0,), timeout=120, **environment):
    """A program that has only PATH, HOME and `environment`; its status must be one of `expected`."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode in expected, done.stdout + done.stderr
    return done


def _end(process):
    """Ends a process that hangs. A launcher is asked first: it ends its workers, which would otherwise run on."""
    process.terminate()
    try:
        process.communicate(timeout=40)  # torchrun gives its workers 30 s
    except subprocess.TimeoutExpired:
        process.kill()
