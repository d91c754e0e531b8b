"""The cost of msprobe (PyPI: mindstudio-probe) in a training step; run by training.py --peers, in its own environment.

    .venv-peers/bin/python benchmarks/peers.py MODEL --level L1 --task statistics [--rounds 4] [--steps 4]

Undumped and dumped steps alternate in one process; prints JSON: seconds of each, and what a dumped step left on disk.
"bare" are the steps before msprobe was imported: it wraps torch's functions for good.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import pathlib
import statistics
import tempfile
import time

import models
import torch

WARM_UP = 2  # steps after each switch that are not timed


def timed(step, count):
    times = []
    for i in range(WARM_UP + count):
        begin = time.perf_counter()
        step()
        if i >= WARM_UP:
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=models.NAMES)
    parser.add_argument("--level", default="L1", choices=["L0", "L1", "mix"])
    parser.add_argument("--task", default="statistics", choices=["statistics", "tensor"])
    parser.add_argument("--risk-level", default="ALL", choices=["ALL", "CORE", "FOCUS"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--directory")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    train, model = models.training_of(options.model)
    bare = [timed(train, options.steps) for _ in range(options.rounds)]
    temporary = tempfile.TemporaryDirectory(prefix="sonde-peers-", dir=options.directory)
    with temporary as directory, contextlib.redirect_stdout(io.StringIO()):  # its log goes to stdout
        result = measure(options, train, model, pathlib.Path(directory))
    print(json.dumps({"bare_seconds": bare, **result}))


def measure(options, train, model, directory):
    from msprobe.pytorch import PrecisionDebugger

    logging.disable()
    config = directory / "config.json"
    config.write_text(json.dumps(configuration(options, directory / "dump")))
    debugger = PrecisionDebugger(config_path=str(config))

    def dumped():
        debugger.start(model=model)
        train()
        debugger.stop()
        debugger.step()

    off, on = [], []
    for _ in range(options.rounds):
        off.append(timed(train, options.steps))
        on.append(timed(dumped, options.steps))
    files = [os.path.join(root, name) for root, _, names in os.walk(directory / "dump") for name in names]
    steps = options.rounds * (WARM_UP + options.steps)
    return {
        "off_seconds": off,
        "seconds": on,
        "written": sum(os.path.getsize(file) for file in files) / steps,
        "files": len(files) / steps,
    }


def configuration(options, dump):
    task = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    return {
        "task": options.task, "dump_path": str(dump), "rank": [], "step": [], "level": options.level,
        "risk_level": options.risk_level, "async_dump": False, options.task: task,
    }  # fmt: skip


if __name__ == "__main__":
    main()
