"""Meets torch.compile: from the import of Inductor on, each graph that it compiles comes through here.

Nothing of torch.compile is imported before the program does so.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..console import say_once
from ..graph_modules import is_of_optimizer
from ..patches import replace, when_imported
from .program import Program

_host: Program | None = None  # of the session that runs
_known = 0  # graphs that were compiled while a session ran

_INDUCTOR, _DYNAMO = "torch._inductor.compile_fx", "torch._dynamo.callback"
_GRAPHS = "torch._dynamo.output_graph"
_CUDA_GRAPHS = "torch._inductor.cudagraph_trees"


def watch(host: Program) -> Callable[[], None]:
    """A session begins; returns the function that undoes it."""
    watcher = _Watcher(host)
    watcher.begin()
    return watcher.end


def before_first_compilation(then: Callable[[], None]) -> Callable[[], None]:
    """Calls `then` when Dynamo begins to compile; returns a function that no longer waits for Dynamo's import."""

    def meet(module: ModuleType) -> None:
        handler: Any = getattr(module, "callback_handler", None)
        if handler is not None:
            handler.register_start_callback(lambda *_: then())  # for good: Dynamo goes through the list meanwhile

    return when_imported({_DYNAMO: meet})


def forms_run_for(host: Program | None) -> None:
    """From now on, calls of compiled graphs are recorded for `host`."""
    global _host
    _host = host
    calls = sys.modules.get(f"{__package__}.calls")
    if calls is not None:
        calls.Family.host = host


class _Watcher:
    def __init__(self, host: Program) -> None:
        self._host = host
        self._undo: list[Callable[[], None]] = []
        self._before = _graphs()

    def begin(self) -> None:
        meetings = {
            _INDUCTOR: self._meet_inductor,
            _DYNAMO: self._meet_dynamo,
            _GRAPHS: self._meet_graphs,
            _CUDA_GRAPHS: self._meet_cuda_graphs,
        }
        self._undo.append(when_imported(meetings))
        _say_what_is_compiled_already()
        forms_run_for(self._host)

    def end(self) -> None:
        global _known
        _known += _graphs() - self._before
        for undo in self._undo:
            undo()
        forms_run_for(None)

    def _meet_inductor(self, module: ModuleType) -> None:
        try:
            self._undo.append(_wrap_compile_fx(module, self._host))
        except Exception as error:
            _refuse(error)

    def _meet_cuda_graphs(self, module: ModuleType) -> None:
        """Where the memory of Inductor's CUDA graphs is used, also before a capture, nothing is recorded.

        Inductor counts what lives there, and a tensor of ours would be too much.
        """
        name = "_use_cuda_memory_pool_manager"
        original: Any = getattr(module, name, None)
        if original is None:
            return
        tracing = self._host.library.tracing

        @functools.wraps(original)
        @contextlib.contextmanager
        def unrecorded(*args: Any, **kwargs: Any) -> Any:
            with original(*args, **kwargs) as value:
                tracing(1)
                try:
                    yield value
                finally:
                    tracing(-1)

        self._undo.append(replace(module, name, unrecorded))

    def _meet_dynamo(self, module: ModuleType) -> None:
        """Operators that the compiler runs for itself are not the program's."""
        tracing = self._host.library.tracing
        handler: Any = getattr(module, "callback_handler", None)

        def begins(*_: object) -> None:
            tracing(1)

        def ends(*_: object) -> None:
            tracing(-1)

        if handler is None:
            return
        handler.register_start_callback(begins)
        handler.register_end_callback(ends)

        def undo() -> None:
            with contextlib.suppress(ValueError):
                handler.remove_start_callback(begins)
                handler.remove_end_callback(ends)

        self._undo.append(undo)

    def _meet_graphs(self, module: ModuleType) -> None:
        """Whatever a backend makes of a graph with an optimizer's step, it begins and ends with its run."""
        output_graph: Any = getattr(module, "OutputGraph", None)
        original: Any = getattr(output_graph, "call_user_compiler", None)
        if original is None:
            return

        @functools.wraps(original)
        def call_user_compiler(self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
            compiled = original(self, model, *args, **kwargs)
            return _as_a_step(compiled) if any(map(is_of_optimizer, model.graph.nodes)) else compiled

        self._undo.append(replace(output_graph, "call_user_compiler", call_user_compiler))


def _as_a_step(compiled: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _host is not None and not _host.closed:
            _host.compiled_step_begins(args)
        results = compiled(*args, **kwargs)
        if _host is not None and not _host.closed:
            _host.compiled_step_ends()
        return results

    return run


def _refuse(error: Exception) -> None:
    import torch

    say_once(
        f"sonde: torch.compile of PyTorch {torch.__version__} is not known; compiled graphs are recorded as a whole, "
        f"not node by node: {' '.join(str(error).split())} ({type(error).__name__})"
    )


def _wrap_compile_fx(module: ModuleType, host: Program) -> Callable[[], None]:
    """Every graph for Inductor passes its function compile_fx, which calls `inner_compile` for forward and backward."""
    from . import packages
    from .calls import Compilation, Family, Tracing

    packages.is_packaged()  # raises here, not within a compilation, if Inductor's state is not as we know it
    Family.host = host

    original = module.compile_fx
    default = module.compile_fx_inner

    @functools.wraps(original)
    def compile_fx(model: Any, example_inputs: Any, inner_compile: Any = default, *args: Any, **kwargs: Any) -> Any:
        # Inductor calls itself again, with a changed configuration.
        if _is_ours(inner_compile) or host.closed or host.library is None:
            return original(model, example_inputs, inner_compile, *args, **kwargs)
        inner = Compilation(host, model, inner_compile).compile
        from torch._functorch import config

        # From that cache code would come without its graph. Inductor's own cache is used.
        with config.patch({"enable_autograd_cache": False}), Tracing(host):
            return original(model, example_inputs, inner, *args, **kwargs)

    return replace(module, "compile_fx", compile_fx)


def _is_ours(inner_compile: Any) -> bool:
    while isinstance(inner_compile, functools.partial):
        inner_compile = inner_compile.func
    return getattr(inner_compile, "sonde_forms", False)


def _graphs() -> int:
    """The graphs that Dynamo has compiled in this process."""
    counters: Any = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return int(counters.get("stats", {}).get("unique_graphs", 0)) if counters else 0


def _say_what_is_compiled_already() -> None:
    graphs = _graphs() - _known
    if graphs > 0:
        say_once(
            f"sonde: graphs that were compiled before the recording began are not recorded node by node: {graphs}; "
            "begin before the first call of the compiled model, or call torch._dynamo.reset()"
        )
