"""The time of `sonde first-bad` and `sonde stats` for one step of many small tensor files without any statistics.

python benchmarks/first_bad.py [--files 1600] [--elements 16384]
"""

import argparse
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile
import time

import numpy as np


def write(directory, files, elements):
    """A chain of operators as MindSpore 2.7 names their files; the last third hold NaN."""
    step = directory / "rank_0" / "Net" / "0" / "0"
    step.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for op in range(files // 2):
        values = generator.standard_normal(elements, dtype=np.float32)
        if op > files // 3:
            values[op % elements] = np.nan
        name = f"Add.Default_network-Net_add-op{op}.0.0.{1_700_000_000_000_000 + op}"
        np.save(step / f"{name}.input.0.DefaultFormat.Float32.npy", values if op != files // 3 + 1 else abs(values))
        np.save(step / f"{name}.output.0.DefaultFormat.Float32.npy", values)


def best_of(command, runs=5):
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        times.append(time.perf_counter() - began)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1600)
    parser.add_argument("--elements", type=int, default=16384)
    parser.add_argument("--sonde", default=str(pathlib.Path(sysconfig.get_path("scripts")) / "sonde"))
    options = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="first_bad"))
    try:
        write(directory, options.files, options.elements)
        size = sum(path.stat().st_size for path in directory.rglob("*.npy"))
        for verb in (["first-bad"], ["stats", "--json"]):
            seconds = best_of([options.sonde, *verb, str(directory)])
            print(f"{verb[0]:10} {options.files} files, {size / 1e6:.0f} MB: {seconds:.3f} s")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
