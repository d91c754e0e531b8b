"""Modules and their members, read without running user code: it may override methods of nn.Module."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from . import adapter


def attributes(module: nn.Module) -> dict[str, Any]:
    """`module.__dict__`, also if the user's class changes the access to attributes."""
    found: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return found


def _members(module: nn.Module) -> dict[str, Any]:
    """Where the children and tensors of a module are: a module that torch.jit.trace has made keeps another one."""
    found = attributes(module)
    script = found.get("_actual_script_module")
    return found if script is None else attributes(script)


def without_wrappers(path: Iterable[str]) -> list[str]:
    """The levels of a module's path that the program made: FSDP and checkpoints put others around modules
    (is_level_of_wrapper in the adapter)."""
    return [name for name in path if name not in ("_fsdp_wrapped_module", "_checkpoint_wrapped_module")]


def modules_below(root: nn.Module) -> Iterator[tuple[tuple[str, ...], nn.Module]]:
    """(path, module) of every module below `root`, once, in the order of named_modules(); any depth, also with
    cycles."""
    seen = {id(root)}
    levels: list[tuple[tuple[str, ...], Iterator[tuple[str, nn.Module | None]]]] = [((), iter(children(root)))]
    while levels:
        path, rest = levels[-1]
        for name, child in rest:
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                below = (*path, name)
                yield below, child
                levels.append((below, iter(children(child))))
                break
        else:
            levels.pop()


def children(module: nn.Module) -> list[tuple[str, nn.Module | None]]:
    """(attribute, module) of a module's direct children."""
    found = _members(module).get("_modules", {}).items()
    return [(name, program_module(child) if child is not None else None) for name, child in found]


def program_module(module: nn.Module) -> nn.Module:
    """The program's module: torch.compile puts an OptimizedModule around it, which is not a level of any name."""
    while type(module).__name__ == "OptimizedModule" and type(module).__module__ == "torch._dynamo.eval_frame":
        inner = attributes(module).get("_modules", {}).get("_orig_mod")
        if inner is None:
            break
        module = inner
    return module


def tensors_of(root: nn.Module, table: str) -> list[tuple[str, torch.Tensor]]:
    """(name, tensor) of the `_parameters` or `_buffers` of `root` and all below it: `features.0.weight`."""
    return adapter.load().model_tensors(root, table)


def has_parameters(root: nn.Module) -> bool:
    """True if `root` or a module below it has a parameter. Without the paths of tensors_of(), since each call of a root
    asks."""
    waiting, seen = [root], {id(root)}
    while waiting:
        members = _members(waiting.pop())
        if any(issubclass(type(parameter), torch.Tensor) for parameter in members.get("_parameters", {}).values()):
            return True
        for child in members.get("_modules", {}).values():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)
    return False


def in_training(module: nn.Module) -> bool:
    """True if the module is in training mode. An OptimizedModule leaves that to the module that it compiles."""
    return attributes(program_module(module)).get("training") is True


def may_train(module: nn.Module) -> bool:
    """True if some parameter requires a gradient."""
    return any(tensor.requires_grad for _, tensor in tensors_of(module, "_parameters"))
