"""The cost of recording per operator and per byte: programs of tiny operators, and of ever larger tensors.

    .venv/bin/python benchmarks/per_op.py [--rounds 5] [--json FILE]

"Per op": steps of 10 to 10,000 operators on tensors of one element, the nanoseconds that each mode adds to an operator.
"Per byte": steps of operators whose results have 1 KiB to 64 MiB, the bandwidth at which the added time handles them,
beside the bandwidths of this machine for the same size, taken in the same rounds: reading (memchr), copying (memcpy),
and writing to the disk. Every result is new, so each is read once as an output, and known when it is the next input.

Modes are interleaved; of each the minimum over rounds counts, since neighbours on the machine only ever add time.
--clock cpu takes the CPU time of the training's thread instead of the time that passes: without what the writer's
thread and waiting for it cost, but of use on a machine that others use.
"""

import argparse
import contextlib
import ctypes
import io
import json
import os
import pathlib
import random
import tempfile
import time

import torch
import training
from torch import nn

import sonde

MODES = {name: training.MODES[name] for name in ("off", "idle", "statistics of everything", "tensors of everything")}
OPS = (10, 100, 1_000, 10_000)
SIZES = tuple(1 << shift for shift in (10, 12, 14, 16, 18, 20, 22, 24, 26))
BYTES_PER_STEP = 128 << 20  # of results, at most
MOST_OPS_PER_STEP = 256
LEAST_FOR_BANDWIDTH = 64 << 10
WARM_UP = 2
LIBC = ctypes.CDLL(None)
LIBC.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
LIBC.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}
clock = time.perf_counter


class Chain(nn.Module):
    """`ops` operators, each on the result of the one before. Without an optimizer each call is a step."""

    def __init__(self, ops):
        super().__init__()
        self.ops = ops
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x):
        add = torch.add
        for _ in range(self.ops):
            x = add(x, 1.0)
        return x


def step_seconds(model, x, settings, steps, directory):
    """(the fastest step, seconds per step with what is left to write at the end shared out)"""
    out = pathlib.Path(tempfile.mkdtemp(dir=directory))
    if settings is not None:
        sonde.start(settings(out))
    times = []
    for i in range(WARM_UP + steps):
        begin = clock()
        model(x)
        if i >= WARM_UP:
            times.append(clock() - begin)
    begin = clock()
    if settings is not None:
        with contextlib.redirect_stderr(io.StringIO()):
            sonde.stop()
    drain = (clock() - begin) / (WARM_UP + steps)
    return min(times), sum(times) / len(times) + drain


def measure(ops, elements, rounds, steps, directory):
    """mode -> the fastest step and the fastest step with its share of draining, over all rounds."""
    model, x = Chain(ops), torch.rand(elements)
    best = {}
    with torch.no_grad():
        for _ in range(rounds):
            for mode in random.sample(list(MODES), len(MODES)):
                found = step_seconds(model, x, MODES[mode], steps, directory)
                best[mode] = tuple(map(min, found, best.get(mode, found)))
    return best


def per_op(rounds, directory):
    rows = []
    for ops in OPS:
        best = measure(ops, 1, rounds, max(6, 4_000 // ops), directory)
        added = {mode: 1e9 * (best[mode][0] - best["off"][0]) / ops for mode in MODES if mode != "off"}
        rows.append({"ops": ops, "off_ns": 1e9 * best["off"][0] / ops, "added_ns": added})
    return rows


def bandwidth(size, rounds, call):
    """Bytes per second of `call` over a buffer of this size, at its best."""
    repeat = max(1, (32 << 20) // size)
    best = float("inf")
    for _ in range(rounds):
        begin = clock()
        for _ in range(repeat):
            call()
        best = min(best, (clock() - begin) / repeat)
    return size / best


def memory_bandwidths(size, rounds):
    source, target = torch.zeros(size, dtype=torch.uint8), torch.ones(size, dtype=torch.uint8)
    a, b = source.data_ptr(), target.data_ptr()
    return {
        "read": bandwidth(size, rounds, lambda: LIBC.memchr(a, 1, size)),
        "copy": bandwidth(size, rounds, lambda: LIBC.memcpy(b, a, size)),
    }


def per_byte(rounds, directory):
    rows = []
    for size in SIZES:
        ops = min(MOST_OPS_PER_STEP, max(2, BYTES_PER_STEP // size))
        best = measure(ops, size // 4, rounds, 3, directory)
        added = {mode: best[mode][0] - best["off"][0] for mode in MODES if mode != "off"}
        added["tensors, with drain"] = best["tensors of everything"][1] - best["off"][0]
        rows.append(
            {
                "bytes": size,
                "ops": ops,
                "off_seconds": best["off"][0],
                "added_seconds": added,
                "bytes_per_second": {m: ops * size / s if s > 0 else None for m, s in added.items() if m != "idle"},
                "memory": memory_bandwidths(size, rounds),
            }
        )
    return rows


def print_per_op(rows):
    print("per op, ns added to an operator on one element")
    print(f"  {'ops a step':>10} {'off ns/op':>10} {'idle':>8} {'statistics':>11} {'tensors':>9}")
    for row in rows:
        idle, statistics, tensors = row["added_ns"].values()
        print(f"  {row['ops']:10,} {row['off_ns']:10.0f} {idle:8.0f} {statistics:11.0f} {tensors:9.0f}")


def print_per_byte(rows, disk):
    print("per byte, GB/s at which the added time handles the results; beside it the machine's own")
    print(
        f"  {'bytes':>11} {'off us/op':>10} {'statistics':>11} {'read':>7} {'share':>6} "
        f"{'tensors':>8} {'+drain':>7} {'memcpy':>7} {'share':>6} {'of disk':>8}"
    )
    for row in rows:
        speed = {name: (value or float("inf")) / 1e9 for name, value in row["bytes_per_second"].items()}
        read, copy = row["memory"]["read"] / 1e9, row["memory"]["copy"] / 1e9
        statistics, tensors = speed["statistics of everything"], speed["tensors of everything"]
        drained = speed["tensors, with drain"]
        if row["bytes"] < LEAST_FOR_BANDWIDTH:  # there a call costs more than its bytes
            print(
                f"  {row['bytes']:11,} {1e6 * row['off_seconds'] / row['ops']:10.1f} {statistics:11.2f} "
                f"{'-':>7} {'-':>6} {tensors:8.2f} {drained:7.2f}"
            )
            continue
        print(
            f"  {row['bytes']:11,} {1e6 * row['off_seconds'] / row['ops']:10.1f} {statistics:11.2f} {read:7.1f} "
            f"{statistics / read:6.0%} {tensors:8.2f} {drained:7.2f} {copy:7.1f} {tensors / copy:6.0%} "
            f"{1e3 * drained / disk['cached']:8.0%}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--directory", help="where dumps are written (default: the temporary directory)")
    parser.add_argument("--json", help="write the results here too")
    options = parser.parse_args()
    global clock
    clock = CLOCKS[options.clock]
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        disk = training.write_bandwidth(directory)
        print("plain writes: " + ", ".join(f"{speed:.0f} MB/s {kind}" for kind, speed in disk.items()))
        ops = per_op(options.rounds, directory)
        print_per_op(ops)
        size = per_byte(options.rounds, directory)
        os.sync()
        disk_after = training.write_bandwidth(directory)
        disk = {kind: max(disk[kind], disk_after[kind]) for kind in disk}
        print_per_byte(size, disk)
    if options.json:
        results = {"write_mb_per_s": disk, "per_op": ops, "per_byte": size}
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
