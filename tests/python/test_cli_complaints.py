"""Errors around the command itself are reported, and show in its exit status."""

import subprocess
import sys

import pytest
from conftest import CLI, SMALL_TRAINING


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["info", "--json"], ["stats", "--help"], ["check"]])
def test_output_that_cannot_be_written_is_an_error(arguments, config):
    if arguments == ["check"]:
        arguments = ["check", str(config())]
    with open("/dev/full", "w") as full:
        process = subprocess.run([CLI, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode == 3, process.stderr
    assert "cannot write to standard output: No space left on device" in process.stderr


def test_an_unknown_kernel_is_reported(sonde, train, config):
    shown = sonde("info", SONDE_KERNEL="avx99")
    assert shown.status == 0
    assert "SONDE_KERNEL=avx99 names no kernel that runs here" in shown.stderr
    assert "scalar" in shown.stderr
    run = train(SMALL_TRAINING, config(), SONDE_KERNEL="avx99")
    assert run.status == 0
    assert any("SONDE_KERNEL=avx99" in line for line in run.sonde_lines), run.stderr
    assert sonde("info", "--python", sys.executable, SONDE_KERNEL="scalar").stderr == ""
