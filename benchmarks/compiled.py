"""The cost of recording in a training step of a compiled model (torch.compile), and of the second compiled form.

    .venv/bin/python benchmarks/compiled.py [--rounds 2] [--steps 30] [--json FILE] [MODEL ...]

Each mode runs in a process of its own, one thread, all modes in turn; the figures are processor time, the least of all
rounds. "compile" is the processor time of the first step with an empty cache of compiled code, the compiler's processes
included.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

MODES = ["off", "idle", "statistics", "one in ten", "tensors", "eager off", "eager statistics"]
MODELS = ["mlp", "transformer", "cnn"]


def settings(mode, out):
    common = {
        "dump_mode": 0, "path": out, "net_name": "Net", "iteration": "all", "input_output": 0, "kernels": [],
        "saved_data": "tensor" if mode == "tensors" else "statistic", "support_device": [0],
    }  # fmt: skip
    if mode == "idle":
        common["iteration"] = "1000000"
    if mode == "one in ten":
        common |= {"dump_mode": 1, "kernels": ["bmm", "gelu", "layer_norm", "convolution", "relu", "erf", "rsqrt"]}
    if common["saved_data"] == "statistic":
        common["statistic_category"] = ["max", "min", "avg", "l2norm", "nan count"]
    return {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}


def make(model):
    import torch
    from torch import nn

    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import models

    if model == "mlp":
        layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())]
        return nn.Sequential(*layers, nn.Linear(512, 10)), torch.randn(256, 512), torch.randint(0, 10, (256,))
    if model == "transformer":
        net = models.Transformer(layers=1)
        return net, torch.randint(0, 1000, (8, 128)), torch.randint(0, 1000, (8, 128))
    block = models.BasicBlock(32, 32, 1)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), block, nn.Flatten(), nn.Linear(32768, 10))
    return net, torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))


def cpu():
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def child(model, mode, steps, out):
    """Prints milliseconds of the fastest step and seconds of the first, processor time."""
    import torch
    from torch.nn import functional as F

    import sonde

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net, x, y = make(model)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    if not mode.endswith("off"):
        sonde.start(settings(mode.removeprefix("eager "), out))
    call = net if mode.startswith("eager") else torch.compile(net)

    def step():
        begin = cpu()
        F.cross_entropy(call(x).flatten(0, -2), y.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        return cpu() - begin

    first = step()
    times = [step() for _ in range(steps)][3:]
    print(json.dumps({"ms": 1e3 * min(times), "median": 1e3 * sorted(times)[len(times) // 2], "first": first}))
    sys.stdout.flush()
    if not mode.endswith("off"):
        sonde.stop()


def run(model, mode, steps, cache):
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, __file__, "--child", model, mode, "--steps", str(steps), "--out", f"{out}/dump"]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])


def measure(model, modes, rounds, steps):
    rows = {mode: {"ms": [], "median": [], "compile": []} for mode in modes}
    with tempfile.TemporaryDirectory() as cache:
        for number in range(rounds):
            for mode in modes:
                own = f"{cache}/{mode.replace(' ', '-')}"  # compiled for this mode alone in the first round
                answer = run(model, mode, steps, own)
                rows[mode]["ms"].append(answer["ms"])
                rows[mode]["median"].append(answer["median"])
                if number == 0:
                    rows[mode]["compile"].append(answer["first"])
    return {mode: {name: min(values) for name, values in row.items()} for mode, row in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--modes", nargs="*", choices=MODES, help="`off` is one of them")
    parser.add_argument("--json")
    parser.add_argument("--child", nargs=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.child:
        return child(*options.child, options.steps, options.out)
    results = {}
    for model in options.models:
        results[model] = rows = measure(model, options.modes or MODES, options.rounds, options.steps)
        print(f"{model:14} {'ms':>8} {'ratio':>6} {'median':>7} {'compile s':>10} {'ratio':>6}")
        for mode, row in rows.items():
            base = rows["eager off" if mode.startswith("eager") else "off"]
            ratio, compiled = row["ms"] / base["ms"], row["compile"] / base["compile"]
            shown = f"{row['compile']:10.1f} {compiled:6.2f}" if not mode.startswith("eager") else ""
            print(f"{mode:14} {row['ms']:8.2f} {ratio:6.2f} {row['median'] / base['median']:7.2f} {shown}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
