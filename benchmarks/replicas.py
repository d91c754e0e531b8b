"""What `"replicas": "first"` saves: the bytes of the tensor files of two ranks, written by all and by the first.

    .venv/bin/python benchmarks/replicas.py [--layers 4] [--width 128] [--steps 2]

A stack of linear layers: in DistributedDataParallel, in FSDP2, and cut in two by rows with an all_reduce after each
(tensor parallelism by hand). Files with several names count once."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TRAINING = """
import os, sys, torch, torch.distributed as dist
from torch import nn
style, layers, width, steps = sys.argv[1], *map(int, sys.argv[2:])
dist.init_process_group("gloo", init_method=os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=2)
torch.manual_seed(0)
torch.set_num_threads(1)

class Summed(torch.autograd.Function):
    @staticmethod
    def forward(context, part):
        total = torch.ops._c10d_functional.all_reduce(part, "sum", dist.group.WORLD.group_name)
        return torch.ops._c10d_functional.wait_tensor(total)

    @staticmethod
    def backward(context, gradient):
        return gradient

class ByRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(width // 2, width, bias=False)

    def forward(self, x):
        half = self.linear(x.chunk(2, -1)[dist.get_rank()])
        return Summed.apply(half).relu()

net = nn.Sequential(*[ByRows() if style == "rows" else nn.Linear(width, width) for _ in range(layers)])
if style == "fsdp2":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (2,))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
if style == "ddp":
    net = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.Adam(net.parameters())
for step in range(steps):
    net(torch.randn(32, width)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def written(place, style, replicas, options):
    """The bytes of the tensor files."""
    place.mkdir()
    (place / "train.py").write_text(TRAINING)
    common = {"dump_mode": 0, "path": str(place / "dump"), "net_name": "Net", "iteration": "all", "input_output": 0}
    common |= {"kernels": [], "support_device": [0, 1], "saved_data": "full"}
    config = {"common_dump_settings": common, "sonde_settings": {"replicas": replicas}}
    (place / "config.json").write_text(json.dumps(config))
    sizes = [str(size) for size in (options.layers, options.width, options.steps)]
    shared = {
        "MINDSPORE_DUMP_CONFIG": str(place / "config.json"),
        "MEET": f"file://{place / 'meet'}",
        "WORLD_SIZE": "2",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "train.py", style, *sizes],
            cwd=place,
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    for process in processes:
        _, errors = process.communicate()
        if process.returncode != 0:
            sys.exit(errors.decode())
    found = [path.stat() for path in (place / "dump").rglob("*.npy")]
    return sum({one.st_ino: one.st_size for one in found}.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--steps", type=int, default=2)
    options = parser.parse_args()
    for style in ("ddp", "fsdp2", "rows"):
        with tempfile.TemporaryDirectory() as out:
            every, first = (written(Path(out) / one, style, one, options) for one in ("all", "first"))
        print(f"{style}: all {every / 1e6:.2f} MB, first {first / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
