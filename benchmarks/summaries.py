"""What a summary costs: steps with and without it in turn, in one process.

    .venv/bin/python benchmarks/summaries.py [--threads 1] [--pairs 12] [--max-overhead 0.005] [MODEL ...]

Each pair is a stretch of steps without hooks and one with a summary, whose first two steps are left out. Printed are
the median over pairs of the ratios of processor time and of wall time, and the part of the time that the hooks
themselves measure, which other programs disturb least.
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time

import models
import torch
import training

import sonde
from sonde.summaries import SummaryHost

WARM_UP = 2


def stretch(step, count):
    """(processor seconds, wall seconds) of a step"""
    processor, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        step()
    return (time.process_time() - processor) / count, (time.perf_counter() - wall) / count


def recorded(step, settings, count):
    """As stretch(), and the seconds of the hooks in a step."""
    spent = 0
    own = SummaryHost._begin_step

    def counting(self):
        nonlocal spent
        spent += self.spent
        own(self)

    SummaryHost._begin_step = counting
    with contextlib.redirect_stderr(io.StringIO()):
        sonde.start(settings)
        for _ in range(WARM_UP):
            step()
        spent = -SummaryHost.current.spent  # of the last step before
        seconds = stretch(step, count)
        spent += SummaryHost.current.spent
        sonde.stop()
    SummaryHost._begin_step = own
    return *seconds, spent / 1e9 / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(models.NAMES)}")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--stretch", type=int, default=30, help="steps; with --max-overhead many")
    parser.add_argument("--max-overhead", type=float, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.models or ["resnet18", "transformer"]:
        step = models.training(name)
        stretch(step, 3)
        ratios = []
        for _ in range(options.pairs):
            processor, wall = stretch(step, options.stretch)
            with tempfile.TemporaryDirectory() as out:
                own = {"saved_data": "summary", "max_overhead": options.max_overhead or 0}
                settings = training.mindspore()(out) | {"sonde_settings": own}
                with_processor, with_wall, hooks = recorded(step, settings, options.stretch)
            ratios.append((with_processor / processor, with_wall / wall, hooks / wall, wall))
        processor, wall, hooks, seconds = (statistics.median(column) for column in zip(*ratios, strict=True))
        print(
            f"{name}: {1e3 * seconds:.0f} ms a step; processor time {processor:.4f}, wall {wall:.4f}, "
            f"hooks {100 * hooks:.2f} % ({1e3 * hooks * seconds:.2f} ms)",
            flush=True,
        )


if __name__ == "__main__":
    main()
