"""One style with one fault, or none, as a program: `torchrun --nproc-per-node 2 program.py fsdp2 forward`."""

import contextlib
import sys

import planted
import torch
import torch.distributed as dist
from styles import Run, all_styles


def main(name, fault, place=""):
    style = all_styles()[name]
    dist.init_process_group("gloo")
    planted.begin(fault)
    torch.manual_seed(0)
    style.program(Run(style.compiled, place))
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
