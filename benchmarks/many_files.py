"""A dump with as many small files as asked for, and how long the verbs take on it with and without a saved index.

    python benchmarks/many_files.py --make DUMP --files 1000000     4 GB and as many inodes; a minute
    python benchmarks/many_files.py DUMP                            times on it, each the best and the median of --rounds
    python benchmarks/many_files.py DUMP --cold                     first without anything in the page cache (root)

The tree is one of MindSpore 2.7 without a journal: RANK/NET/0/STEP with npy files and a statistic.csv. Ops have two
inputs and one output; a third of them lie in the backward pass. Values are random and not needed: all files hold four
floats. `--links` makes every file a name of one of a thousand, where inodes are short.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

RANKS, TENSORS_PER_STEP = 4, 10_000
MODULES = ("self_attn-Attention/q_proj-Linear", "self_attn-Attention/out-Linear", "mlp-Mlp/up-Linear", "norm-LayerNorm")
TYPES = ("linear", "matmul", "add", "layer_norm", "gelu")
STARTED_US = 1_700_000_000_000_000
HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".ljust(117) + b"\n"
NPY = b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER
COLUMNS = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
STATISTICS = "Max Value,Min Value,L2Norm Value"


def op_names(count):
    """Types and full names of the ops of a step, the last third of them backward."""
    names = []
    for number in range(count):
        op_type = TYPES[number % len(TYPES)]
        scope = f"network-Net/layers/{number // 40}-Layer/{MODULES[number % len(MODULES)]}"
        root = "Gradients/Default" if 3 * number >= 2 * count else "Default"
        names.append((op_type, f"{root}/{scope}/{op_type}-op{number % 40}"))
    return names


def sanitised(name):
    return name.translate(str.maketrans("/\\. ", "____"))


def write_step(directory, ops, step, shared):
    """The files and the table of one step; `shared`: files that others become names of."""
    directory.mkdir(parents=True)
    noise = random.Random(str(directory))
    rows = [f"{COLUMNS},{STATISTICS}\n"]
    at = os.open(directory, os.O_RDONLY)
    time_us = STARTED_US + step * 1_000_000
    written = 0
    for op_type, name in ops:
        for side, slot in (("input", 0), ("input", 1), ("output", 0)):
            time_us += 1
            file = f"{op_type}.{sanitised(name)}.0.0.{time_us}.{side}.{slot}.DefaultFormat.Float32.npy"
            if shared:
                os.link(shared[written % len(shared)], directory / file)
            else:
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400, dir_fd=at)
                os.write(descriptor, NPY + noise.randbytes(16))
                os.close(descriptor)
            high, norm = noise.random(), noise.expovariate(1)
            rows.append(f"{op_type},{name},0,0,{time_us},{side},{slot},16,float32,(4),{high:g},{-high:g},{norm:g}\n")
            written += 1
    os.close(at)
    (directory / "statistic.csv").write_text("".join(rows))
    return written


def make(dump, files, links):
    per_step = min(TENSORS_PER_STEP, -(-files // RANKS))
    ops = op_names(per_step // 3)
    shared = []
    if links:
        (dump / "shared").mkdir(parents=True)
        for number in range(1000):
            shared.append(dump / "shared" / f"{number}.tensor")
            shared[-1].write_bytes(NPY + number.to_bytes(16, "little"))
    steps = -(-files // (RANKS * 3 * len(ops)))
    began, written = time.monotonic(), 0
    for step in range(steps):
        for rank in range(RANKS):
            written += write_step(dump / f"rank_{rank}" / "Net" / "0" / str(step), ops, step, shared)
    for rank in range(RANKS):
        order = dump / f"rank_{rank}" / "execution_order"
        order.mkdir()
        (order / "ms_execution_order_graph_0.csv").write_text("".join(name + "\n" for _, name in ops))
    print(f"{written} files in {RANKS} ranks x {steps} steps, {time.monotonic() - began:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", metavar="DUMP", type=pathlib.Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--links", action="store_true")
    options = parser.parse_args()
    if options.make:
        make(options.dump, options.files, options.links)


if __name__ == "__main__":
    main()
