"""Engines that serve requests: their warm-up runs are left out, and a step is one of the engine's.

The rows of a batch belong to requests: which ones is read where the engine has prepared the batch.

vLLM calls its model with made-up tokens: before it serves, to measure its memory, to compile and to capture graphs, and
later while another data-parallel rank works. Its model runner executes one batch of requests in `execute_model`. These
methods are replaced when their module is imported, in every process that may record. A step begins when the runner
prepares its batch, and is over when the tokens are sampled.

A graph from vLLM's compile cache has no taps. So a process that may record compiles anew, as with the variable below.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol

from .console import report, say_once
from .patches import between, replace, when_imported

# Modules with a class of a model runner, in vLLM 0.10 and later.
_MODULES = (
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.cpu_model_runner",
    "vllm.v1.worker.gpu.model_runner",
)
_WARM_UPS = (
    "profile_run",
    "profile_cudagraph_memory",
    "capture_model",
    "warming_up_model",
    "_dummy_run",
    "_dummy_sampler_run",
    "_dummy_pooler_run",
)
_STEP = "execute_model"
_ENDS = ("sample_tokens", "pool")  # where execute_model() gives no result, one of them does
_PREPARE = ("_prepare_inputs", "prepare_inputs")
_NO_CACHE = "VLLM_DISABLE_COMPILE_CACHE"
_COUNTERS = "vllm.compilation.counter"
_LOADED = ("num_aot_artifacts_loaded", "num_compiled_artifacts_loaded")


class Engine(Protocol):
    """The host that records, as this module needs it."""

    roots_seen: bool  # a model has run

    def leave_out(self, change: int) -> None:
        """A warm-up run begins (1) or ends (-1)."""
        ...

    def engine_step(self) -> None:
        """The engine begins a step; the next call of a model in it counts, later ones do not."""
        ...

    def engine_batch(self, requests: list[tuple[str, int, int, int]], model: object) -> None:
        """The batch of this step, for `model`: (request, first row, rows, position of the first row's token)."""
        ...

    def engine_step_over(self) -> None:
        """The step of the engine is over."""
        ...


class _Serving:
    """This process: the host that records, and the warm-up run that is under way."""

    def __init__(self) -> None:
        self.host: Engine | None = None
        self.depth = 0  # of warm-up runs inside each other
        self.left_out = 0  # the number of outermost ones

    def warm_up(self, change: int) -> None:
        """A warm-up run begins or ends."""
        if os.environ.get("SONDE_WARM_UP", "0") not in ("", "0"):
            return
        self.depth += change
        self.left_out += change == 1 == self.depth
        if self.host is not None:
            self.host.leave_out(change)

    def step(self) -> None:
        """The engine begins a step."""
        if self.host is not None and self.depth == 0:
            self.host.engine_step()
            _say_what_came_from_the_cache()

    def step_over(self) -> None:
        """The step of the engine is over."""
        if self.host is not None and self.depth == 0:
            self.host.engine_step_over()


_serving = _Serving()
_end: Callable[[], None] | None = None  # ends the waiting for modules


def watch() -> None:
    """Waits for the modules of engines; once in a process. It changes nothing before one is imported."""
    global _end
    if _end is None:
        _end = when_imported(dict.fromkeys(_MODULES, _watch_module))


def attach(host: Engine) -> Callable[[], None]:
    """`host` hears of steps and warm-up runs, also of one that is under way. Returns a function that ends it."""
    watch()
    _serving.host = host
    if _serving.depth:
        host.leave_out(_serving.depth)

    def detach() -> None:
        if _serving.host is host:
            _serving.host = None
            if _serving.depth:  # the session ends in a warm-up run: the next one begins anew
                host.leave_out(-_serving.depth)
            if _serving.left_out:
                report("notice", _line_about(_serving.left_out))
            _serving.left_out = 0
            if host.roots_seen:
                _say_what_has_moved()

    return detach


def _line_about(count: int) -> str:
    return (
        f"{count} warm-up run{'s' if count > 1 else ''} of vLLM with made-up tokens {'were' if count > 1 else 'was'} "
        "left out; SONDE_WARM_UP=1 records them"
    )


def _say_what_came_from_the_cache() -> None:
    counter: Any = getattr(sys.modules.get(_COUNTERS), "compilation_counter", None)
    if any(getattr(counter, name, 0) for name in _LOADED):
        say_once(
            "sonde: vLLM took compiled graphs from its cache: they have no taps and are not recorded node by node; "
            f"{_NO_CACHE}=1 compiles them anew"
        )


def _say_what_has_moved() -> None:
    """A model has run, and none of our modules was met although there are some for the same."""
    if any(name in sys.modules for name in _MODULES):
        return
    for name in [name for name in sys.modules if name.startswith("vllm.") and name.endswith("model_runner")]:
        say_once(f"sonde: Sonde does not know {name}: warm-up runs are recorded too, and requests are not known")


def _watch_module(module: ModuleType) -> None:
    os.environ.setdefault(_NO_CACHE, "1")
    for runner in _runners(module):
        for name in _WARM_UPS:
            if callable(vars(runner).get(name)):
                replace(runner, name, between(vars(runner)[name], _serving.warm_up))
        if callable(vars(runner).get(_STEP)):
            replace(runner, _STEP, _step(vars(runner)[_STEP]))
        for name in _ENDS:
            if callable(vars(runner).get(name)):
                replace(runner, name, _last_of_step(vars(runner)[name]))
        for name in _PREPARE:
            if callable(vars(runner).get(name)):
                replace(runner, name, _prepare(vars(runner)[name]))


def _runners(module: ModuleType) -> Iterator[type]:
    """Classes of the module that are model runners: an engine that has moved them is recorded as any other program."""
    found = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__]
    runners = [one for one in found if any(name in vars(one) for name in (_STEP, *_WARM_UPS))]
    if not runners:
        say_once(f"sonde: {module.__name__} has no model runner that Sonde knows: its warm-up runs are recorded too")
    yield from runners


