"""Finds optimizers, their steps, and the steps that a GradScaler skips."""

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

from torch import nn
from torch.optim.optimizer import Optimizer

from .library import Library
from .modules import tensors_of
from .patches import replace

_Class = TypeVar("_Class")


def step_wrapper_code() -> CodeType:
    """The code of the function around every Optimizer.step."""
    own = Optimizer.profile_hook_step.__code__
    for constant in own.co_consts:
        if isinstance(constant, CodeType) and constant.co_name == "wrapper":
            return constant
    return own


def parameters_of(optimizer: Optimizer) -> list[Any]:
    """All that it trains."""
    return [parameter for group in vars(optimizer).get("param_groups", ()) for parameter in group["params"]]


class AliveOptimizers:
    """The living torch.optim.Optimizer objects: those that exist when the session begins, then every new one.

    Every Optimizer, made or unpickled, runs `_patch_step_function` once; it is what makes its steps visible at all.
    """

    def __init__(self) -> None:
        self._bare: dict[int, bool] = {}  # id of an optimizer -> it trains tensors of no module
        # id of a module -> (it, an optimizer trains a parameter of it)
        self._trained: dict[int, tuple[weakref.ref[nn.Module], bool]] = {}
        self._alive: list[weakref.ref[Optimizer]] = []
        if any("step" in vars(c) and getattr(vars(c)["step"], "hooked", False) for c in _subclasses(Optimizer)):
            # type(), not isinstance(): a user's __class__ property must not run.
            self._alive = [weakref.ref(o) for o in gc.get_objects() if issubclass(type(o), Optimizer)]
        self._undo = _wrap_method(Optimizer, "_patch_step_function", self._made)

    def close(self) -> None:
        """Stops watching for new ones."""
        self._undo()

    def all(self) -> list[Optimizer]:
        """Those that exist, in the order in which they were made."""
        return [optimizer for optimizer in (reference() for reference in self._alive) if optimizer is not None]

    def any(self) -> bool:
        """True if one exists."""
        return any(reference() is not None for reference in reversed(self._alive))

    def name_of_any(self) -> str:
        """`optimizer-Adam`, of the one that was made last; `optimizer` if there is none."""
        alive = self.all()
        return f"optimizer-{type(alive[-1]).__name__}" if alive else "optimizer"

    def train_bare_parameters(self) -> bool:
        """True if some optimizer trains tensors outside modules: then no module's forward announces the first step."""
        alive = self.all()
        new = [optimizer for optimizer in alive if id(optimizer) not in self._bare]
        if new:
            modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module)]
            owned = {id(p) for m in modules for p in vars(m).get("_parameters", {}).values()}
            for optimizer in new:
                self._bare[id(optimizer)] = not owned.issuperset(map(id, parameters_of(optimizer)))
        return any(self._bare[id(optimizer)] for optimizer in alive)

    def train(self, module: nn.Module) -> bool:
        """True if some optimizer trains a parameter of `module`; the first answer is kept."""
        known = self._trained.get(id(module))
        if known is None or known[0]() is not module:
            trained = {id(one) for optimizer in self.all() for one in parameters_of(optimizer) if one.requires_grad}
            answer = any(id(parameter) in trained for _, parameter in tensors_of(module, "_parameters"))
            known = self._trained[id(module)] = weakref.ref(module), answer
        return known[1]

    def _made(self, optimizer: Optimizer) -> None:
        self._trained.clear()
        self._bare.pop(id(optimizer), None)  # an entry of another optimizer with the same address
        self._alive = [reference for reference in self._alive if reference() is not None]
        self._alive.append(weakref.ref(optimizer))


def watch_scaler(library: Library) -> Callable[[], None]:
    """GradScaler.update also ends a step if the optimizer was skipped; returns a function that undoes the watching."""
    from torch.amp import GradScaler

    return _wrap_method(GradScaler, "update", lambda scaler: library.scaler_update() if scaler.is_enabled() else None)


def _wrap_method(cls: type[_Class], name: str, then: Callable[[_Class], None]) -> Callable[[], None]:
    """`then(self)` runs after every call of the method that returned; returns a function that undoes it."""
    original = getattr(cls, name)

    @functools.wraps(original)
    def method(self: _Class, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        with contextlib.suppress(Exception):  # no exception may reach the user's program
            then(self)
        return result

    return replace(cls, name, method)


def _subclasses(cls: type) -> set[type]:
    found: set[type] = set()
    queue = [cls]
    while queue:
        subclasses: list[type] = type.__subclasses__(queue.pop())
        for sub in subclasses:
            if sub not in found:
                found.add(sub)
                queue.append(sub)
    return found
