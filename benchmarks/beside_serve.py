"""What `sonde serve` costs the training that it follows: steps while the server runs / steps while it is stopped.

    python benchmarks/beside_serve.py [--rounds 10] [--seconds 4] [--threads 1] [--json FILE]

A transformer trains with statistics of every step. A server follows its dump. Stretches alternate in one process: in
every second one the server is stopped (SIGSTOP), so both kinds have the same dump and the same machine. The share is
the processor time of the server by the time of the stretches in which it runs.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

import models
import torch
import training

import sonde

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def stretch(step, seconds):
    """Times of its steps."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default="transformer", choices=models.NAMES)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    step = models.training(options.model)
    ratios, used, ran = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as scratch:
        dump = pathlib.Path(scratch) / "dump"
        sonde.start(training.mindspore(saved_data="statistic", statistic_category=training.MOMENTS)(str(dump)))
        for _ in range(3):
            step()
        command = ["sonde", "serve", str(dump), "--socket", f"{scratch}/socket"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            stretch(step, options.seconds)
            for _ in range(options.rounds):
                before = processor_seconds(server)
                beside = stretch(step, options.seconds)
                used, ran = used + processor_seconds(server) - before, ran + options.seconds
                server.send_signal(signal.SIGSTOP)
                alone = stretch(step, options.seconds)
                server.send_signal(signal.SIGCONT)
                ratios.append(statistics.median(beside) / statistics.median(alone))
            server.terminate()
        sonde.stop()
    result = {
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "most": max(ratios),
        "share_of_processor": used / ran,
        "steps": len(ratios),
    }
    print(", ".join(f"{name} {value:.3f}" for name, value in result.items()))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
