"""Names of the parameters that FSDP gathers for the forward and the backward of a unit: those of the parameters that it
has sharded."""

import functools
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
from torch import nn

from .console import say_once
from .library import Library
from .module_names import ModuleNames
from .modules import modules_below, without_wrappers
from .patches import all_of, replace, when_imported

_GROUPS = "torch.distributed.fsdp._fully_shard._fsdp_param_group"  # of fully_shard()
_FLAT = "torch.distributed.fsdp._flat_param"  # of FullyShardedDataParallel


def watch(library: Library, names: ModuleNames) -> Callable[[], None]:
    """Returns a function that undoes it."""
    paths = _Paths(names)
    undo: list[Callable[[], None]] = []

    def after(place: type, name: str, tensors: Callable[[Any], Iterator[tuple[nn.Module, str, Any]]]) -> None:
        undo.append(_name_after(place, name, library, paths, tensors))

    def meet_groups(module: ModuleType) -> None:
        after(module.FSDPParamGroup, "_to_unsharded", _of_group)

    def meet_flat(module: ModuleType) -> None:
        after(module.FlatParamHandle, "_use_unsharded_views", _of_flat_parameter)

    undo.append(when_imported({_GROUPS: meet_groups, _FLAT: meet_flat}))
    return all_of(undo)


def _of_group(group: Any) -> Iterator[tuple[nn.Module, str, Any]]:
    """(module, attribute, tensor) of the parameters of a group, which are gathered."""
    for parameter in group.fsdp_params:
        place = parameter._module_info
        yield place.module, place.param_name, parameter._unsharded_param


def _of_flat_parameter(handle: Any) -> Iterator[tuple[nn.Module, str, Any]]:
    """The same for the views of a flat parameter, and for itself."""
    yield handle._fully_sharded_module, "_flat_param", handle.flat_param
    for place in handle.flat_param._param_infos:
        yield place.module, place.param_name, vars(place.module).get(place.param_name)


def _name_after(
    place: type,
    name: str,
    library: Library,
    paths: "_Paths",
    tensors: Callable[[Any], Iterator[tuple[nn.Module, str, Any]]],
) -> Callable[[], None]:
    """The tensors have their names when the method returns."""
    original = getattr(place, name, None)
    if original is None:  # another version of PyTorch
        return lambda: None

    @functools.wraps(original)
    def gathers(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if torch.compiler.is_compiling() or not library.capturing():
            return result
        try:
            for module, attribute, tensor in tensors(self):
                path = paths.of(module)
                if path is not None and isinstance(tensor, torch.Tensor):
                    library.name_tensor(path + attribute, tensor)
        except Exception as error:
            say_once(f"sonde: internal error at a gathered parameter: {type(error).__name__}: {error}")
        return result

    return replace(place, name, gathers)


def _joined(path: tuple[str, ...]) -> str:
    """`blocks.0.`, without levels of wrappers."""
    return "".join(f"{name}." for name in without_wrappers(path))


class _Paths:
    """Where modules are in their models: `blocks.0.up.`, with the prefix of the model."""

    def __init__(self, names: ModuleNames) -> None:
        self._names = names
        self._known: dict[int, tuple[weakref.ref[nn.Module], str]] = {}

    def of(self, module: nn.Module) -> str | None:
        """None: no model that was called has the module."""
        known = self._known.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        self._known = {}
        for root in self._names.root_modules():
            prefix = self._names.parameter_prefix(root)
            self._known.setdefault(id(root), (weakref.ref(root), prefix))
            for path, below in modules_below(root):
                self._known.setdefault(id(below), (weakref.ref(below), prefix + _joined(path)))
        found = self._known.get(id(module))
        return found[1] if found is not None else None
