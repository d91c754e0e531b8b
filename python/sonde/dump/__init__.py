"""A dump to look at: ranks, steps, operators, tensors, of any writer; no framework is needed.

    dump = sonde.open("/data/run7")
    for tensor in dump.tensors.select(op="conv2", side="output", step=3):
        print(tensor.name, tensor.statistics.max, tensor.numpy().mean())

What a dump knows is kept in columns, one array for all tensors; an object is made when one is asked for. A file is
mapped when its values are asked for, and the array is a view of the mapping that cannot be written to. Needs NumPy.
"""

from ..extras import extra
from .dump import Dump, open
from .graph import Edge, Graph
from .records import COUNTS, REALS, Problem, Source, Statistics, Step
from .rows import Op, Ops, Tensor, Tensors

__all__ = [
    "COUNTS",
    "REALS",
    "Dump",
    "Edge",
    "Graph",
    "Op",
    "Ops",
    "Problem",
    "Source",
    "Statistics",
    "Step",
    "Tensor",
    "Tensors",
    "extra",
    "open",
]
