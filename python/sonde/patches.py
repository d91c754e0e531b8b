"""Changes of other packages' code while a session runs: attributes that are replaced, and modules that are met when the
program imports them."""

import contextlib
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any


def all_of(undo: Iterable[Callable[[], None]]) -> Callable[[], None]:
    """A function that calls these, in their order; also those that a list gets later."""

    def close() -> None:
        for step in undo:
            step()

    return close


def replace(place: Any, name: str, ours: object) -> Callable[[], None]:
    """Replaces an attribute of a class or module. Returns a function that puts the old one back, unless other code has
    replaced ours since."""
    inherited = name not in vars(place)
    original = getattr(place, name)
    setattr(place, name, ours)

    def undo() -> None:
        if vars(place).get(name) is not ours:
            return
        if inherited:
            delattr(place, name)
        else:
            setattr(place, name, original)

    return undo


def between(original: Callable[..., Any], change: Callable[[int], None]) -> Callable[..., Any]:
    """`original`, with change(1) before each call of it and change(-1) after it."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        change(1)
        try:
            return original(*args, **kwargs)
        finally:
            change(-1)

    return call


def when_imported(meetings: Mapping[str, Callable[[ModuleType], None]]) -> Callable[[], None]:
    """Calls each function with the module of its name: at once if that is there, else after its import. Returns a
    function that ends the waiting."""
    waiting = dict(meetings)
    for name, meet in meetings.items():
        module = sys.modules.get(name)
        if module is not None:
            del waiting[name]
            meet(module)
    finder = _Finder(waiting)
    if waiting:
        sys.meta_path.insert(0, finder)
    return finder.end


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that it waits for as the others do, and calls a function after their import."""

    def __init__(self, waiting: dict[str, Callable[[ModuleType], None]]) -> None:
        self.waiting = waiting

    def end(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        meet = self.waiting.pop(fullname, None)
        if meet is None:
            return None
        if not self.waiting:
            self.end()
        spec = importlib.util.find_spec(fullname)
        loader = spec.loader if spec is not None else None
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute  # type: ignore[method-assign]
            execute(module)
            meet(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
