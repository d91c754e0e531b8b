"""The cost of Sonde's callback per operator, by part, in nanoseconds.

    .venv/bin/python benchmarks/callback_cost.py [--rounds 15] [--json FILE]

1,000 operators on one element, one line of a module two levels down, no gradients. Callbacks that do a little more each
(benchmarks/callback_cost.cpp, built on first use into build/) give the parts before the engine as differences; then
Sonde itself runs with its engine's functions timed by the cycle counter. Levels are interleaved, of each the minimum
over rounds counts; times are of the thread (CPU), so that a busy machine matters less. "rest" is what no part explains:
the look-up of the site, the thread's own state, the caches that everything shares.
"""

import argparse
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pathlib
import random
import sys
import tempfile
import time

import per_op
import torch
import training
from torch import nn

import sonde
import sonde.optimizers
from sonde import adapter_build
from sonde.torch_installation import find_torch

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = HERE.parent / "build" / "_callback_cost.so"
OPS = 1_000
LEVELS = (
    "an empty callback",
    "boxing the inputs",
    "boxing the outputs",
    "looking up the schema",
    "walking the Python frames",
    "describing the tensors",
)
MODES = {
    # No operator has this name: what remains is the structure of the graph, which is kept for every op of a step.
    "structure": training.mindspore(saved_data="statistic", dump_mode=1, kernels=["no-such-operator"]),
    "statistics": training.mindspore(saved_data="statistic", statistic_category=training.MOMENTS),
    "tensors": training.mindspore(saved_data="tensor"),
}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = per_op.Chain(OPS)

    def forward(self, x):
        return self.inner(x)


def compile_command():
    """The compiler and the flags for callback_cost.cpp, as for the adapter."""
    flags = adapter_build._compile_flags(find_torch())
    return [*adapter_build.find_compiler(), *flags, f"-I{adapter_build._INCLUDE}", f"-I{adapter_build.SOURCES}"]


def library():
    """The extension, built with all of the adapter's own sources when something is newer than it."""
    sources = [HERE / "callback_cost.cpp", pathlib.Path(__file__), *adapter_build.SOURCES.iterdir()]
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        print("building build/_callback_cost.so ...", file=sys.stderr)
        LIBRARY.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="sonde-benchmark-") as scratch:
            units = [HERE / "callback_cost.cpp", *adapter_build._write_units(find_torch(), pathlib.Path(scratch))]
            objects = [os.path.join(scratch, f"{unit.stem}.o") for unit in units]
            compile_one = [*compile_command(), "-c"]
            commands = [[*compile_one, str(unit), "-o", o] for unit, o in zip(units, objects, strict=True)]
            adapter_build._run_all(commands, scratch)
            libraries = find_torch().link_flags()
            link = [*adapter_build.find_compiler(), "-shared", *objects, "-o", str(LIBRARY), *libraries]
            adapter_build._run_all([link], scratch)
    loader = importlib.machinery.ExtensionFileLoader("_callback_cost", str(LIBRARY))
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("_callback_cost", loader=loader))
    loader.exec_module(module)
    return module


def fastest(model, x, steps=12):
    """CPU nanoseconds per op of this thread, of the fastest step."""
    best = float("inf")
    for _ in range(steps):
        begin = time.thread_time_ns()
        model(x)
        best = min(best, time.thread_time_ns() - begin)
    return best / OPS


def level_cost(cost, level, model, x):
    torch_directory = os.path.join(os.path.dirname(torch.__file__), "")
    cost.observe(level, nn.Module._wrapped_call_impl.__code__, sonde.optimizers.step_wrapper_code(), torch_directory)
    try:
        return fastest(model, x)
    finally:
        cost.ignore()


def mode_cost(settings, model, x, directory):
    sonde.start(settings(pathlib.Path(tempfile.mkdtemp(dir=directory))))
    try:
        return fastest(model, x)
    finally:
        with contextlib.redirect_stderr(io.StringIO()):
            sonde.stop()


def engine_cost(cost, settings, model, x, directory):
    """{function: (calls per op, ns per op)} of the engine's functions, each in its fastest step."""
    own = cost.clock()
    best = {}

    def step(argument):
        cost.spent()
        model(argument)
        for name, (calls, nanoseconds) in cost.spent().items():
            found = calls / OPS, max(0, nanoseconds - calls * own) / OPS
            # The first step begins before it is known to be one: only a part of it is recorded.
            if calls:
                best[name] = min(found, best.get(name, found), key=lambda pair: (-pair[0], pair[1]))

    original = sonde._core.api
    sonde._core.api = lambda: cost.timed_api(original())
    try:
        mode_cost(settings, step, x, directory)
    finally:
        sonde._core.api = original
    return best


def measure(cost, rounds, directory):
    model, x = Outer(), torch.rand(1)
    jobs = {"off": lambda: fastest(model, x)}
    jobs |= {name: lambda i=i: level_cost(cost, i, model, x) for i, name in enumerate(LEVELS)}
    jobs |= {mode: lambda s=settings: mode_cost(s, model, x, directory) for mode, settings in MODES.items()}
    best, engine = {}, {mode: {} for mode in MODES}
    with torch.no_grad():
        for _ in range(rounds):
            for name in random.sample(list(jobs), len(jobs)):
                best[name] = min(jobs[name](), best.get(name, float("inf")))
            for mode, settings in MODES.items():
                for name, found in engine_cost(cost, settings, model, x, directory).items():
                    engine[mode][name] = min(found, engine[mode].get(name, found), key=lambda pair: (-pair[0], pair[1]))
    return best, engine


def report(best, engine):
    print(f"ns per op (CPU time of the thread, minimum); the operator itself: {best['off']:.0f}")
    before = best["off"]
    for name in LEVELS:
        print(f"  {name:28} {best[name] - before:7.0f}")
        before = best[name]
    print(f"  {'sum':28} {before - best['off']:7.0f}")
    print(f"\n  {'Sonde':28}" + "".join(f"{mode:>12}" for mode in MODES))
    print(f"  {'all of it':28}" + "".join(f"{best[mode] - best['off']:12.0f}" for mode in MODES))
    for name in engine["tensors"]:
        print(f"  {'engine: ' + name:28}" + "".join(f"{engine[mode].get(name, (0, 0))[1]:12.0f}" for mode in MODES))
    rest = {mode: best[mode] - before - sum(ns for _, ns in engine[mode].values()) for mode in MODES}
    print(f"  {'rest':28}" + "".join(f"{rest[mode]:12.0f}" for mode in MODES))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="write the results here too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cost = library()
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-") as directory:
        best, engine = measure(cost, options.rounds, directory)
    report(best, engine)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"ns_per_op": best, "engine": engine}, indent=1))


if __name__ == "__main__":
    main()
