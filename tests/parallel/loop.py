"""The training's loop: gradients, clipping, optimizer; and what the run leaves, to the bit."""

import ctypes
import hashlib
import json
import math
import pathlib

import planted as faults
import torch
import torch.distributed as dist
from planted import planted
from torch.distributed.tensor import DTensor


def summed(value, group=None, alone=None):
    """The sum of a value over the ranks of a group."""
    if planted("missing"):
        return value
    dist.all_reduce(value, group=alone if planted("group") else group)  # FAULT: missing, group
    if planted("mean"):
        value.div_(dist.get_world_size(group))  # FAULT: mean
    return value


def alone():
    """A group of this rank only, which a wrong collective uses."""
    if not faults.has("group"):
        return None
    return [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]


def of_all_ranks(squares):
    dist.all_reduce(squares)
    return squares


def clip(parameters, largest, over=None):
    """Scales the gradients to a norm of at most `largest`. `over` adds up what the ranks have."""
    squares = torch.zeros(())
    for parameter in parameters:
        square = parameter.grad.square().sum()  # FAULT: unreduced
        squares += square.full_tensor() if isinstance(square, DTensor) else square
    norm = (over(squares) if over else squares).sqrt()  # FAULT: whole_missing, whole_group
    coefficient = norm.clamp(max=largest) / norm  # FAULT: clipping
    for parameter in parameters:
        parameter.grad.mul_(coefficient)


def train(parameters, optimizer, gradients, place, *, over=None, largest=10.0):
    """`gradients(step)` runs forward and backward and returns the loss, or None on a rank that has none."""
    parameters = list(parameters)
    record = []
    for step in range(faults.STEPS):
        faults.go_to(step)
        optimizer.zero_grad()
        loss = gradients(step)
        clip(parameters, largest, over)
        if planted("state"):
            spoil(optimizer)
        if planted("optimizer"):
            optimizer.param_groups[0]["lr"] = math.inf
        if planted("doubled"):
            state_of(optimizer).mul_(2)  # FAULT: doubled
        if planted("rate"):
            optimizer.param_groups[0]["lr"] *= 1.1
        optimizer.step()  # FAULT: optimizer, whole_unreduced, rate
        if planted("decayed"):
            with torch.no_grad():
                parameters[-1].mul_(0.99)  # FAULT: decayed
        record.append([digest(t) for t in (loss, *(p.grad for p in parameters), *parameters)])
    if place:
        pathlib.Path(place, f"bits-{faults.rank}.json").write_text(json.dumps(record))


def spoil(optimizer):
    """The state of one parameter is divided by zero."""
    state_of(optimizer).div_(0)  # FAULT: state


def state_of(optimizer):
    """Of the first parameter."""
    state = next(iter(getattr(optimizer, "optim", optimizer).state.values()))
    return next(value for value in state.values() if value.ndim)


def digest(tensor):
    """Of the bytes of this rank's part. No operator runs: the dump contains the program's own only."""
    if tensor is None:
        return None
    local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
    if not local.is_contiguous():
        raise ValueError(f"a tensor of strides {local.stride()} has gaps")
    return hashlib.sha1(ctypes.string_at(local.data_ptr(), local.nbytes)).hexdigest()
