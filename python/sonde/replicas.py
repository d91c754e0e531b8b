"""Tensors that several ranks have: which of these ranks writes them, if the plan lets one write."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .modules import attributes, modules_below


def writer_of(spec: Any) -> int:
    """1 + the rank that writes the local tensor of a DTensor with this `_spec`: the first of those that have the same;
    0: no other rank has it. No collective is called."""
    mesh, placements = spec.mesh, spec.placements
    place = mesh.get_coordinate()
    if place is None or any(one.is_partial() for one in placements):
        return 0
    copied = [one.is_replicate() and size > 1 for one, size in zip(placements, mesh.shape, strict=True)]
    if not any(copied):
        return 0
    first = tuple(0 if is_copy else at for is_copy, at in zip(copied, place, strict=True))
    return int(mesh.mesh[first]) + 1


def writers_of(roots: Iterable[nn.Module]) -> dict[int, int]:
    """{address of a parameter: 1 + the rank that writes it + 2³² · the number of its DistributedDataParallel}. Other
    wrappers have DTensors, or parts of their own."""
    writers: dict[int, int] = {}
    for root in roots:
        for module in (root, *(below for _, below in modules_below(root))):
            if _is_ddp(module):
                number = len(writers) << 32
                for parameter in _parameters(module):
                    writers.setdefault(id(parameter), _first_rank(module) + 1 + number)
    return writers


def _is_ddp(module: nn.Module) -> bool:
    kind = type(module)
    return any(one.__name__ == "DistributedDataParallel" and one.__module__ == _DDP for one in kind.__mro__)


_DDP = "torch.nn.parallel.distributed"


def _first_rank(module: nn.Module) -> int:
    ranks: list[int] = torch.distributed.get_process_group_ranks(attributes(module)["process_group"])
    return ranks[0]


def _parameters(module: nn.Module) -> Iterable[torch.Tensor]:
    """Those that DDP keeps equal. Buffers differ between two forwards, and DTensors say it themselves."""
    ignored = attributes(module).get("parameters_to_ignore", ())
    model: nn.Module = attributes(module)["_modules"]["module"]
    for name, parameter in model.named_parameters():
        if name not in ignored and type(parameter) in (torch.Tensor, nn.Parameter):
            yield parameter
