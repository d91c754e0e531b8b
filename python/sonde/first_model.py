"""Looks for the first model of a process that may never run one: a worker of multiprocessing, or a forked child.

A process that loads data, compiles or starts others has none. What counts is a call of a module with parameters, an
operator that computes with gradients, a step of an optimizer, a compilation, or a rank from torch.distributed.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from . import adapter, serving
from .compiled import activation
from .library import Library
from .modules import has_parameters


class Search:
    """A search that has begun."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """`begin` is called once, when the first model is about to run, in the thread that runs it."""
        self._begin = begin
        serving.watch()
        self._library: Library | None = adapter.load()
        self._undo = activation.before_first_compilation(self.found)
        self._library.look_for_model(nn.Module._wrapped_call_impl.__code__, self._model_may_run)

    def found(self) -> None:
        """A model is about to run in this process."""
        if self._library is None:
            return
        self.end()
        if not _loads_data():
            self._begin()

    def end(self) -> None:
        """Nothing is looked for any more."""
        library, self._library = self._library, None
        if library is not None:
            self._undo()
            library.end_search()

    def _model_may_run(self, root: nn.Module | None, trains: bool) -> None:
        if _loads_data():
            self.end()
        elif trains or _has_rank() or (root is not None and has_parameters(root)):
            self.found()


def _loads_data() -> bool:
    workers: Any = sys.modules.get("torch.utils.data._utils.worker")
    return workers is not None and workers.get_worker_info() is not None


def _has_rank() -> bool:
    distributed: Any = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())
