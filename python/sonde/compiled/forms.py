"""The two compiled forms of one graph: as without Sonde, and with taps. Each is compiled when it is first needed.

Both are compiled from copies of one graph, by the same function under the same configuration. Which one runs is decided
at each call, so the program is compiled once, whatever steps are chosen.
"""

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import CompileContext, TracingContext, compile_context, tracing

from ..console import say_once
from . import lowering, taps
from .taps import Choice

Compiled = Callable[[list[Any]], Any]


class Forms:
    """One graph of torch.compile: forward, backward or inference. `owner` decides which form runs."""

    def __init__(
        self,
        owner: Any,
        graph_module: fx.GraphModule,
        example_inputs: Sequence[Any],
        inner: Any,
        options: Mapping[str, Any],
    ) -> None:
        self.owner = owner  # sonde.compiled.calls.Family
        self.backward = bool(options.get("is_backward"))
        self.forward_types: dict[int, str] = {}
        self.plain: Compiled | None = None
        self.tapped: Compiled | None = None
        self.refused = False  # the form with taps cannot be made
        self.called = False  # the call for which it was compiled has come
        self._module = graph_module
        self._examples = example_inputs
        self._inner = inner
        self._options = dict(options)
        self._surroundings = _Surroundings(example_inputs)
        self._strides: list[Any] | None = None
        self._lock = threading.Lock()

    def first(self, choice: Choice | None) -> Any:
        """The compiled object for AOTAutograd, in the form that is needed now; each of its calls comes to run()."""
        compiled = failure = None
        if choice is not None:
            symbols = list(_pending_symbols())
            try:
                compiled = self._compile(choice)
            except Exception as error:
                failure = error
                _forget_strides()
                _pending_symbols()[:] = symbols
        form = "tapped" if compiled is not None else "plain"
        if compiled is None:
            compiled = self._compile(None)  # a compilation that fails by itself raises here
        if failure is not None:
            self._refuse(failure)
        if not hasattr(compiled, "current_callable"):
            return compiled  # a graph without operators
        self._strides = _strides()
        setattr(self, form, compiled.current_callable)
        compiled.current_callable = self.run
        return compiled

    def run(self, inputs: list[Any]) -> Any:
        """A call from the program."""
        return self.owner.run(self, inputs)

    def plain_form(self) -> Compiled:
        """The code as without Sonde."""
        if self.plain is None:
            with self._lock:
                if self.plain is None:
                    self.plain = self._plain_later()
        return self.plain

    def any_form(self) -> Compiled:
        """The form that exists, where a call is not recorded but later ones are."""
        return self.plain or self.tapped or self.plain_form()

    def _plain_later(self) -> Compiled:
        try:
            return self._later(None)
        except Exception as error:
            if self.tapped is None:
                raise
            reason = " ".join(str(error).split())[:300]
            say_once(
                f"sonde: a compiled graph runs with taps in all steps, with the same results: its code without taps "
                f"cannot be made: {reason} ({type(error).__name__})"
            )
            return self.tapped

    def tapped_form(self, choice: Callable[[], Choice]) -> Compiled | None:
        """The code with taps; None if it cannot be made."""
        if self.tapped is None and not self.refused:
            with self._lock:
                if self.tapped is None:
                    try:
                        self.tapped = self._later(choice())
                    except Exception as error:
                        self._refuse(error)
        return self.tapped

    def _refuse(self, error: Exception) -> None:
        self.refused = True
        reason = " ".join(str(error).split())[:300]
        say_once(
            f"sonde: a compiled graph is recorded as a whole, not node by node: its code with taps cannot be made: "
            f"{reason} ({type(error).__name__})"
        )

    def _compile(self, choice: Choice | None) -> Any:
        return compile_copy(self._module, self._examples, self._inner, self._options, choice, self.forward_types)

    def _later(self, choice: Choice | None) -> Compiled:
        """The second form, in the surroundings of the first."""
        with self._surroundings.again() as context:
            compiled = self._compile(choice)
            strides = list(context.output_strides or [])
        known = self._strides
        if known is not None and [str(one) for one in strides] != [str(one) for one in known]:
            raise RuntimeError("its results have other strides")
        later: Compiled = compiled.current_callable
        return later


def compile_copy(  # noqa: PLR0917
    original: fx.GraphModule,
    examples: Sequence[Any],
    inner: Any,
    options: Mapping[str, Any],
    choice: Choice | None,
    forward_types: Mapping[int, str] | None = None,
) -> Any:
    """Calls Inductor for a copy of a graph: with taps for `choice`, and as without Sonde for None."""
    from torch._inductor import config

    module = copy_of(original)
    if choice is None:
        return inner(module, examples, **options)
    backward = bool(options.get("is_backward"))
    users = config.post_grad_custom_post_pass
    own = taps.TapPass(users, module, backward, forward_types or {}, choice)
    with config.patch({"post_grad_custom_post_pass": own}), lowering.taps_are_lowered():
        return inner(module, examples, **options)


def copy_of(module: fx.GraphModule) -> fx.GraphModule:
    """Compiling changes the graph, and the graphs inside it (`torch.cond`, attention). Constants are shared."""
    twin = fx.GraphModule(module, copy.deepcopy(module.graph))
    twin.meta = dict(getattr(module, "meta", {}))
    for name, inner in twin.named_children():
        if isinstance(inner, fx.GraphModule):
            setattr(twin, name, copy_of(inner))
    return twin


def _reported_strides() -> list[Any] | None:
    """The list in which the compiler puts the strides of a graph's results; None: nobody asks for them."""
    strides: list[Any] | None = getattr(TracingContext.try_get(), "output_strides", None)
    return strides


def _strides() -> list[Any] | None:
    strides = _reported_strides()
    return list(strides) if strides is not None else None


def _forget_strides() -> None:
    strides = _reported_strides()
    if strides is not None:
        strides.clear()


def _pending_symbols() -> list[Any]:
    """Sizes that the compiler has named and not used yet. Those of a compilation that failed make the next one fail."""
    from torch._inductor.virtualized import V

    pending: Any = getattr(getattr(V.fake_mode, "shape_env", None), "pending_fresh_unbacked_symbols", None)
    return pending if isinstance(pending, list) else []


class _Surroundings:
    """The state that the compiler reads besides its arguments, kept for the second form."""

    def __init__(self, example_inputs: Sequence[Any]) -> None:
        from torch._inductor import config
        from torch._inductor.virtualized import V

        self._tracing = TracingContext.try_get()
        self._compiling = CompileContext.try_get()
        self._config = config.get_config_copy()
        self._fake_mode = V.fake_mode
        self._example_inputs = example_inputs

    @contextlib.contextmanager
    def again(self) -> Iterator[Any]:
        """Compiles as if the first form were compiled now. Neither random numbers nor gradient modes of the program are
        touched."""
        from torch._dynamo.convert_frame import compile_lock
        from torch._dynamo.utils import get_metrics_context, preserve_rng_state
        from torch._inductor import config
        from torch._inductor.virtualized import V

        context = copy.copy(self._tracing) if self._tracing is not None else TracingContext(self._fake_mode)
        context.output_strides = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(compile_lock)
            stack.enter_context(preserve_rng_state())
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.no_grad())
            if torch._C._is_any_autocast_enabled():
                stack.enter_context(torch._C._DisableAutocast())
            stack.enter_context(V.set_fake_mode(self._fake_mode))
            stack.enter_context(tracing(context))
            stack.enter_context(compile_context(self._compiling))
            stack.enter_context(get_metrics_context())  # Inductor counts into it: an error outside
            stack.enter_context(config.patch(self._config))
            yield context
