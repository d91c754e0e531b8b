"""Keeps operators written in Python on the way that the adapter sees.

From PyTorch 2.15 on, an operator of torch.library.custom_op is called without PyTorch's C++ dispatcher, and so without
the callbacks that record it: only the operators inside it would be seen. While a session lasts these operators take
the way of earlier versions. The same kernels run.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from .patches import replace


def watch() -> Callable[[], None]:
    """Returns a function that gives the operators their own way back."""
    original = getattr(OpOverload, "_enable_pyobj_dispatch", None)
    if original is None:
        return lambda: None
    changed: weakref.WeakSet[Any] = weakref.WeakSet()

    @functools.wraps(original)
    def enable(op: Any, enabled: bool = True) -> None:
        """Of an operator that is defined from now on."""
        if enabled:
            changed.add(op)
        else:
            changed.discard(op)
            original(op, False)

    for op in _defined():
        if op._is_pyobj_dispatcher_enabled():
            changed.add(op)
            original(op, False)
    put_back = replace(OpOverload, "_enable_pyobj_dispatch", enable)

    def undo() -> None:
        put_back()
        for op in changed:
            original(op, True)

    return undo


def _defined() -> list[Any]:
    from torch._library.custom_ops import OPDEFS

    return [definition._opoverload for definition in list(OPDEFS.values())]
