"""The cost of recording in a MindSpore training step: its own tensor dump, and Sonde's statistics and tensors.

    .venv/bin/python benchmarks/training_mindspore.py [--rounds 4] [--pairs 8] [--directory DIR] [--json FILE]

A narrow AlexNet (tests/mindspore/programs/networks.py) trains in .venv-mindspore, a process for each mode and round, in
random order. In a process every other step is dumped; ratios are medians over (a dumped step) / (the mean of the steps
before and after it). "+drain": with what is left to write when the program ends, shared out over the dumped steps.
"both": a dumped and an undumped step together, over two steps of a process that dumps nothing: what is written in the
background slows the undumped step too.
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
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-mindspore" / "bin" / "python"
PROGRAMS = ROOT / "tests" / "mindspore" / "programs"
WARM_UP = 4  # steps that are not timed: compilation, and memory grows to what it needs
MOMENTS = [
    "max", "min", "avg", "count", "negative zero count", "positive zero count", "nan count",
    "negative inf count", "positive inf count", "zero count", "l2norm",
]  # fmt: skip
# name -> (whether Sonde is on, what to save); None: no configuration
MODES = {
    "off": None,
    "MindSpore's tensors": (False, {"saved_data": "tensor"}),
    "statistics": (True, {"saved_data": "statistic", "statistic_category": MOMENTS}),
    "tensors": (True, {"saved_data": "tensor"}),
    "tensors and statistics": (True, {"saved_data": "full", "statistic_category": MOMENTS}),
}


def configuration(out, steps, settings):
    common = {
        "op_debug_mode": 0, "dump_mode": 0, "path": str(out), "net_name": "Net", "input_output": 0, "kernels": [],
        "iteration": "|".join(map(str, range(1, steps, 2))), "support_device": [0], **settings,
    }  # fmt: skip
    return {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}


def train(steps):
    """In the environment of MindSpore: seconds of each step, and of the remaining work after the last."""
    sys.path[0] = str(PROGRAMS)  # not this directory
    import networks

    networks.graph_mode()
    step = networks.training_step(networks.AlexNet())
    batch = networks.batch(networks.AlexNet)
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        step(*batch).asnumpy()
        seconds.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    if "sonde" in sys.modules:
        sys.modules["sonde"].stop()
    print(json.dumps({"seconds": seconds, "drain": time.perf_counter() - begin}))


def measure(mode, steps, directory):
    """Runs one process."""
    out = pathlib.Path(tempfile.mkdtemp(dir=directory))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MINDSPORE_", "SONDE_"))}
    if mode is not None:
        sonde, settings = mode
        file = out / "data_dump.json"
        file.write_text(json.dumps(configuration(out / "dump", steps, settings)))
        environment |= {"MINDSPORE_DUMP_CONFIG": str(file), "SONDE_OFF": "0" if sonde else "1"}
    os.sync()  # nothing of the mode before is still on its way to the disk
    command = [PYTHON, __file__, "--train", str(steps)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(map(str, command))}: {done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    files = {p.stat().st_ino: p.stat().st_size for p in (out / "dump").rglob("*") if p.is_file()}
    names = sum(p.is_file() for p in (out / "dump").rglob("*/Net/*/*/*"))
    if mode is not None and names == 0:
        raise SystemExit(f"error: nothing was dumped: {done.stderr}")
    return result | {"written": sum(files.values()), "names": names}


def run(rounds, pairs, directory):
    steps = WARM_UP + 2 * pairs + 1
    dumped = range(WARM_UP + 1, steps - 1, 2)
    results = {mode: {"ratio": [], "with_drain": [], "both": [], "dumped_ms": [], "undumped_ms": []} for mode in MODES}
    for _ in range(rounds):
        order = random.sample(list(MODES), len(MODES))
        measured = {mode: measure(MODES[mode], steps, directory) for mode in order}
        off = statistics.median(measured["off"]["seconds"][WARM_UP:])
        for mode, r in results.items():
            s = measured[mode]["seconds"]
            drain = measured[mode]["drain"] / (steps // 2)
            beside = [(s[i - 1] + s[i + 1]) / 2 for i in dumped]
            r["ratio"] += [s[i] / b for i, b in zip(dumped, beside, strict=True)]
            r["with_drain"] += [(s[i] + drain) / b for i, b in zip(dumped, beside, strict=True)]
            r["both"] += [(s[i] + s[i + 1] + drain) / (2 * off) for i in dumped]
            r["dumped_ms"] += [1e3 * s[i] for i in dumped]
            r["undumped_ms"] += [1e3 * b for b in beside]
            r["written"], r["names"] = (measured[mode][name] / (steps // 2) for name in ("written", "names"))
    return results


def table(results):
    lines = [
        f"{'mode':24} {'undumped ms':>11} {'dumped ms':>9} {'ratio':>6} {'quartiles':>13} {'+drain':>7} {'both':>6} "
        f"{'write MB':>8} {'names':>6}"
    ]
    for mode, r in results.items():
        low, middle, high = statistics.quantiles(r["ratio"], n=4, method="inclusive")
        median = {name: statistics.median(r[name]) for name in ("undumped_ms", "dumped_ms", "with_drain", "both")}
        lines.append(
            f"{mode:24} {median['undumped_ms']:11.1f} {median['dumped_ms']:9.1f} {middle:6.2f} {low:6.2f}-{high:<6.2f} "
            f"{median['with_drain']:7.2f} {median['both']:6.2f} {r['written'] / 1e6:8.1f} {r['names']:6.0f}"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4, help="processes of each mode")
    parser.add_argument("--pairs", type=int, default=8, help="dumped steps of each process that are timed")
    parser.add_argument("--directory", help="where dumps are written (default: the temporary directory)")
    parser.add_argument("--json", help="write the results here too")
    parser.add_argument("--train", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        return train(options.train)
    if not PYTHON.exists():
        parser.error(f"no '{PYTHON}': scripts/setup --mindspore makes it")
    room = shutil.disk_usage(options.directory or tempfile.gettempdir()).free
    needed = options.rounds * (options.pairs + WARM_UP) * 3 * 130_000_000
    if room < needed:
        parser.error(f"dumps of {needed / 1e9:.0f} GB are kept until the end, {room / 1e9:.0f} GB free: --directory")
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        results = run(options.rounds, options.pairs, directory)
    print(table(results))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return None


if __name__ == "__main__":
    main()
