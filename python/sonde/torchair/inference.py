"""TorchAir's calls for inference. They change nothing here, or are refused with the reason."""

from collections.abc import Callable
from typing import Any

from ..errors import Error
from .notices import say_once as say


def set_dim_gears(_tensor: object, dim_gears: dict[int, list[int]]) -> None:
    """Without effect: torch.compile decides about sizes by itself."""
    say(f"inference.set_dim_gears({dim_gears}) has no effect: torch.compile decides about sizes by itself")


def use_internal_format_weight(_model: object) -> None:
    """Without effect: weights keep their layout."""
    say("use_internal_format_weight has no effect: weights keep their layout on the CPU")


def cache_compile(function: Callable[..., Any], **_options: object) -> Callable[..., Any]:
    """The function itself, uncompiled: PyTorch has a cache of its own."""
    say("inference.cache_compile has no effect: the function runs uncompiled; torch.compile has a cache of its own")
    return function


def readable_cache(*_args: object, **_kwargs: object) -> Any:
    """Raises Error: there is no such cache."""
    raise Error("torchair.inference.readable_cache reads a cache of Ascend's compiler, which does not run here")
