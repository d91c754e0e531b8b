"""The limits of this machine: reading, copying, writing, and making a write durable.

    .venv/bin/python benchmarks/limits.py [--directory DIRECTORY] [--json FILE]

Gigabytes per second, the best of some rounds. "read" adds up 64-bit words with NumPy, from the second-level cache
(1 MB), from the third (16 MB) and from memory (512 MB), on one core and on all. "written before" reads what the same
core has just written, 1 MB of 64 MB in turn: this is what statistics meet after an operator.
"""

import argparse
import concurrent.futures
import json
import mmap
import os
import pathlib
import tempfile
import time

import numpy as np

MB = 1 << 20


def best(function, count, rounds=7):
    """Bytes per second: `count` bytes by one call."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - begin)
    return count / min(seconds)


def read(words):
    return int(np.bitwise_or.reduce(words))


def read_many(size):
    words = np.ones(size // 8, np.int64)
    times = max(1, 32 * MB // size)
    return best(lambda: [read(words) for _ in range(times)], times * size)


def read_on_all_cores(size):
    words = np.ones(size // 8, np.int64)
    cores = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        return best(lambda: list(pool.map(read, np.array_split(words, 8 * cores))), size)


def read_what_was_written():
    arrays = [np.ones(MB // 8, np.int64) for _ in range(64)]
    seconds = []
    for words in arrays * 3:
        np.add(words, 1, out=words)
        begin = time.perf_counter()
        read(words)
        seconds.append(time.perf_counter() - begin)
    return MB / sorted(seconds)[len(seconds) // 4]


def write(directory, megabytes=256):
    """Bytes per second of plain writes, through the page cache, with what makes them durable, and past it."""
    block = mmap.mmap(-1, MB)  # page-aligned
    block.write(os.urandom(MB))
    path = os.path.join(directory, "bandwidth")
    speeds = {}
    for kind, flag in (("cached", 0), ("direct", os.O_DIRECT)):
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
        except OSError:  # this file system has no direct writes
            continue
        begin = time.perf_counter()
        for _ in range(megabytes):
            os.write(file, block)
        speeds[kind] = megabytes * MB / (time.perf_counter() - begin)
        if not flag:
            os.fsync(file)
            speeds["cached and fsync"] = megabytes * MB / (time.perf_counter() - begin)
        os.close(file)
        os.unlink(path)
    return speeds


def measure(directory):
    source = np.ones(256 * MB // 8, np.int64)
    target = np.empty_like(source)
    return {
        "read, 1 MB": read_many(MB),
        "read, 16 MB": read_many(16 * MB),
        "read, 512 MB": read_many(512 * MB),
        "read, 512 MB, all cores": read_on_all_cores(512 * MB),
        "read, written before": read_what_was_written(),
        "copy, 256 MB": best(lambda: np.copyto(target, source), source.nbytes),
        **{f"write, {kind}": speed for kind, speed in write(directory).items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", help="where files are written (default: the temporary directory)")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        speeds = measure(directory)
    for name, speed in speeds.items():
        print(f"  {name:26} {speed / 1e9:6.1f} GB/s")
    if options.json:
        options.json.write_text(json.dumps(speeds, indent=1))


if __name__ == "__main__":
    main()
