"""Runs whose results PyTorch throws away; their operators are recorded without values.

A stage of a pipeline computes the shapes of its results once, from memory that nobody has written.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .library import Library

_MODULE = "torch.distributed.pipelining.stage"
# Of its classes, in versions of PyTorch.
_TRIALS = ("_shape_inference", "_forward_metadata_inference", "_backward_metadata_inference")


def watch(library: Library) -> Callable[[], None]:
    """Returns a function that undoes it. The module is not imported here: that takes long."""
    undo: list[Callable[[], None]] = []
    finder = _Finder(lambda module: undo.extend(_watch_classes(module, library)))
    if _MODULE in sys.modules:
        undo.extend(_watch_classes(sys.modules[_MODULE], library))
    else:
        sys.meta_path.insert(0, finder)

    def close() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        for step in undo:
            step()

    return close


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for the import of the one module."""

    def __init__(self, imported: Callable[[ModuleType], None]) -> None:
        self.imported = imported

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)  # the others find it
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _call_after(spec.loader, self.imported)
        return spec


def _call_after(loader: Any, imported: Callable[[ModuleType], None]) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        original(module)
        imported(module)

    loader.exec_module = exec_module


def _watch_classes(module: ModuleType, library: Library) -> list[Callable[[], None]]:
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == _MODULE]
    return [_watch(one, name, library) for one in classes for name in _TRIALS if name in vars(one)]


def _watch(place: type, name: str, library: Library) -> Callable[[], None]:
    original = getattr(place, name)

    @functools.wraps(original)
    def trial(*args: Any, **kwargs: Any) -> Any:
        library.trial(1)
        try:
            return original(*args, **kwargs)
        finally:
            library.trial(-1)

    setattr(place, name, trial)

    def undo() -> None:
        if vars(place).get(name) is trial:
            setattr(place, name, original)

    return undo
