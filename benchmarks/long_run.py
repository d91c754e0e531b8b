"""A long run: the memory of the process, the time of a step and the bytes on the disk, from its beginning to its end.

    .venv/bin/python benchmarks/long_run.py [--steps 100000] [--case steady] [--saved-data statistic] [--ring K]

The model is tiny, so the numbers are Sonde's own. Cases:

    steady         the same operators in every step
    depth          every step has another number of layers, so another data flow (up to --deepest)
    endless        operators without optimizer.step: one step that never ends; --steps counts thousands of operators
    off            without Sonde: what PyTorch and Python use themselves

Prints a line for each tenth of the run: resident memory, the median time of a step, bytes in the dump. The last line
says how much they grew from the second tenth to the last; bytes are per tensor with statistics.
"""

import argparse
import contextlib
import gc
import io
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import sonde


class Deep(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(layers))
        self.depth = 2

    def forward(self, x):
        for layer in list(self.layers)[: self.depth]:
            x = torch.tanh(layer(x))
        return x.square().mean()


def steady(options):
    torch.manual_seed(0)
    model = Deep(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 4)

    def step():
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()

    return step


def depth(options):
    torch.manual_seed(0)
    random.seed(0)
    model = Deep(options.deepest)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 4)

    def step():
        optimizer.zero_grad()
        model.depth = random.randint(1, options.deepest)
        model(batch).backward()
        optimizer.step()

    return step


def endless(options):
    torch.manual_seed(0)
    model = Deep(2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 4)
    model(batch).backward()
    optimizer.step()
    model(batch).backward()

    def thousand():
        x = batch
        for _ in range(500):
            x = torch.tanh(x) + batch
        return x

    return thousand


CASES = {"steady": steady, "depth": depth, "endless": endless, "off": steady}


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size_of(directory):
    """As measure(), by another process: the names of a hundred thousand directories take megabytes of memory."""
    run = subprocess.run([sys.executable, __file__, "--measure", directory], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


def measure(directory):
    """Bytes of files, files, journal bytes, graph files."""
    total = files = journal = graphs = 0
    seen = set()
    for root, _, names in os.walk(directory):
        for name in names:
            status = os.lstat(os.path.join(root, name))
            files += 1
            if status.st_ino in seen:
                continue
            seen.add(status.st_ino)
            total += status.st_size
            if "journal" in name:
                journal += status.st_size
            if name.endswith((".ir", ".pb", ".dot")):
                graphs += 1
    return total, files, journal, graphs


def configuration(options, out):
    settings = {
        "common_dump_settings": {
            "dump_mode": 0, "path": str(out), "net_name": "Net", "iteration": "all", "saved_data": options.saved_data,
            "input_output": 0, "kernels": [], "support_device": [0], "op_debug_mode": 0,
        },
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }  # fmt: skip
    if options.saved_data != "tensor":
        settings["common_dump_settings"]["statistic_category"] = ["max", "min", "l2norm", "nan count"]
    own = {}
    if options.ring:
        own["ring"] = options.ring
    if options.max_overhead:
        own["max_overhead"] = options.max_overhead
    if own:
        settings["sonde_settings"] = own
    return settings


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--case", choices=CASES, default="steady")
    parser.add_argument("--saved-data", default="statistic")
    parser.add_argument("--ring", type=int, default=0)
    parser.add_argument("--max-overhead", type=float, default=0)
    parser.add_argument("--deepest", type=int, default=60)
    parser.add_argument("--directory", default=None, help="where the dump is made and removed again")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = options_of()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        out = pathlib.Path(directory) / "dump"
        step = CASES[options.case](options)
        text = io.StringIO()
        if options.case != "off":
            sonde.start(configuration(options, out))
        part = max(1, options.steps // 10)
        print(f"{'steps':>9} {'MB':>8} {'us/step':>9} {'dump MB':>9} {'journal MB':>10} {'files':>7} {'graphs':>6}")
        for done in range(0, part * 10, part):
            times = []
            for _ in range(part):
                begin = time.perf_counter()
                step()
                times.append(time.perf_counter() - begin)
            gc.collect()
            time.sleep(0.1)
            total, files, journal, graphs = size_of(out) if out.exists() else (0, 0, 0, 0)
            rows.append(
                {
                    "steps": done + part, "resident": resident_bytes(), "step": statistics.median(times),
                    "dump": total, "files": files, "journal": journal, "graphs": graphs,
                }
            )  # fmt: skip
            row = rows[-1]
            print(
                f"{row['steps']:>9} {row['resident'] / 1e6:>8.1f} {row['step'] * 1e6:>9.1f} {total / 1e6:>9.2f} "
                f"{journal / 1e6:>10.2f} {files:>7} {graphs:>6}",
                flush=True,
            )
        summary = ""
        if options.case != "off":
            with contextlib.redirect_stderr(text):
                summary = sonde.stop()
        early, late = rows[1], rows[-1]
        grown = (late["resident"] - early["resident"]) / 1e6
        slower = late["step"] / early["step"] - 1
        print(f"memory grew {grown:+.1f} MB, the step {slower * 100:+.1f} %, from the second tenth to the last")
        if summary:
            print(summary)
            words = summary.split()
            tensors = int(words[words.index("tensors") - 1]) if "tensors" in words else 0
            if tensors:
                total, _, journal, _ = size_of(out)
                print(f"{journal / tensors:.1f} bytes of journal per tensor, {total / tensors:.1f} of the dump")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak {peak:.0f} MiB")
        if options.json:
            options.json.write_text(json.dumps({"case": options.case, "rows": rows, "summary": summary}, indent=2))


if __name__ == "__main__":
    main()
