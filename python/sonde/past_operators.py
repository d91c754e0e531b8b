"""Writes that bypass PyTorch's operators: watches the few functions that allow them while a session runs.

`Tensor.numpy()` and storages leave a trace that the adapter finds by itself; these leave none.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from .library import Library
from .patches import all_of, replace

# These write elements, one Python call each.
_WRITERS = ("apply_", "map_", "map2_")

# These give the memory to another library; all of them end in one of the first two.
_EXPORTS = (
    (torch._C, "_to_dlpack"),
    (torch._C, "_to_dlpack_versioned"),
    (torch, "to_dlpack"),
    (torch.utils.dlpack, "to_dlpack"),
)


def watch(library: Library) -> Callable[[], None]:
    """Reports every tensor that these functions get to the adapter. Returns a function that undoes it."""
    undo = [_watch(torch.Tensor, name, library, given_away=False) for name in _WRITERS]
    undo.append(_watch_sizes(library))
    undo += [_watch(place, name, library, given_away=True) for place, name in _EXPORTS if hasattr(place, name)]
    return all_of(undo)


def _watch_sizes(library: Library) -> Callable[[], None]:
    """A storage that grows has memory that nobody has written. FSDP allocates its parameters so."""
    original = torch.UntypedStorage.resize_

    @functools.wraps(original)
    def resize_(self: torch.UntypedStorage, size: int) -> Any:
        before = self.nbytes()
        result = original(self, size)
        if self.device.type != "meta":
            library.storage_resized(self, before)
        return result

    return replace(torch.UntypedStorage, "resize_", resize_)


def _watch(place: object, name: str, library: Library, given_away: bool) -> Callable[[], None]:
    original = getattr(place, name)

    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            if args:
                library.memory_written(args[0], given_away)

    return replace(place, name, watched)
