"""A dump to look at: ranks, steps, operators, tensors, of any writer; no framework is needed.

    dump = sonde.open("/data/run7")
    for tensor in dump.tensors.select(op="conv2", side="output", step=3):
        print(tensor.name, tensor.statistics.max, tensor.numpy().mean())

A dump's facts are kept in columns, one array for all tensors; an object is made only on request. A file is mapped when
its values are requested, and the array is a read-only view of the mapping. Needs NumPy.
"""

from ..answer_types import COUNTS, REALS, TRENDS, Statistics
from ..extras import extra
from .dump import Dump, open
from .graph import Edge, Graph
from .records import Problem, Source, Step
from .rows import Op, Ops, Tensor, Tensors
from .server import Server

__all__ = [
    "COUNTS",
    "REALS",
    "TRENDS",
    "Dump",
    "Edge",
    "Graph",
    "Op",
    "Ops",
    "Problem",
    "Server",
    "Source",
    "Statistics",
    "Step",
    "Tensor",
    "Tensors",
    "extra",
    "open",
]
