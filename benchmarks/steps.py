"""Dumped steps beside undumped ones in one run: each mode's step, divided by the undumped steps of the same process.

    .venv/bin/python benchmarks/steps.py [--threads 1] [--steps 40] [--mode NAME ...] [--json FILE] [MODEL ...]

Two patterns. "alternating": the plan's iteration chooses every second step, so that a dumped step comes right after an
undumped one, and nothing is known of the memory: each parameter is read again. "steady": stretches of dumped steps, the
first four of each left out, between stretches of undumped ones; an unchanged tensor is known from the step before. The
table has the ratio of medians and, in brackets, that of minima: other work on the machine changes the medians more.

Models: those of models.py, and with transformers installed (scripts/setup --frameworks makes .venv-frameworks) gpt2 and
bert of that library, small and with random weights.
"""

import argparse
import contextlib
import importlib.util
import io
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import models
import torch
import training

import sonde

PLANS = {
    "idle": training.mindspore(saved_data="statistic", iteration="1000000"),
    "overflow": training.mindspore(saved_data="tensor", op_debug_mode=3),
    "statistics": training.mindspore(saved_data="statistic", statistic_category=training.MOMENTS),
    "tensors": training.mindspore(saved_data="tensor"),
}
LIBRARY = ("gpt2", "bert")
STRETCH, WARM_UP = 5, 4


def library_training(name):
    """`step()` for a model of transformers: 4 layers of 256, batch 8 x 128 tokens, fused AdamW."""
    import transformers

    torch.manual_seed(0)
    if name == "gpt2":
        config = transformers.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=1000, n_positions=128)
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.BertConfig(
            num_hidden_layers=4, hidden_size=256, num_attention_heads=4, intermediate_size=1024, vocab_size=1000
        )
        model = transformers.BertForMaskedLM(config)
    tokens = torch.randint(0, 1000, (8, 128))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step():
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def timed(step, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


@contextlib.contextmanager
def recording(settings):
    with contextlib.redirect_stderr(io.StringIO()):
        sonde.start(settings)
    yield
    with contextlib.redirect_stderr(io.StringIO()):
        sonde.stop()


def alternating(step, plan, steps, directory):
    """(seconds of dumped steps, of undumped ones)"""
    settings = plan(tempfile.mkdtemp(dir=directory))
    settings["common_dump_settings"]["iteration"] = "|".join(str(i) for i in range(1, 2 * steps + WARM_UP, 2))
    with recording(settings):
        times = timed(step, 2 * steps + WARM_UP)[WARM_UP:]
    return times[1::2], times[0::2]


def steady(step, plan, steps, directory):
    dumped, undumped = [], []
    while len(dumped) < steps:
        undumped += timed(step, STRETCH + 1)[1:]
        with recording(plan(tempfile.mkdtemp(dir=directory))):
            dumped += timed(step, WARM_UP + STRETCH)[WARM_UP:]
    return dumped, undumped


def measure(model, modes, steps, directory):
    step = library_training(model) if model in LIBRARY else models.training(model)
    timed(step, 3)
    results = {}
    for mode in modes:
        for name, pattern in (("alternating", alternating), ("steady", steady)):
            if mode == "idle" and name == "alternating":
                continue  # the plan chooses no step
            # Dumps of many tensors are large: a quarter of the steps tells their ratio.
            count = max(STRETCH, steps // 4) if mode == "tensors" else steps
            scratch = pathlib.Path(tempfile.mkdtemp(dir=directory))
            dumped, undumped = pattern(step, PLANS[mode], count, scratch)
            shutil.rmtree(scratch)
            results[f"{mode}, {name}"] = {
                "undumped_seconds": statistics.median(undumped),
                "ratio": statistics.median(dumped) / statistics.median(undumped),
                "ratio_of_minima": min(dumped) / min(undumped),
            }
    return results


def table(model, results):
    lines = [f"{model}  (undumped step: {1e3 * min(r['undumped_seconds'] for r in results.values()):.0f} ms)"]
    lines += [f"  {name:24} {r['ratio']:6.3f} ({r['ratio_of_minima']:.3f})" for name, r in results.items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = (*models.NAMES, *LIBRARY)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"{', '.join(known)} (default: all but the last two)"
    )
    parser.add_argument("--threads", type=int, default=1, help="torch's threads")
    parser.add_argument("--steps", type=int, default=40, help="dumped steps of each mode and pattern")
    parser.add_argument("--mode", action="append", choices=tuple(PLANS), help="only this mode; repeatable")
    parser.add_argument("--directory", help="where dumps are written (default: the temporary directory)")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here too")
    options = parser.parse_args()
    for unknown in set(options.models) - set(known):
        parser.error(f"unknown model '{unknown}'; there are {', '.join(known)}")
    chosen = options.models or list(models.NAMES)
    if set(chosen) & set(LIBRARY) and importlib.util.find_spec("transformers") is None:
        parser.error(f"transformers is not installed in {sys.executable}; use .venv-frameworks/bin/python")
    torch.set_num_threads(options.threads)
    everything = {}
    with tempfile.TemporaryDirectory(prefix="sonde-benchmark-", dir=options.directory) as directory:
        for model in chosen:
            everything[model] = measure(model, options.mode or list(PLANS), options.steps, directory)
            print(table(model, everything[model]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
