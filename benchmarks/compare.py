"""The cost of `sonde compare`: two large tensors, thousands of tiny ones; beside the time to read the same bytes.

    python benchmarks/compare.py [--gigabytes 0.55] [--tensors 9000] [--directory DIR]

Files are written first and read from the page cache. The bandwidth beside it is that of this machine's threads reading
both files through their mappings (numpy over int64), in turns with the comparison, the best of seven; "share" is
relative to it.
"""

import argparse
import concurrent.futures
import functools
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np


def best(call, rounds=5):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def spent(call):
    """Seconds that pass, and seconds of processor time, also of children."""

    def processor():
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    begin, before = time.perf_counter(), processor()
    call()
    return time.perf_counter() - begin, processor() - before


def sonde():
    beside = pathlib.Path(sys.executable).with_name("sonde")
    return os.environ.get("SONDE_CLI") or (str(beside) if beside.exists() else shutil.which("sonde"))


def compare(target, golden, *options):
    run = subprocess.run([sonde(), "compare", target, golden, *options], capture_output=True, text=True, check=False)
    if run.returncode > 1:
        sys.exit(run.stderr)
    return run.stdout


def read_both(files):
    """Adds up every word of both files, on as many threads as there are CPUs."""
    words = [np.load(file, mmap_mode="r").reshape(-1).view(np.int64) for file in files]
    pieces = [word[i : i + (1 << 20)] for word in words for i in range(0, word.size, 1 << 20)]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        sum(pool.map(lambda piece: int(np.bitwise_or.reduce(piece)), pieces))


def large(directory, gigabytes):
    elements = int(gigabytes * 1e9 / 4) // 2 * 2
    values = np.random.default_rng(0).standard_normal(elements, dtype=np.float32)
    files = directory / "large_a.npy", directory / "large_b.npy"
    np.save(files[0], values)
    values *= 1 + np.float32(2**-22)
    np.save(files[1], values)
    del values
    compare(*files)  # fills the page cache
    # In turns, so that other work on the machine meets both.
    rounds = [(*spent(lambda: compare(*files)), *spent(lambda: read_both(files))) for _ in range(7)]
    seconds, cpu, reading, reading_cpu = map(min, zip(*rounds, strict=True))
    gigabytes = 8e-9 * elements
    print(f"2 x {gigabytes / 2:.2f} GB: {seconds:.3f} s, {gigabytes / seconds:.1f} GB/s; ", end="")
    print(f"reading both: {reading:.3f} s, {gigabytes / reading:.1f} GB/s; share: {reading / seconds:.0%}")
    print(f"  processor time: {cpu:.3f} s; reading both: {reading_cpu:.3f} s; share: {reading_cpu / cpu:.0%}")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"  most memory: {memory:.0f} MiB, of which the maps are {gigabytes * 1e9 / 2**20:.0f}")
    for threads in (1, 2, 16):
        seconds = best(functools.partial(compare, *files, "--threads", str(threads)), 3)
        print(f"  {threads} threads: {seconds:.3f} s")


def write_step(directory, count, factor):
    """A step as MindSpore 2.7 leaves it: one output for each operator."""
    step = directory / "rank_0" / "Net" / "0" / "0"
    step.mkdir(parents=True)
    values = np.arange(256, dtype=np.float32) * np.float32(factor)
    for i in range(count):
        name = f"ReLU.Default_net_{i}_ReLU-op{i}.0.0.{1000 + i}.output.0.DefaultFormat.Float32.npy"
        np.save(step / name, values + np.float32(i))


def tiny(directory, count):
    for tensors in (count // 3, count):
        dumps = directory / f"tiny_a{tensors}", directory / f"tiny_b{tensors}"
        for dump, factor in zip(dumps, (1, 1 + 2**-22), strict=True):
            write_step(dump, tensors, factor)
        print(f"{tensors} tensors of 1 KB: {best(functools.partial(compare, *dumps)):.3f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.55)
    parser.add_argument("--tensors", type=int, default=9000)
    parser.add_argument("--directory", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        large(pathlib.Path(directory), options.gigabytes)
        tiny(pathlib.Path(directory), options.tensors)


if __name__ == "__main__":
    main()
