"""The cost of recording in a training step: the same steps with Sonde off, idle, taking statistics, writing tensors.

    .venv/bin/python benchmarks/training.py [--rounds 8] [--threads 1] [--special] [--peers] [--json FILE] [MODEL ...]

All modes run in one process, interleaved in random order; ratios are medians over rounds of (this mode's step) /
(the undumped steps of the same round). "+drain": with what is left to write when the last step has returned, shared
out over the steps. "read" and "write" are per step: bytes of the program's tensors, and bytes of files.

--special: instead of these the modes that look for something, and the forms in which tensors are written.

--peers: the same steps under msprobe as well, each mode in a process of its own in .venv-peers (made on first use),
against its own undumped steps in that process, which alternate with the dumped ones (benchmarks/peers.py).
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
import subprocess
import sys
import tempfile
import time

import limits
import models
import torch

import sonde

MOMENTS = [
    "max", "min", "avg", "count", "negative zero count", "positive zero count", "nan count",
    "negative inf count", "positive inf count", "zero count", "l2norm",
]  # fmt: skip


def mindspore(e2e=True, **common):
    """A configuration of MindSpore 2.x, given the directory."""
    common = {
        "dump_mode": 0, "net_name": "Net", "iteration": "all", "input_output": 0, "kernels": [], "support_device": [0],
        "op_debug_mode": 0, **common,
    }  # fmt: skip

    def configuration(out):
        settings = {"common_dump_settings": common | {"path": str(out)}}
        return settings | ({"e2e_dump_settings": {"enable": True, "trans_flag": True}} if e2e else {})

    return configuration


def watcher(watched, layer=None):
    """CANN's watcher: the outputs of `watched` again after every op of `layer`; None: after every op."""
    entry = {"watcher_nodes": [watched]} | ({"layer": layer} if layer else {})

    def configuration(out):
        settings = {"dump_list": [entry], "dump_path": str(out), "dump_mode": "output", "dump_scene": "watcher"}
        return {"dump": settings}

    return configuration


# name -> configuration for a directory; None: Sonde is not started
MODES = {
    "off": None,
    "idle": mindspore(saved_data="statistic", iteration="1000000"),
    "statistics of outputs": mindspore(saved_data="statistic", input_output=2, statistic_category=MOMENTS),
    "statistics of everything": mindspore(saved_data="statistic", statistic_category=MOMENTS),
    "tensors of everything": mindspore(saved_data="tensor"),
}
LAYER = "Default/network-Transformer/encoder-TransformerEncoder/layers/0-TransformerEncoderLayer/"
# model -> an op with an output of some size, and the one with the largest
WATCHED = {
    "resnet18": (
        "Default/network-ResNet18/fc-Linear/linear-op0",
        "Default/network-ResNet18/stem/1-BatchNorm2d/batch_norm-op0",
    ),
    "transformer": (LAYER + "linear2-Linear/linear-op0", "Default/network-Transformer/head-Linear/linear-op0"),
    "transformer512": (LAYER + "linear2-Linear/linear-op0", "Default/network-Transformer/head-Linear/linear-op0"),
}


def special_modes(model):
    return {
        "off": None,
        "overflow": mindspore(saved_data="tensor", op_debug_mode=3),
        "watcher of one op": watcher(WATCHED[model][0]),
        "watcher of the largest": watcher(WATCHED[model][1]),
        "synchronous, npy": mindspore(saved_data="tensor"),
        "asynchronous, npy": mindspore(saved_data="tensor", e2e=False, file_format="npy"),
        "asynchronous, bin": mindspore(saved_data="tensor", e2e=False, file_format="bin"),
    }


# At most, with tensors of everything; what a dump needs on the disk until the end.
BYTES_PER_STEP = {"resnet18": 250_000_000, "transformer": 500_000_000, "transformer512": 2_500_000_000}

HERE = pathlib.Path(__file__).resolve().parent
PEERS_VENV = HERE.parent / ".venv-peers"
PEERS_PACKAGES = ("torch==2.13.0", "mindstudio-probe==26.2.0")
# name -> arguments of peers.py. Risk level ALL: all operators, as Sonde records them; FOCUS is msprobe's default.
PEER_MODES = {
    "msprobe L0 statistics": ("--level", "L0", "--task", "statistics"),
    "msprobe L1 statistics, FOCUS": ("--level", "L1", "--task", "statistics", "--risk-level", "FOCUS"),
    "msprobe L1 statistics": ("--level", "L1", "--task", "statistics"),
    "msprobe mix statistics": ("--level", "mix", "--task", "statistics"),
    "msprobe L1 tensors": ("--level", "L1", "--task", "tensor"),
    "msprobe mix tensors": ("--level", "mix", "--task", "tensor"),
}
WARM_UP = 4  # steps after each start that are not timed: models are searched for, and memory grows


def dump_size(directory):
    """Bytes of the files of a dump, each linked file once."""
    sizes = {}
    for root, _, files in os.walk(directory):
        for name in files:
            status = os.stat(os.path.join(root, name))
            sizes[status.st_ino] = status.st_size
    return sum(sizes.values()), len(sizes)


def measure(step, settings, steps, directory):
    """Seconds of each timed step, seconds to drain, and what one step read and left on disk."""
    # A directory of its own, kept until the end: file systems are slow for minutes after a large dump was deleted.
    out = pathlib.Path(tempfile.mkdtemp(dir=directory))
    os.sync()  # nothing of the mode before is still on its way to the disk
    if settings is not None:
        with contextlib.redirect_stderr(io.StringIO()):
            sonde.start(settings(out))
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
    per_step = {"read": bytes_read(out), "written": written, "files": files}
    return times, drain, {name: total / (WARM_UP + steps) for name, total in per_step.items()}