def _prepare(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def prepare(runner: Any, *args: Any, **kwargs: Any) -> Any:
        if _serving.host is None or _serving.depth:
            return original(runner, *args, **kwargs)
        # The one runner knows the batch before it prepares the inputs, the other makes it there.
        requests = _requests_of_step(getattr(runner, "input_batch", None), args)
        if requests:
            _serving.host.engine_batch(requests, _model_of(runner))
        result = original(runner, *args, **kwargs)
        if not requests and _serving.host is not None:
            _serving.host.engine_batch(_requests_of_step(result, args), _model_of(runner))
        return result

    return prepare


def _model_of(runner: Any) -> object:
    """The model that the runner calls, without what compiles it."""
    try:
        model = runner.get_model() if hasattr(runner, "get_model") else getattr(runner, "model", None)
    except (AttributeError, ValueError):  # there is none yet
        return None
    return getattr(model, "_orig_mod", model)


def _requests_of_step(batch: Any, arguments: tuple[Any, ...]) -> list[tuple[str, int, int, int]]:
    """As _requests_in(); an engine that keeps them in another way goes on, and its dump does not have them."""
    try:
        return _requests_in(batch, arguments)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        say_once(f"sonde: this vLLM does not say which rows belong to which request ({error}): the dump lacks them")
        return []


def _requests_in(batch: Any, arguments: tuple[Any, ...]) -> list[tuple[str, int, int, int]]:
    """The requests of a batch, in the order of their rows. Empty: the batch does not know them.

    vLLM's runner has `req_ids` and the tokens computed so far by request; the numbers of tokens that are scheduled are
    in the batch (since 0.11, gpu/model_runner.py) or an argument, by request.
    """
    scheduled = getattr(batch, "num_scheduled_tokens", None)
    computed = getattr(batch, "num_computed_tokens_np", None)
    if computed is None:
        computed = getattr(batch, "num_computed_tokens_cpu", None)
    if scheduled is None:
        by_request = [one.num_scheduled_tokens for one in arguments if hasattr(one, "num_scheduled_tokens")]
        names = getattr(batch, "req_ids", ())
        scheduled = [by_request[0].get(name, 0) for name in names] if by_request else None
    if scheduled is None or computed is None:
        return []
    requests, row = [], 0
    for name, rows, position in zip(batch.req_ids, scheduled, computed, strict=False):
        requests.append((str(name), row, int(rows), int(position)))
        row += int(rows)
    return requests


def _step(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        _serving.step()
        result = original(*args, **kwargs)
        if result is not None:  # else another method samples the tokens
            _serving.step_over()
        return result

    return step


def _last_of_step(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def last_of_step(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        _serving.step_over()
        return result

    return last_of_step
