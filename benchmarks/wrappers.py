"""The cost of recording an operator under DDP, FSDP2 and tensor parallelism, beside the same model in plain tensors.

    .venv/bin/python benchmarks/wrappers.py [--rounds 5] [--steps 20] [--json FILE]

Each style trains the same multilayer perceptron on a mesh of one process: no other process has a part in the times.
Modes are interleaved, and the fastest step of all rounds counts, in processor time of the thread that trains. "selected
out": every operator is seen, none is recorded.
"""

import argparse
import contextlib
import io
import json
import pathlib
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import sonde

WARM_UP = 4
LAYERS = 8
MODES = {
    "off": None,
    "selected out": {"kernels": ["no-such-operator"], "dump_mode": 1},
    "statistics": {"kernels": [], "dump_mode": 0},
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(*(Block() for _ in range(LAYERS)))


def tensor_parallel(model, mesh):
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def fully_sharded(model, mesh):
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


STYLES = {
    "plain": lambda model, mesh: model,
    "DDP": lambda model, mesh: nn.parallel.DistributedDataParallel(model),
    "FSDP2": fully_sharded,
    "TP": tensor_parallel,
}


def settings(out, mode):
    common = {"path": str(out), "saved_data": "statistic", "net_name": "Net", "iteration": "all", "input_output": 0}
    return {"common_dump_settings": common | {"support_device": [0], "op_debug_mode": 0} | MODES[mode]}


def train_step(model, optimizer, x):
    begin = time.thread_time()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    return time.thread_time() - begin


def measure(style, mode, mesh, steps):
    """(the fastest step in seconds, operators recorded in a step)"""
    model = STYLES[style](perceptron(), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    x = torch.rand(4, 16)
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stderr(io.StringIO()):
        if MODES[mode] is not None:
            sonde.start(settings(pathlib.Path(directory), mode))
        times = [train_step(model, optimizer, x) for _ in range(WARM_UP + steps)]
        ops = 0
        if MODES[mode] is not None:
            sonde.stop()
            ops = sum(op.step == WARM_UP for op in sonde.open(directory).ops) if mode == "statistics" else 0
    return min(times[WARM_UP:]), ops


def table(rounds, steps, mesh):
    best, ops = {}, {}
    for _ in range(rounds):
        for style in STYLES:
            for mode in MODES:
                seconds, count = measure(style, mode, mesh, steps)
                best[style, mode] = min(seconds, best.get((style, mode), seconds))
                ops[style] = max(count, ops.get(style, 0))
    for style in STYLES:
        added = {mode: 1e6 * (best[style, mode] - best[style, "off"]) / ops[style] for mode in MODES}
        yield {"style": style, "ops": ops[style], "off_ms": 1e3 * best[style, "off"], "added_us_per_op": added}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    rows = list(table(args.rounds, args.steps, init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))))
    modes = [mode for mode in MODES if mode != "off"]
    print(f"{'style':<8}{'ops':>6}{'off, ms':>10}" + "".join(f"{mode + ', µs/op':>22}" for mode in modes))
    for row in rows:
        added = "".join(f"{row['added_us_per_op'][mode]:>22.2f}" for mode in modes)
        print(f"{row['style']:<8}{row['ops']:>6}{row['off_ms']:>10.2f}{added}")
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
