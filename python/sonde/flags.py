"""The targets of set_dump(), which are recorded under `dump_mode` 2: modules, functions and types of operators.

Kept here, whether a session runs or not: set_dump() works before `sonde.start()` and while it records.
"""

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import nn

    from .library import Library

# id -> (weak reference, flagged): the given modules and every module below them
_modules: "dict[int, tuple[weakref.ref[nn.Module], bool]]" = {}
# code object -> flagged; kept alive, because the stack is searched for its address
_functions: dict[CodeType, bool] = {}
_types: dict[str, bool] = {}  # type of operator, in lower case -> flagged
_library: "Library | None" = None  # the adapter, while a session runs
_version = 0  # changes with the targets


def set_dump(target: object, enabled: bool = True) -> None:
    """Record `target` under `dump_mode` 2, or (enabled=False) do not record it any more.

    `target` is a module (its operators and those of all modules in it, forward and backward), a Python function (all
    calls inside it), or a type of operator: "conv2d", "MatMul", `torch.ops.aten.conv2d`,
    `torch.nn.functional.conv2d`. Inside MindSpore it is a Cell or a Primitive, before the network is compiled. If
    several contain an operator, the innermost counts.

        sonde.set_dump(network.conv1)
        sonde.set_dump(network.layers)
        sonde.set_dump(network.layers[3], enabled=False)

    Raises ValueError if `target` is not one of these or `enabled` is not a bool.
    """
    if _is_compiling():
        _set_dump_while_compiling(target, enabled)
    else:
        _set_dump(target, enabled)


def _set_dump(target: object, enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise ValueError(f"set_dump: enabled must be a bool, but got {type(enabled).__name__}")
    if _is_of_mindspore(target, enabled):
        return
    code = _code_of(target)
    root = _as_module(target)
    if root is not None:
        for module in _with_all_below(root):
            _modules[id(module)] = weakref.ref(module, functools.partial(_died, id(module))), enabled
    elif code is not None:
        _functions[code] = enabled
    else:
        name = _operator_name(target)
        if name is None:
            raise ValueError(
                "set_dump: target must be a torch.nn.Module, a function or an operator "
                f'("conv2d", torch.ops.aten.conv2d), but got {target!r}'
            )
        _types[name] = enabled
        if _library is not None:
            _library.flag_type(name, enabled)
    _report()


class dump_scope:
    """Operators of this thread inside the block, and their backward, are recorded under `dump_mode` 2.

    with sonde.dump_scope():
        y = x - mean

    Inside a model that is compiled, the nodes of the block are recorded; the graph is not interrupted.
    """

    def __enter__(self) -> None:
        _change_scope(1)

    def __exit__(self, *_: object) -> None:
        _change_scope(-1)


def _change_scope(change: int) -> None:
    if _library is None:
        return
    import torch

    if torch.compiler.is_compiling():
        torch.ops.sonde.dump_scope.default(change)  # a node of the graph
    else:
        _library.dump_scope(change)


def _is_compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def _set_dump_while_compiling(target: object, enabled: object) -> None:
    """Dynamo calls a function given to `comptime` when it comes to this line, and leaves nothing in the graph. That
    function reads the arguments of this one."""
    from torch._dynamo.comptime import comptime

    comptime(_set_dump_of_locals)


def _set_dump_of_locals(context: Any) -> None:
    """The arguments are known to Dynamo as variables: a module by its object, others as constants."""
    target, enabled = (context.get_local(name)._ComptimeVar__variable for name in ("target", "enabled"))
    value = getattr(target, "value", None)
    _set_dump(value if value is not None else target.as_python_constant(), enabled.as_python_constant())


def watch(library: "Library") -> Callable[[], None]:
    """A session begins: passes the flagged targets to the adapter. Returns the function to call when it ends."""
    global _library
    _library = library
    for name, enabled in _types.items():
        library.flag_type(name, enabled)
    _report()
    return _unwatch


def _unwatch() -> None:
    global _library
    if _library is not None:
        _library.set_flags({})
    _library = None


def version() -> int:
    """Another number after every change of the targets."""
    return _version


def is_flagged(modules: "Sequence[nn.Module]", trace: Sequence[tuple[str, int, str]]) -> bool:
    """For code that no interpreter runs: whether set_dump() was called for something around a place. `modules` and the
    lines of `trace` are innermost first."""
    for file, line, _ in trace:
        for code, enabled in list(_functions.items()):
            if code.co_filename == file and line in {number for _, _, number in code.co_lines()}:
                return enabled
    for module in modules:
        known = _modules.get(id(module))
        if known is not None:
            return known[1]
    return False


def _report() -> None:
    global _version
    _version += 1
    if _library is not None:
        flagged = {identity: enabled for identity, (_, enabled) in list(_modules.items())}
        flagged.update((id(code), enabled) for code, enabled in list(_functions.items()))
        _library.set_flags(flagged)


def _died(identity: int, reference: "weakref.ref[nn.Module]") -> None:
    known = _modules.get(identity)
    if known is not None and known[0] is reference:
        del _modules[identity]
        _report()


def _as_module(target: object) -> "nn.Module | None":
    torch = sys.modules.get("torch")
    if torch is None or not issubclass(type(target), torch.nn.Module):  # not isinstance(): no user code runs
        return None
    return cast("nn.Module", target)


def _is_of_mindspore(target: object, enabled: bool) -> bool:
    if "mindspore" not in sys.modules:
        return False
    from . import mindspore

    return mindspore.flag(target, enabled)


def _with_all_below(module: "nn.Module") -> "Iterator[nn.Module]":
    """`module` and every module in it, without calling methods that the user may have overridden."""
    seen, waiting = {id(module)}, [module]
    while waiting:
        one = waiting.pop()
        yield one
        for child in object.__getattribute__(one, "__dict__").get("_modules", {}).values():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _code_of(target: object) -> CodeType | None:
    """The code of a Python function or method; None for all others. For a decorated one it is the innermost."""
    if isinstance(target, type):
        return None
    target = getattr(target, "__func__", target)
    with contextlib.suppress(AttributeError, ValueError):
        while hasattr(target, "__wrapped__"):
            target = target.__wrapped__
    code = getattr(target, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _operator_name(target: object) -> str | None:
    """`conv2d` of "conv2d", torch.ops.aten.conv2d (with or without overload), torch.conv2d."""
    if isinstance(target, str):
        return target.strip().lower() or None
    for name in (getattr(target, "_qualified_op_name", None), getattr(target, "_name", None)):
        if isinstance(name, str) and "::" in name:
            return name.partition("::")[2].partition(".")[0].lower()
    if type(target).__name__ in ("builtin_function_or_method", "method_descriptor"):
        return cast(str, getattr(target, "__name__", "")).lower()
    return None