def bytes_read(dump):
    """The bytes of the program's tensors that the journal of a finished run counted."""
    if not dump.exists() or not any(dump.iterdir()):
        return 0
    listing = subprocess.run(["sonde", "ls", dump, "--json"], capture_output=True, text=True, check=True)
    return sum(run["bytes_read"] for rank in json.loads(listing.stdout)["ranks"] for run in rank["runs"])


def write_bandwidth(directory):
    """MB/s of plain writes; full tensors are compared with it."""
    return {kind: speed / 1e6 for kind, speed in limits.write(directory).items()}


def run(model, modes, rounds, steps, directory):
    step = models.training(model)
    for _ in range(3):
        step()
    results = {mode: {"seconds": [], "ratio": [], "ratio_with_drain": []} for mode in modes}
    for _ in range(rounds):
        order = list(modes)
        random.shuffle(order)
        seconds, drained = {}, {}
        for mode in order:
            times, drain, per_step = measure(step, modes[mode], steps, directory)
            seconds[mode] = statistics.median(times)
            drained[mode] = seconds[mode] + drain / (WARM_UP + steps)
            results[mode].update(per_step)
        for mode in modes:
            results[mode]["seconds"].append(seconds[mode])
            results[mode]["ratio"].append(seconds[mode] / seconds["off"])
            results[mode]["ratio_with_drain"].append(drained[mode] / seconds["off"])
    return results


def make_peers_venv():
    """msprobe pins and patches much: it gets an environment of its own, once."""
    stamp = PEERS_VENV / "packages"
    if stamp.exists() and stamp.read_text() == " ".join(PEERS_PACKAGES):
        return
    print(f"making {PEERS_VENV} with {', '.join(PEERS_PACKAGES)} ...", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", PEERS_VENV], check=True)
    subprocess.run([PEERS_VENV / "bin" / "pip", "install", "-q", *PEERS_PACKAGES], check=True)
    stamp.write_text(" ".join(PEERS_PACKAGES))


def run_peers(model, options):
    """Rows of the same table for msprobe."""
    results = {}
    for mode, arguments in PEER_MODES.items():
        command = [PEERS_VENV / "bin" / "python", HERE / "peers.py", model, *arguments]
        command += ["--rounds", str(options.rounds), "--steps", str(options.steps), "--threads", str(options.threads)]
        command += ["--directory", options.directory] if options.directory else []
        os.sync()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"  {mode}: failed: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        result = json.loads(done.stdout.splitlines()[-1])
        ratios = [on / off for on, off in zip(result["seconds"], result["off_seconds"], strict=True)]
        # It writes within the step: nothing is left to drain. It does not report what it reads.
        results[mode] = {**result, "ratio": ratios, "ratio_with_drain": ratios, "read": 0}
    return results


def table(model, results):
    lines = [
        f"{model}",
        f"  {'mode':28} {'step ms':>8} {'ratio':>6} {'quartiles':>13} {'+drain':>7} "
        f"{'read MB':>8} {'write MB':>8} {'files':>6}",
    ]
    for mode, r in results.items():
        low, middle, high = quartiles(r["ratio"])
        lines.append(
            f"  {mode:28} {1e3 * statistics.median(r['seconds']):8.1f} {middle:6.2f} {low:6.2f}-{high:<6.2f} "
            f"{statistics.median(r['ratio_with_drain']):7.2f} {r['read'] / 1e6:8.1f} "
            f"{r['written'] / 1e6:8.1f} {r['files']:6.0f}"
        )
    return "\n".join(lines)


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["resnet18", "transformer"], help=", ".join(models.NAMES))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4, help="timed steps per mode and round")
    parser.add_argument("--threads", type=int, default=1, help="torch's threads")
    parser.add_argument("--directory", help="where dumps are written (default: the temporary directory)")
    parser.add_argument("--special", action="store_true", help="overflow, watcher, forms of tensors")
    parser.add_argument("--peers", action="store_true", help="the same under msprobe, in .venv-peers")
    parser.add_argument("--json", help="write the results here too")
    options = parser.parse_args()
    for unknown in set(options.models) - set(models.NAMES):
        parser.error(f"unknown model '{unknown}'; there are {', '.join(models.NAMES)}")
    if options.peers:
        make_peers_venv()
    torch.set_num_threads(options.threads)
    room = shutil.disk_usage(options.directory or tempfile.gettempdir()).free
    needed = options.rounds * (WARM_UP + options.steps) * sum(BYTES_PER_STEP[model] for model in options.models)
    needed *= 4 if options.special else 1  # npy twice, and bin, which stores equal tensors each time
    if room < needed:
        parser.error(
            f"dumps of {needed / 1e9:.0f} GB are kept until the end, {room / 1e9:.0f} GB are free: --directory"
        )
    everything = {}
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        everything["write_mb_per_s"] = write_bandwidth(directory)
        speeds = ", ".join(f"{speed:.0f} MB/s {kind}" for kind, speed in everything["write_mb_per_s"].items())
        print(f"plain writes: {speeds}; torch threads: {options.threads}")
        for model in options.models:
            modes = special_modes(model) if options.special else MODES
            everything[model] = run(model, modes, options.rounds, options.steps, directory)
            if options.peers:
                everything[model] |= run_peers(model, options)
            print(table(model, everything[model]), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
