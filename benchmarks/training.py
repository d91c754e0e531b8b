"""What recording costs a training step: the same steps with Sonde off, idle, taking statistics, writing tensors.

    .venv/bin/python benchmarks/training.py [--rounds 8] [--threads 1] [--json FILE] [MODEL ...]

All modes run in one process, interleaved in random order; ratios are medians over rounds of (this mode's step) /
(the undumped steps of the same round). "drain" is what is left to write when the last step returned.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import shutil
import statistics
import tempfile
import time

import models
import torch

import sonde

MOMENTS = [
    "max", "min", "avg", "count", "negative zero count", "positive zero count", "nan count",
    "negative inf count", "positive inf count", "zero count", "l2norm",
]  # fmt: skip

# name -> settings of the configuration; None: Sonde is not started
MODES = {
    "off": None,
    "idle": {"saved_data": "statistic", "iteration": "1000000"},
    "statistics of outputs": {"saved_data": "statistic", "input_output": 2, "statistic_category": MOMENTS},
    "statistics of everything": {"saved_data": "statistic", "input_output": 0, "statistic_category": MOMENTS},
    "tensors of everything": {"saved_data": "tensor", "input_output": 0},
}
WARM_UP = 2  # steps after each start that are not timed: idle mode looks for models during the first two


def configuration(out, settings):
    common = {
        "dump_mode": 0, "path": str(out), "net_name": "Net", "iteration": "all", "input_output": 0, "kernels": [],
        "support_device": [0],
    }  # fmt: skip
    return {"common_dump_settings": common | settings, "e2e_dump_settings": {"enable": True, "trans_flag": True}}


def dump_size(directory):
    """Bytes of the files of a dump, each linked file once."""
    sizes = {}
    for root, _, files in os.walk(directory):
        for name in files:
            status = os.stat(os.path.join(root, name))
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values()), len(sizes)


def measure(step, settings, steps, directory):
    """Seconds of each timed step, seconds to drain, and the bytes and files one step left on disk."""
    out = pathlib.Path(directory) / "dump"
    shutil.rmtree(out, ignore_errors=True)
    if settings is not None:
        sonde.start(configuration(out, settings))
    times = []
    for i in range(WARM_UP + steps):
        begin = time.perf_counter()
        step()
        if i >= WARM_UP:
            times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    if settings is not None:
        with contextlib.redirect_stderr(io.StringIO()):
            sonde.stop()
    drain = time.perf_counter() - begin
    written, files = dump_size(out)
    shutil.rmtree(out, ignore_errors=True)
    return times, drain, written / (WARM_UP + steps), files / (WARM_UP + steps)


def write_bandwidth(directory, megabytes=256):
    """MB/s of plain writes into the page cache of the dump's disk: what full tensors are held against."""
    block = os.urandom(1 << 20)
    path = os.path.join(directory, "bandwidth")
    begin = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for _ in range(megabytes):
            file.write(block)
    seconds = time.perf_counter() - begin
    os.unlink(path)
    return megabytes * 1.048576 / seconds


def run(model, rounds, steps, directory):
    step = models.training(model)
    for _ in range(3):
        step()
    results = {mode: {"seconds": [], "ratio": [], "ratio_with_drain": [], "bytes": 0, "files": 0} for mode in MODES}
    for _ in range(rounds):
        order = list(MODES)
        random.shuffle(order)
        seconds, drained = {}, {}
        for mode in order:
            times, drain, written, files = measure(step, MODES[mode], steps, directory)
            seconds[mode] = statistics.median(times)
            drained[mode] = seconds[mode] + drain / (WARM_UP + steps)
            results[mode].update(bytes=written, files=files)
        for mode in MODES:
            results[mode]["seconds"].append(seconds[mode])
            results[mode]["ratio"].append(seconds[mode] / seconds["off"])
            results[mode]["ratio_with_drain"].append(drained[mode] / seconds["off"])
    return results


def table(model, results):
    lines = [
        f"{model}",
        f"  {'mode':26} {'step ms':>8} {'ratio':>6} {'quartiles':>13} {'+drain':>7} {'MB/step':>8} {'files':>6}",
    ]
    for mode, r in results.items():
        low, middle, high = quartiles(r["ratio"])
        lines.append(
            f"  {mode:26} {1e3 * statistics.median(r['seconds']):8.1f} {middle:6.2f} {low:6.2f}-{high:<6.2f} "
            f"{statistics.median(r['ratio_with_drain']):7.2f} {r['bytes'] / 1e6:8.1f} {r['files']:6.0f}"
        )
    return "\n".join(lines)


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["resnet18", "transformer"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4, help="timed steps per mode and round")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads")
    parser.add_argument("--directory", help="where dumps are written (default: the temporary directory)")
    parser.add_argument("--json", help="write the results here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    everything = {}
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        everything["write_mb_per_s"] = write_bandwidth(directory)
        print(f"plain writes: {everything['write_mb_per_s']:.0f} MB/s; torch threads: {options.threads}")
        for model in options.models:
            everything[model] = run(model, options.rounds, options.steps, directory)
            print(table(model, everything[model]), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
