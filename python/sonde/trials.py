"""Runs whose results PyTorch throws away; their operators are recorded without values.

A stage of a pipeline computes the shapes of its results once, from memory that nobody has written.
"""

from collections.abc import Callable
from types import ModuleType

from .library import Library
from .patches import between, replace, when_imported

_MODULE = "torch.distributed.pipelining.stage"
# Of its classes, in versions of PyTorch.
_TRIALS = ("_shape_inference", "_forward_metadata_inference", "_backward_metadata_inference")


def watch(library: Library) -> Callable[[], None]:
    """Returns a function that undoes it."""
    undo: list[Callable[[], None]] = []
    undo.append(when_imported({_MODULE: lambda module: undo.extend(_watch_classes(module, library))}))

    def close() -> None:
        for step in undo:
            step()

    return close


def _watch_classes(module: ModuleType, library: Library) -> list[Callable[[], None]]:
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == _MODULE]
    places = [(one, name) for one in classes for name in _TRIALS if name in vars(one)]
    return [replace(one, name, between(getattr(one, name), library.trial)) for one, name in places]
