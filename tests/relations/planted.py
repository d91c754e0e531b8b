"""The bench's registry: pairs of implementations of one network with equal weights, and the target's planted faults.

    pair = Pair("llama")

    @pair.prepare
    def prepare():            # before the recording: makes both, with equal weights
        return golden, target  # functions without arguments; target reads bad("name")

    pair.fault("rope_base", "pow")   # the right answer: types of operators; the line has bad("rope_base")
    pair.weight("halves", "gate_up") # the right answer: the name of the parameter contains this

The right answers are written before the first run. Of several lines with one name each is right.
"""

import dataclasses
import importlib
import pathlib
import pkgutil

import torch

HERE = pathlib.Path(__file__).parent

_pairs = {}
_planted = ""


def bad(name):
    """True if the fault of this name is planted in this run."""
    return name == _planted


def unsettle(network, *parts):
    """Adds noise to the weights with one of these parts in their names: norms begin with ones, which hide faults."""
    for name, weight in network.named_parameters():
        if any(part in name for part in parts):
            weight.data.add_(0.1 * torch.randn_like(weight))


def plant(name):
    global _planted
    _planted = name


@dataclasses.dataclass(frozen=True)
class Fault:
    pair: object
    name: str
    ops: tuple = ()
    weight: str = ""

    @property
    def lines(self):
        """Numbers of the lines with the fault."""
        text = pathlib.Path(self.pair.file).read_text().splitlines()
        return [i for i, line in enumerate(text, 1) if f'bad("{self.name}")' in line]


class Pair:
    """`kind`: healthy; or what the two are without a fault: `other_weights`, `unrelated`."""

    def __init__(self, name, kind="healthy"):
        self.name, self.kind, self.faults = name, kind, []
        self.file = ""
        if name in _pairs:
            raise ValueError(f"two pairs are called {name}")
        _pairs[name] = self

    def prepare(self, function):
        self.both, self.file = function, function.__code__.co_filename
        return function

    def fault(self, name, *ops):
        self.faults.append(Fault(self, name, ops))

    def weight(self, name, contained):
        self.faults.append(Fault(self, name, weight=contained))


def all_pairs(folder="pairs"):
    for module in sorted(module.name for module in pkgutil.iter_modules([str(HERE / folder)])):
        importlib.import_module(f"{folder}.{module}")
    for pair in _pairs.values():
        for fault in pair.faults:
            if not fault.lines:
                raise ValueError(f"no line of {pair.name} has the fault {fault.name}")
    return list(_pairs.values())
