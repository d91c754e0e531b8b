"""One style with one fault, or none, as a program: `torchrun --nproc-per-node 2 program.py fsdp2 forward`."""

import contextlib
import ctypes
import sys

import planted
import torch
import torch.distributed as dist
from styles import Run, all_styles
from styles.whole import whole

NAN = 0xFF  # four such bytes are a float
THREE = 0x40
M_PERTURB = -6  # of malloc.h


def fill_new_memory(byte):
    """All that malloc gives is filled, so that runs do not depend on what was there before."""
    # glibc fills with the complement of the number's low byte; 0 alone means no filling.
    ctypes.CDLL(None).mallopt(M_PERTURB, (byte ^ 0xFF) or 0x100)


def main(name, fault, place="", unwritten=NAN):
    train(all_styles()[name], fault, place, unwritten)


def train(style, fault, place, unwritten):
    fill_new_memory(int(unwritten))
    dist.init_process_group("gloo")
    planted.begin(fault)
    torch.manual_seed(0)
    style.program(Run(style.compiled, place))
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()


def main_on_one_process(name, unwritten=NAN):
    fill_new_memory(int(unwritten))
    planted.begin("")
    torch.manual_seed(0)
    whole(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
