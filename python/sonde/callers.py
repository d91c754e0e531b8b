"""The names of callers of collectives that are not lines of the program: DistributedDataParallel for a bucket of
gradients, FSDP for a unit of parameters, a pipeline for a micro-batch."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from .library import Library
from .modules import without_wrappers
from .patches import all_of, replace, when_imported

_MOST_NAMES = 8

Undo = Callable[[], None]


def watch(library: Library, roots: Callable[[], list[nn.Module]]) -> Undo:
    """Names the callers of collectives while a session runs. `roots`: the program's models that were called. Returns a
    function that undoes it."""
    undo: list[Undo] = []
    meetings: dict[str, Callable[[ModuleType], list[Undo]]] = {
        "torch.nn.parallel.distributed": functools.partial(_watch_ddp, library, roots),
        "torch.distributed.fsdp._fully_shard._fsdp_param_group": functools.partial(_watch_fsdp2, library),
        "torch.distributed.fsdp._runtime_utils": functools.partial(_watch_fsdp1, library, roots),
        "torch.distributed.pipelining.stage": functools.partial(_watch_pipeline, library),
    }

    def meet(name: str, module: ModuleType) -> None:
        # A version of PyTorch may lack some of these functions.
        with contextlib.suppress(Exception):
            undo.extend(meetings[name](module))

    undo.append(when_imported({name: functools.partial(meet, name) for name in meetings}))
    return all_of(undo)


def _named(library: Library, place: Any, name: str, text_of: Callable[..., str]) -> Undo:
    """Collectives that the function `name` calls are called by `text_of` its arguments, inside of what calls that."""
    original = getattr(place, name)

    @functools.wraps(original)
    def named(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(*args, **kwargs)
        text = _safely(text_of, *args, **kwargs)
        before = library.caller(text)
        if before:
            library.caller(f"{text}, in {before}" if text else before)
        try:
            return original(*args, **kwargs)
        finally:
            library.caller(before)

    return replace(place, name, named)


def _safely(text_of: Callable[..., str], *args: Any, **kwargs: Any) -> str:
    """Private parts of PyTorch may differ in its next version."""
    try:
        return text_of(*args, **kwargs)
    except Exception:
        return ""


def _list(names: Iterable[str]) -> str:
    """`fc1.weight, fc1.bias`"""
    names = list(names)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


# --- DistributedDataParallel


def _watch_ddp(library: Library, roots: Callable[[], list[nn.Module]], module: ModuleType) -> list[Undo]:
    ddp = module.DistributedDataParallel
    buckets = _Buckets(library, roots)
    return [
        _watch_reducer(buckets),
        _named(library, _reducer(), "_rebuild_buckets", lambda *_: "DDP, for the order of its buckets"),
        _named(library, ddp, "_sync_buffers", lambda *_: "DDP, for buffers"),
        _named(library, module, "_sync_module_states", lambda *_, **__: "DDP, for parameters and buffers of rank 0"),
    ]


class _Buckets:
    """The buckets of each reducer. They are made anew after the first backward, and when the program changes them, so
    they are looked at before the first backward passes, and then more and more rarely."""

    def __init__(self, library: Library, roots: Callable[[], list[nn.Module]]) -> None:
        self.library, self.roots = library, roots
        self.passes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def backward_comes(self, reducer: Any) -> None:
        passes = self.passes[reducer] = self.passes.get(reducer, 0) + 1
        if passes > 4 and passes & (passes - 1):
            return
        names = self._names(reducer)
        for number, (memory, parameters) in enumerate(self.library.ddp_buckets(reducer)):
            known = [names.get(id(parameter), "a parameter without a name") for parameter in parameters]
            self.library.memory_of_caller(memory, f"DDP bucket {number}: {_list(known)}")

    def _names(self, reducer: Any) -> dict[int, str]:
        """Of the parameters in the model that DDP wraps, by id."""
        for root in self.roots():
            for wrapper in root.modules():
                if getattr(wrapper, "reducer", None) is reducer:
                    model = vars(wrapper)["_modules"]["module"]
                    return {id(parameter): name for name, parameter in model.named_parameters()}
        return {}


def _watch_reducer(buckets: _Buckets) -> Undo:
    place = _reducer()
    original = place.prepare_for_backward

    @functools.wraps(original)
    def prepare_for_backward(reducer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(reducer, *args, **kwargs)
        with contextlib.suppress(Exception):
            buckets.backward_comes(reducer)
        return result

    # A compiler leaves its graph here in any case, for the original is a function in C++. It would leave ours out.
    untraced = vars(torch)["_disable_dynamo"]
    return replace(place, "prepare_for_backward", untraced(prepare_for_backward))


def _reducer() -> Any:
    return vars(torch.distributed)["Reducer"]


# --- FSDP


def _watch_fsdp2(library: Library, module: ModuleType) -> list[Undo]:
    group = module.FSDPParamGroup
    return [_named(library, group, name, _unit_of_group) for name in ("unshard", "wait_for_unshard", "post_backward")]


def _unit_of_group(group: Any, *_args: Any, **_kwargs: Any) -> str:
    return _unit(group._module_fqn or "", [parameter._param_fqn or "" for parameter in group.fsdp_params])


def _watch_fsdp1(library: Library, roots: Callable[[], list[nn.Module]], module: ModuleType) -> list[Undo]:
    """Gathered in the forward pass and in backward; reduced in backward."""
    units = _Units(roots)
    names = ("_unshard", "_reduce_grad", "_reduce_grad_no_shard")
    return [_named(library, module, name, units.text_of) for name in names if hasattr(module, name)]


class _Units:
    """The modules that FSDP1 wraps. Their handles know the names of the parameters below them."""

    def __init__(self, roots: Callable[[], list[nn.Module]]) -> None:
        self.roots = roots
        self.texts: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def text_of(self, _state: Any, handle: Any, *_args: Any, **_kwargs: Any) -> str:
        if handle is None:
            return ""
        known = self.texts.get(handle)
        if known is not None:
            return known
        text = _unit(self._module(handle), handle.flat_param._fqns)
        if self.roots():
            self.texts[handle] = text
        return text

    def _module(self, handle: Any) -> str:
        for root in self.roots():
            for name, module in root.named_modules():
                if getattr(module, "_handle", None) is handle:
                    return ".".join(without_wrappers(name.split(".")))
        return ""


def _unit(module: str, parameters: list[str]) -> str:
    """`FSDP unit blocks.0: up.weight, up.bias`"""
    short = [name.removeprefix(f"{module}.") if module else name for name in parameters]
    return f"FSDP unit{' ' + module if module else ''}: {_list(short)}"


# --- pipelines


def _watch_pipeline(library: Library, module: ModuleType) -> list[Undo]:
    stage = module._PipelineStageBase
    passes = {"get_fwd": "forward", "get_bwd": "backward"}
    exchanged = [f"{name}_{way}_ops" for name in passes for way in ("send", "recv")]
    undo = [_watch_exchange(library, stage, name, passes[name[:7]]) for name in exchanged]
    inside = {"forward_one_chunk": "forward", "backward_one_chunk": "backward", "backward_weight_one_chunk": "backward"}
    return undo + [_named(library, stage, name, _micro_batch(which)) for name, which in inside.items()]


def _micro_batch(which: str) -> Callable[..., str]:
    def text_of(stage: Any, *args: Any, **kwargs: Any) -> str:
        number = args[0] if args else kwargs.get("fwd_chunk_id", kwargs.get("bwd_chunk_id"))
        return f"pipeline stage {stage.stage_index}, {which} of micro-batch {number}"

    return text_of


def _watch_exchange(library: Library, place: Any, name: str, which: str) -> Undo:
    """The operators are called later, several together: the memory that they send or receive has the name."""
    original = getattr(place, name)
    to_next = (which == "forward") == name.endswith("send_ops")

    @functools.wraps(original)
    def exchange(stage: Any, *args: Any, **kwargs: Any) -> Any:
        ops = original(stage, *args, **kwargs)
        with contextlib.suppress(Exception):
            for op in ops:
                text = f"{_micro_batch(which)(stage, *args, **kwargs)}, {_peer(stage, op, name, to_next)}"
                library.memory_of_caller(op.tensor, text)
        return ops

    return replace(place, name, exchange)


def _peer(stage: Any, op: Any, name: str, to_next: bool) -> str:
    """`to stage 1`: the nearest one in the direction of the pass that is on the peer's rank."""
    stages = range(stage.stage_index + 1, stage.num_stages) if to_next else range(stage.stage_index - 1, -1, -1)
    rank_of = stage._resolve_peer_global_rank
    peer = next((number for number in stages if rank_of(number) == op.peer), None)
    way = "to" if name.endswith("send_ops") else "from"
    return f"{way} stage {peer}" if peer is not None else f"{way} rank {op.peer}"
