"""Trains training.py without and with the installed Sonde, and compares: results, statistics, tools.

    python check.py DIRECTORY

It runs with the environment's own Python, in which the wheel is installed. Nothing in it may need a compiler: the
caller leaves none on PATH. It prints one line for people, and ends with status 1 and one line when something is wrong.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import torch

import sonde

TRAINING = pathlib.Path(__file__).resolve().with_name("training.py")
COMMAND = pathlib.Path(sys.executable).with_name("sonde")  # sys.executable is not resolved: that of the environment
OPS = {"embed": ("conv2d", "embed-Conv2d"), "head": ("linear", "head-Linear")}


class Wrong(Exception):
    """A fault of the installed wheel."""


def expect(condition, text):
    if not condition:
        raise Wrong(text)


def run(*command, **variables):
    done = subprocess.run(
        [str(part) for part in command],
        check=False,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    expect(done.returncode == 0, f"{command}: exit status {done.returncode}: {done.stderr[-2000:]}")
    return done


def check_statistics(dump, saved):
    """Of the modules' outputs, beside NumPy's over the saved tensors. Returns how many were compared."""
    compared = 0
    for name, (op_type, scope) in OPS.items():
        for step in range(3):
            values = np.load(saved / f"{name}-{step}.npy").astype(np.float64)
            found = [
                tensor
                for tensor in dump.tensors.select(op_type=op_type, side="output", step=step)
                if scope in tensor.op.op_name and tensor.op.phase == "forward"
            ]
            expect(len(found) == 1, f"{len(found)} outputs of {name} in step {step}; expected 1")
            statistics = found[0].statistics
            expected = (values.max(), values.min(), values.mean(), np.sqrt((values**2).sum()))
            seen = (statistics.max, statistics.min, statistics.avg, statistics.l2norm)
            expect(np.allclose(seen, expected, rtol=1e-5), f"{name}, step {step}: {seen}, NumPy has {expected}")
            line = found[0].op.source.code
            expect(f"self.{name}(" in line, f"{name}: the source line is {line!r}")
            compared += 4
    return compared


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--compiles", action="store_true", help="the wheel has no adapter for this PyTorch")
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    dump, config = options.directory / "dump", options.directory / "data_dump.json"
    settings = {"dump_mode": 0, "path": str(dump), "net_name": "Patches", "iteration": "all", "saved_data": "statistic"}
    settings |= {"statistic_category": ["max", "min", "avg", "l2norm"], "input_output": 0, "kernels": []}
    settings |= {"support_device": [0]}
    config.write_text(json.dumps({"common_dump_settings": settings, "e2e_dump_settings": {"enable": True}}))
    bare = run(sys.executable, TRAINING, options.directory / "bare", SONDE_OFF="1")
    recorded = run(sys.executable, TRAINING, options.directory / "saved", MINDSPORE_DUMP_CONFIG=str(config))
    expect(bare.stdout == recorded.stdout, "the recorded training has other results than the bare one")
    expect("sonde: recorded" in recorded.stderr, f"nothing was recorded: {recorded.stderr[-2000:]}")
    compiled = "building the adapter" in recorded.stderr
    expect(compiled == options.compiles, f"compiled: {compiled}; expected {options.compiles}: {recorded.stderr}")
    compared = check_statistics(sonde.open(dump), options.directory / "saved")
    ops = run(COMMAND, "ls", dump, "--ops").stdout
    expect("embed-Conv2d/conv2d-op0" in ops, "`sonde ls --ops` does not show the convolution")
    facts = json.loads(run(COMMAND, "info", "--json").stdout)["python"]
    expect("problem" not in facts and facts["adapter"].endswith(".so"), f"`sonde info` says {facts}")
    verdict = run(COMMAND, "first-bad", dump).stdout
    where = f"PyTorch {torch.__version__}, Python {sys.version.split()[0]}"
    print(f"{where}: same results, {compared} statistics as NumPy's; {verdict.splitlines()[0]}")


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"wrong: {wrong}")
