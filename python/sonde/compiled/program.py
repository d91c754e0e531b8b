"""The part of a session that compiled graphs need: the host PyTorch has it."""

from collections.abc import Sequence
from typing import Protocol

from torch import nn

from ..library import Library
from ..module_names import ModuleNames
from ..optimizers import AliveOptimizers


class Program(Protocol):
    """The program while it is recorded."""

    library: Library
    names: ModuleNames
    optimizers: AliveOptimizers
    closed: bool
    left_out: int

    @property
    def plan_key(self) -> str:
        """Distinguishes the configurations of sessions, in the caches of compiled code."""
        ...

    def scope_of(self, chain: Sequence[nn.Module]) -> str:
        """The scope of modules that call each other, outermost first."""
        ...

    def compiled_root(self, module: nn.Module, is_resumed: bool) -> None:
        """A compiled graph runs, called by `module`, the outermost. `is_resumed`: after a graph break."""
        ...

    def compiled_owner(self, module: nn.Module) -> None:
        """A compiled function runs, in which modules are called, among them `module`."""
        ...

    def compiled_step_begins(self, inputs: Sequence[object]) -> None:
        """A compiled graph with an optimizer's step runs on these."""
        ...

    def compiled_step_ends(self) -> None:
        """A compiled graph with an optimizer's step has returned."""
        ...
