"""The cost of recording a training on a device: counted on the test device, timed on a GPU.

    .venv/bin/python benchmarks/device_cost.py [--steps 3] [--json FILE] [MODEL ...]       # counts; needs no GPU
    .venv/bin/python benchmarks/device_cost.py --device cuda [--steps 20] [MODEL ...]      # times

The test device (tests/device) counts what a step gives it to do: kernels, bytes copied to the host, waits of the
host, allocations. Its kernels are the CPU's, so its times mean nothing. "rows" are those of a step in statistic.csv.
"""

import argparse
import contextlib
import io
import json
import pathlib
import statistics
import sys
import tempfile
import time

import models
import torch
import training

import sonde

MODES = {mode: training.MODES[mode] for mode in ("off", "idle", "statistics of everything", "tensors of everything")}
# What is timed of a model that has 100 GB of tensors in a step. The optimizer reads parameters and gradients.
OF_DECODER = {
    mode: training.MODES[mode] for mode in ("off", "idle", "statistics of outputs", "statistics of everything")
}
OF_DECODER["statistics of layers and optimizer"] = training.mindspore(
    saved_data="statistic",
    statistic_category=training.MOMENTS,
    dump_mode=1,
    kernels=["name-regex(.*-Block/add-op[0-9]+)", "_fused_adamw_"],
)
NAMES = (*models.NAMES, *models.OF_GPUS)
ROUNDS = 3  # of all modes
WARM_UP = 3  # steps after each start that are not counted: models are searched for, and memory grows


def rows_of(directory):
    """The tensors of the last recorded step."""
    tables = sorted(directory.rglob("statistic.csv"), key=lambda path: path.stat().st_mtime)
    return len(tables[-1].read_text().splitlines()) - 1 if tables else 0


@contextlib.contextmanager
def dump_of(configuration):
    """Records until the end; gives the directory of the dump."""
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stderr(io.StringIO()):
        if configuration is not None:
            sonde.start(configuration(pathlib.Path(directory)))
        try:
            yield pathlib.Path(directory)
        finally:
            sonde.stop()


def count(model, steps):
    """{mode: {counter: per step}}"""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/device"))
    import testdev

    testdev.schedule("eager")
    step = models.training(model, "testdev")
    results = {}
    for mode, configuration in MODES.items():
        with dump_of(configuration) as directory:
            for _ in range(WARM_UP):
                step()
            testdev.reset_counters()
            for _ in range(steps):
                step()
            results[mode] = {name: value / steps for name, value in testdev.counters().items()}
            sonde.stop()
            results[mode]["rows"] = rows_of(directory)
    return results


def launched(step, device):
    """What one step launches on the device: kernels, and those of Sonde, with their time there."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[getattr(ProfilerActivity, device.upper())]) as profiler:
        step()
    events = [event for event in profiler.events() if event.device_type != torch.autograd.DeviceType.CPU]
    own = [event for event in events if "sonde_statistics" in event.name]
    return {
        "launches": len(events),
        "launches_ms": sum(event.time_range.elapsed_us() for event in events) / 1e3,
        "own_kernels": len(own),
        "own_kernels_ms": sum(event.time_range.elapsed_us() for event in own) / 1e3,
    }


def measure(model, steps, device):
    """{mode: {"ms": median of the steps, "ratio": to those without Sonde, and what a step launches}}"""
    step = models.training(model, device)
    modes = OF_DECODER if model in models.OF_GPUS else MODES
    results = {}
    times = {mode: [] for mode in modes}
    for number in range(ROUNDS):
        for mode, configuration in modes.items():
            with dump_of(configuration) as directory:
                for _ in range(WARM_UP):
                    step()
                for _ in range(steps):
                    started = time.perf_counter()
                    step()  # ends with a wait for the device: loss.item()
                    times[mode].append(time.perf_counter() - started)
                if number == ROUNDS - 1:
                    results[mode] = launched(step, device)
                    sonde.stop()
                    results[mode]["rows"] = rows_of(directory)
    for mode, row in results.items():
        row["ms"] = statistics.median(times[mode]) * 1e3
        row["ratio"] = row["ms"] / (statistics.median(times["off"]) * 1e3)
    return results


def table(model, results):
    lines = [f"{model:20}" + "".join(f"{mode:>36}" for mode in results)]
    for name in next(iter(results.values())):
        lines.append(f"{name:20}" + "".join(f"{row[name]:36.6g}" for row in results.values()))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(NAMES)}; default: transformer")
    parser.add_argument("--device", default="testdev", help="testdev counts; cuda and others are timed")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.device != "testdev" and not torch.accelerator.is_available():
        print(f"not run here: PyTorch {torch.__version__} finds no device of the kind '{options.device}'")
        return
    found = {}
    for model in options.models or ["transformer"]:
        if options.device == "testdev":
            found[model] = count(model, options.steps or 3)
        else:
            found[model] = measure(model, options.steps or 20, options.device)
        print(table(model, found[model]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
