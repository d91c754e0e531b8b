"""TORCH_COMPILE_DEBUG=1: the graphs and the log, in `torchair` beside Dynamo's and Inductor's own folders.

torch_compile_debug/run_<time>-pid_<pid>[-rank_<rank>]/torchair/
  debug.log
  model__0/dynamo_out_graph.txt
  model__0/forward/000_aot_forward_graph.txt, 001_aot_forward_original_ge_graph.pbtxt, …
"""

import contextlib
import itertools
import logging
import os
from collections.abc import Callable

import torch
from torch import fx
from torch._dynamo.utils import get_debug_dir
from torch._functorch._aot_autograd.logging_utils import get_aot_compilation_context

from .log import formatter, logger
from .text_files import write_text

_CURE = "the file is missing; Dynamo's debug_dir_root chooses another place"


def is_asked_for() -> bool:
    """True if the environment asks for the folder."""
    return os.environ.get("TORCH_COMPILE_DEBUG") == "1"


class ModelFolder:
    """`model__N`: a graph of Dynamo's. N is AOTAutograd's number of it, which Inductor's folders have too."""

    def __init__(self, module: fx.GraphModule | None = None) -> None:
        """`module`: the graph; None if AOTAutograd calls a compiler without Dynamo's backend."""
        self._graph = module.print_readable(print_output=False) if module is not None and is_asked_for() else ""

    def of_graph(self) -> "GraphFolder":
        """The folder of the graph that AOTAutograd compiles at the moment."""
        if not is_asked_for():
            return GraphFolder("", "")
        names = get_aot_compilation_context()[0]  # "0_forward"
        number, _, phase = (names[-1] if names else "0_forward").partition("_")
        root = _root()
        _follow_log(root)
        model = os.path.join(root, f"model__{number}")
        if self._graph:
            _write(os.path.join(model, "dynamo_out_graph.txt"), self._graph)
            self._graph = ""
        phase = "forward" if phase == "inference" else phase
        return GraphFolder(os.path.join(model, phase), phase)


class GraphFolder:
    """`forward` or `backward`: the stages of one graph of AOTAutograd's, numbered in their order."""

    def __init__(self, directory: str, phase: str) -> None:
        """An empty `directory`: nothing is written."""
        self.is_written = bool(directory)
        self._directory = directory
        self._phase = phase
        self._numbers = itertools.count()

    def write(self, stage: str, text: Callable[[], str]) -> None:
        """Writes a stage: `graph` as PyTorch prints it, one that ends in `_ge_graph` as TensorFlow's text."""
        if self.is_written:
            form = "pbtxt" if stage.endswith("_ge_graph") else "txt"
            name = f"{next(self._numbers):03}_aot_{self._phase}_{stage}.{form}"
            _write(os.path.join(self._directory, name), text())


def _root() -> str:
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    rank = f"-rank_{torch.distributed.get_rank()}" if is_distributed else ""
    return os.path.join(f"{get_debug_dir()}{rank}", "torchair")


def _write(path: str, text: str) -> bool:
    """Writes the file in a folder that is made if it is missing."""
    with contextlib.suppress(OSError):  # write_text then says why
        os.makedirs(os.path.dirname(path), exist_ok=True)
    return write_text(path, text, _CURE)


_followed: set[str] = set()  # the folders whose debug.log the logger writes


def _follow_log(root: str) -> None:
    """The logger writes to `debug.log` too, from now on."""
    path = os.path.join(root, "debug.log")
    if path in _followed:
        return
    _followed.add(path)
    if _write(path, ""):
        handler = logging.FileHandler(path, encoding="utf-8")
        handler.setFormatter(formatter())
        logger.addHandler(handler)
