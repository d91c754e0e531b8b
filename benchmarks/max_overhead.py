"""How long `sonde_settings.max_overhead` lets a training take, beside the same training without Sonde.

    .venv/bin/python benchmarks/max_overhead.py [--steps 500] [--limit 0.05] [--saved-data statistic] [MODEL ...]

Two processes train the same model. They take turns, a few steps at a time, so that what else runs on the machine meets
both; the ratio is that of the sums of all their steps. The first is left to warm up; with Sonde the account of
max_overhead begins with the first step that is counted. MODEL: resnet18, transformer, transformer512, tiny.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

WARM_UP = 5


def tiny():
    """A step of many small operators: every operator costs more with callbacks than without."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()) for _ in range(40)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(8, 16)

    def step():
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()

    return step


def configuration(options, out):
    common = {
        "dump_mode": 0, "path": out, "net_name": "Net", "iteration": "all", "saved_data": options.saved_data,
        "input_output": 0, "kernels": [], "support_device": [0], "op_debug_mode": 0,
    }  # fmt: skip
    if options.saved_data != "tensor":
        common["statistic_category"] = ["max", "min", "l2norm", "nan count"]
    return {
        "common_dump_settings": common,
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
        "sonde_settings": {"max_overhead": options.limit},
    }


def child(options):
    """Trains as many steps as each line of stdin says; answers with seconds, and with this thread's processor time."""
    torch.set_num_threads(options.threads)
    if options.child == "tiny":
        step = tiny()
    else:
        import models

        step = models.training(options.child)
    for _ in range(WARM_UP):
        step()
    if options.out:
        import sonde

        sonde.start(configuration(options, options.out))
    print("ready", flush=True)
    for line in sys.stdin:
        begin, worked = time.perf_counter(), time.thread_time()
        for _ in range(int(line)):
            step()
        print(time.perf_counter() - begin, time.thread_time() - worked, flush=True)
    if options.out:
        sonde.stop()


def start(options, model, out):
    command = [sys.executable, __file__, "--child", model, "--limit", str(options.limit)]
    command += ["--saved-data", options.saved_data, "--threads", str(options.threads)]
    command += ["--out", out] if out else []
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def turn(process, steps):
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    return [float(word) for word in process.stdout.readline().split()]


def measure(options, model, directory):
    processes = [start(options, model, ""), start(options, model, os.path.join(directory, model))]
    turns = []
    for i in range(options.steps // options.turn):
        pair = [None, None]
        for which in (0, 1) if i % 2 else (1, 0):
            pair[which] = turn(processes[which], options.turn)
        turns.append(pair)
    for process in processes:
        process.stdin.close()
        process.wait()
    return turns


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["resnet18", "transformer", "tiny"])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--turn", type=int, default=5, help="steps at a time")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--saved-data", default="statistic")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--directory")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    results = {}
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        for model in options.models:
            turns = measure(options, model, directory)
            off, on = (sum(pair[i][0] for pair in turns) for i in (0, 1))
            off_work, on_work = (sum(pair[i][1] for pair in turns) for i in (0, 1))
            ratios = sorted(pair[1][0] / pair[0][0] for pair in turns)
            results[model] = {"ratio": on / off, "median": ratios[len(ratios) // 2], "work": on_work / off_work}
            print(
                f"{model}: {options.steps} steps, {1e3 * off / options.steps:.2f} ms each without Sonde; "
                f"with max_overhead {options.limit}: {on / off:.3f} times as long (median of "
                f"turns {results[model]['median']:.3f}; its thread's processor time {on_work / off_work:.3f})",
                flush=True,
            )
    print(json.dumps(results))
    return None


if __name__ == "__main__":
    main()
