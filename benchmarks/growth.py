"""How time grows with the size of the problem: the time at several sizes, and the exponent fitted to the larger ones.

    python benchmarks/growth.py [--quick] [--only NAME] [--json FILE]      some minutes; --quick: under a minute

An exponent of 1 is linear growth; below 1, a part of the time does not depend on the size. It is fitted to the upper
half of the sizes (least squares of the logarithms), because a fixed cost hides the growth of the small ones.

operators: a step of that many operators on one element; bytes: a step of one operator with a result of that size;
steps: a run of that many steps, from its start to its end. These record statistics in PyTorch; times are CPU times of
the process, with what is left to write. ranks: `sonde first-bad` over that many ranks of 300 files; files: `sonde
index` of that many. These are CPU times of the command.
"""

import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import many_files
import per_op
import torch

import sonde

SETTINGS = per_op.MODES["statistics of everything"]
ROUNDS, QUICK_ROUNDS = 4, 4
FILES_PER_RANK = 300
LINEAR = 1.1  # measured exponents of linear growth are not exactly 1
HOUR = 3600

# name -> sizes, and those of --quick
SIZES = {
    "operators": ((10, 100, 1_000, 10_000, 100_000), (10, 100, 1_000, 10_000)),
    "bytes": ((64, 1 << 12, 1 << 18, 1 << 24, 1 << 27, 1 << 30), (64, 1 << 12, 1 << 20, 1 << 23, 1 << 26)),
    "steps": ((10, 100, 1_000, 10_000), (10, 100, 500, 1_000)),
    "ranks": ((1, 4, 16, 64, 256), (1, 4, 16, 64)),
    "files": ((1_000, 4_000, 16_000, 64_000, 256_000), (1_000, 4_000, 8_000, 16_000)),
}


def cpu_seconds(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def recorded(model, x, steps, directory):
    """CPU seconds of a recorded run, with its start and its end."""
    out = pathlib.Path(tempfile.mkdtemp(dir=directory))
    begin = cpu_seconds(resource.RUSAGE_SELF)
    sonde.start(SETTINGS(out))
    for _ in range(steps):
        model(x)
    with contextlib.redirect_stderr(io.StringIO()):
        sonde.stop()
    seconds = cpu_seconds(resource.RUSAGE_SELF) - begin
    shutil.rmtree(out)
    return seconds


def of_operators(size, directory):
    return recorded(per_op.Chain(size), torch.rand(1), 3, directory) / 3


def of_bytes(size, directory):
    return recorded(per_op.Chain(1), torch.rand(size // 4), 3, directory) / 3


def of_steps(size, directory):
    return recorded(per_op.Chain(10), torch.rand(1), size, directory)


def command_seconds(cache, *arguments):
    beside = pathlib.Path(sys.executable).with_name("sonde")
    cli = os.environ.get("SONDE_CLI") or (str(beside) if beside.exists() else shutil.which("sonde"))
    begin = cpu_seconds(resource.RUSAGE_CHILDREN)
    environment = {"XDG_CACHE_HOME": str(cache), "SONDE_INDEX": "off"}
    done = subprocess.run([cli, *map(str, arguments)], env=environment, check=False, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)
    return cpu_seconds(resource.RUSAGE_CHILDREN) - begin


def rest(directory):
    """An index of a dump that has just changed would wait."""
    then = time.time() - HOUR
    for path in (directory, *directory.rglob("*")):
        if path.is_dir() or path.suffix == ".csv":
            os.utime(path, (then, then))


def of_ranks(size, directory):
    dump = directory / f"ranks{size}"
    if not dump.exists():
        ops = many_files.op_names(FILES_PER_RANK // 3)
        for rank in range(size):
            many_files.write_step(dump / f"rank_{rank}" / "Net" / "0" / "0", ops, 0, [])
    return command_seconds(directory / "cache", "first-bad", dump)


def of_files(size, directory):
    dump = directory / f"files{size}"
    if not dump.exists():
        steps = max(1, size // many_files.TENSORS_PER_STEP)
        ops = many_files.op_names(size // steps // 3)
        for step in range(steps):
            many_files.write_step(dump / "rank_0" / "Net" / "0" / str(step), ops, step, [])
        rest(dump)
    return command_seconds(directory / "cache", "index", dump)


WORK = {"operators": of_operators, "bytes": of_bytes, "steps": of_steps, "ranks": of_ranks, "files": of_files}


def exponent(points):
    """Of time over size, from the upper half of the points."""
    upper = points[len(points) // 2 :] if len(points) > 3 else points
    logs = [(math.log(size), math.log(max(seconds, 1e-9))) for size, seconds in upper]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def measure(name, quick):
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with tempfile.TemporaryDirectory(prefix="sonde-growth-") as directory, torch.no_grad():
        where = pathlib.Path(directory)
        WORK[name](SIZES[name][quick][0], where)  # the first use of everything is slow
        points = [(size, min(WORK[name](size, where) for _ in range(rounds))) for size in SIZES[name][quick]]
    return {"name": name, "points": points, "exponent": exponent(points)}


def report(result):
    print(f"{result['name']:10} {'ms':>12} {'us each':>12}")
    for size, seconds in result["points"]:
        print(f"{size:>10,} {1e3 * seconds:12.1f} {1e6 * seconds / size:12.3f}")
    verdict = "linear or better" if result["exponent"] <= LINEAR else "WORSE THAN LINEAR"
    print(f"  exponent in the upper half: {result['exponent']:.2f}, {verdict}\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute")
    parser.add_argument("--only", choices=tuple(WORK), action="append", help="only this growth; repeatable")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    for name in options.only or WORK:
        results.append(measure(name, options.quick))
        report(results[-1])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    sys.exit(any(result["exponent"] > LINEAR for result in results))


if __name__ == "__main__":
    main()
