"""The styles of parallel training: each a small program as its users write it.

    @style("TP", compiles=True)
    def tp(run): ...

The process group exists when a program is called.
"""

import dataclasses
import importlib

import torch

CPU = torch.device("cpu")


@dataclasses.dataclass(frozen=True)
class Style:
    name: str
    program: object
    title: str
    ranks: int = 2
    compiled: bool = False  # runs under torch.compile
    update: tuple = ("add_",)  # what an infinite learning rate goes wrong in
    joins: tuple = ("allreduce_",)  # the collective that may be a wrong one
    in_order: bool = False  # the ranks compute the network one after the other: the first and the last are known
    files: tuple = ("nets.py", "loop.py")  # with the marked lines
    callers: tuple = ()  # of collectives that the program does not call itself: beginnings of their names
    own: tuple = ()  # faults that only some styles can have
    lacks: tuple = ()  # faults that this style cannot have

    def can_have(self, fault):
        """Faults of all styles are none of those that only some can have."""
        if fault in self.lacks:
            return False
        return fault in self.own or not any(fault in other.own for other in STYLES.values())


STYLES = {}
MODULES = ("data", "tensor", "pipeline", "exchange")


def style(title, compiles=False, **what):
    def add(program):
        name = program.__name__
        STYLES[name] = Style(name, program, title, **what)
        if compiles:
            compiled = Style(name + "_compiled", program, title + ", compiled", compiled=True, **what)
            STYLES[compiled.name] = compiled
        return program

    return add


def all_styles():
    for module in MODULES:
        importlib.import_module(f"styles.{module}")
    return STYLES


@dataclasses.dataclass(frozen=True)
class Run:
    compiled: bool
    place: str  # the directory for the bits; empty: none

    def forward_of(self, network):
        forward = torch.compile(network, backend="aot_eager") if self.compiled else network
        _kept.append(forward)
        return forward


_kept = []  # in PyTorch 2.13 a process may hang while a network in DDP is destroyed, without Sonde too


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
