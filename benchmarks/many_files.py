"""A dump with as many small files as asked for, and how long the verbs take on it with and without a saved index.

    python benchmarks/many_files.py DUMP --make --files 1000000     4 GB and as many inodes; a minute or two
    python benchmarks/many_files.py DUMP [--rounds 5] [--json FILE]
    python benchmarks/many_files.py DUMP --cold                     nothing in the page cache before each call (root)

The tree is one of MindSpore 2.7 without a journal: RANK/NET/0/STEP with npy files and a statistic.csv. Ops have two
inputs and one output; a third of them lie in the backward pass. Values are random and not needed: all files hold four
floats. `--links` makes every file a name of one of a thousand, where inodes are short. Times are wall times of whole
processes, `sonde` or `$SONDE_CLI`; those of SQL are of the question alone, in an open database.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
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


ONE_OP = "SELECT * FROM all_tensors WHERE op_name = :op"
QUESTIONS = {
    "list of steps": "SELECT rank, graph, step, ops, tensors, bytes FROM steps JOIN ranks ON ranks.id = rank_id",
    "one op, one step, one slot": f"{ONE_OP} AND step = :step AND slot = 'output.0'",
    "one op in all steps": ONE_OP,
    "ten largest gradients": "SELECT * FROM gradients ORDER BY l2norm DESC LIMIT 10",
    "ten largest tensors": "SELECT * FROM all_tensors ORDER BY l2norm DESC LIMIT 10",
    "all NaN": "SELECT * FROM all_tensors WHERE nan_count > 0",
}


def drop_caches():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def times_of(rounds, work, cold=False):
    seconds = []
    for _ in range(rounds):
        if cold:
            drop_caches()
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return {"best_ms": 1e3 * min(seconds), "median_ms": 1e3 * statistics.median(seconds)}


def measure(dump, rounds, cold):
    cli = os.environ.get("SONDE_CLI", shutil.which("sonde") or "sonde")
    with tempfile.TemporaryDirectory() as cache:

        def sonde(*arguments, index="auto"):
            environment = {"XDG_CACHE_HOME": cache, "SONDE_INDEX": index}
            output = subprocess.run([cli, *map(str, arguments)], env=environment, check=False, capture_output=True)
            if output.returncode not in (0, 1):
                sys.exit(output.stderr.decode())
            return output.stdout

        op, step = op_names(1)[0][1], "7"
        verbs = {
            "ls": ("ls", dump),
            f"stats --step {step}": ("stats", dump, "--step", step, "--json"),
            "show OP": ("show", dump, op),
            f"show OP --step {step}": ("show", dump, op, "--step", step),
            "ls --ops": ("ls", dump, "--ops"),
            "stats -s OP": ("stats", dump, "-s", op),
            "first-bad": ("first-bad", dump),
        }
        table = {}
        for name, verb in verbs.items():
            table[name, "no index"] = times_of(min(rounds, 2), lambda verb=verb: sonde(*verb, index="off"), cold)
        table["index", "building"] = times_of(1, lambda: sonde("index", dump))
        for name, verb in verbs.items():
            table[name, "index"] = times_of(rounds, lambda verb=verb: sonde(*verb), cold)
        file = next(pathlib.Path(cache).rglob("*.sqlite"))
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
            for name, sql in QUESTIONS.items():
                values = {"op": op, "step": int(step)}
                ask = lambda sql=sql, values=values: database.execute(sql, values).fetchall()  # noqa: E731
                table[name, "SQL"] = times_of(rounds, ask)
        return table, file.stat().st_size


def report(table, size, destination):
    print(f"index of {size / 1e6:.0f} MB\n{'question':28} {'from':10} {'best ms':>10} {'median ms':>10}")
    for (name, source), times in table.items():
        print(f"{name:28} {source:10} {times['best_ms']:10.1f} {times['median_ms']:10.1f}")
    if destination:
        rows = [{"question": name, "from": source, **times} for (name, source), times in table.items()]
        destination.write_text(json.dumps({"index_bytes": size, "rows": rows}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", metavar="DUMP", type=pathlib.Path)
    parser.add_argument("--make", action="store_true", help="make DUMP, and measure nothing")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.make:
        make(options.dump, options.files, options.links)
    else:
        report(*measure(options.dump, options.rounds, options.cold), options.json)


if __name__ == "__main__":
    main()
