"""Watches PyTorch: names modules, parameters and optimizer state for the adapter, and the begin of each forward.

The adapter (`_sonde_torch`, C++) sees every operator by itself. Facts that need Python come from here, once per thing
and not per operator: which attribute a module is, which tensors are parameters, whether an optimizer exists.
"""

import contextlib
import functools
import gc
import inspect
import linecache
import os
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from . import (
    _core,
    adapter,
    callers,
    custom_ops,
    flags,
    graph_modules,
    optimizers,
    past_operators,
    placements,
    replicas,
    serving,
    trials,
    unsharded,
)
from . import host as session_facts
from .compiled import activation
from .console import command_line, launched_rank, name_process, report, say_once
from .host import Host
from .library import Library
from .module_names import ModuleNames
from .modules import attributes, has_parameters, in_training, may_train
from .patches import replace

# Calls of modules without parameters, before any module with parameters: then it is decided whether they are steps.
_MOST_CALLS_OPEN = 8


class RootHook:
    """The forward-pre-hook on a root module. It lives in the user's object, so it must survive what users do to models:

    copy.deepcopy(model) keeps it working on the copy; pickle and torch.save(model) leave a callable of the standard
    library that does nothing, so that the file loads where Sonde is not installed.
    """

    __name__ = "sonde_root_hook"

    def __call__(self, module: nn.Module, arguments: tuple[object, ...]) -> None:
        """A forward of the module begins."""
        if torch.compiler.is_compiling():
            return  # not part of a compiled or exported graph
        host = TorchHost.current
        if host is not None:
            host.root_called(module)
            host.end_if_over()

    def __deepcopy__(self, _memo: object) -> "RootHook":
        return self

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return getattr, (contextlib.nullcontext(), "__exit__")


_root_hook = RootHook()


class TorchHost(Host):
    """One session's view of the program's modules and optimizers."""

    can_look_for_model: ClassVar[bool] = True
    current: ClassVar["TorchHost | None"] = None

    def __init__(self, end_if_over: Callable[[], None]) -> None:
        super().__init__(end_if_over)
        library = adapter.load()
        self.library: Library = library
        self.names = ModuleNames(library.forget_scopes)
        self.roots: dict[int, RemovableHandle] = {}  # id of a root module -> handle of its hook
        self.with_parameters: dict[int, weakref.ref[nn.Module]] = {}  # those that were called; by id
        self.roots_seen = False  # one with parameters
        # The root that ran with gradients last, and its mode then.
        self.training_root: tuple[weakref.ref[nn.Module] | None, bool] = None, True
        self.calls_without_parameters = 0
        self.closed = False
        self.left_out = 0  # runs of the program that are not recorded, inside each other
        self.engine_calls: int | None = (
            None  # calls of a model with parameters in the step of an engine; None: no engine
        )
        self.optimizers = optimizers.AliveOptimizers()
        library.load(_core.api())
        self._report_run_info()
        self.undo: list[Callable[[], None]] = [
            flags.watch(library),
            register_optimizer_step_pre_hook(self._before_optimizer_step).remove,
            register_optimizer_step_post_hook(self._after_optimizer_step).remove,
            optimizers.watch_scaler(library),
            _watch_waits(library),
            past_operators.watch(library),
            trials.watch(library),
            serving.attach(self),
            callers.watch(library, self.names.root_modules),
            unsharded.watch(library, self.names),
            custom_ops.watch(),
            activation.watch(self),
            self.optimizers.close,
        ]
        _hide_hook_from_scripting()
        torch.fx.node.has_side_effect(torch.ops.sonde.dump_scope.default)  # else a compiler removes it
        library.install(
            nn.Module,
            nn.Module._wrapped_call_impl.__code__,
            optimizers.step_wrapper_code(),
            _nobodys_code(),
            self.scope_of,
            self.new_root,
            _source_of,
            _may_read,
            self.optimizers.train_bare_parameters,
            self._parameters_exist,
            self.place_in_graph,
            placements.described,
        )

    def close(self) -> None:
        """Removes the hooks."""
        if not self.roots_seen and _is_distributed():
            self._report_run_info()  # a program without modules: nothing was reported since the session began
        self.library.uninstall()
        self.let_go()

    def let_go(self) -> None:
        """Removes the hooks from the program's objects and PyTorch's functions."""
        for undo in self.undo:
            undo()
        self.closed = True
        for handle in list(self.roots.values()):
            handle.remove()
        self.roots.clear()

    def step(self) -> None:
        """The step ends; parameters get their names again in the next."""
        self.library.step()
        self.begin_names()

    def dump_switch(self, on: bool) -> None:
        """Operators recorded from here on need their names."""
        self.library.dump_switch(on)
        self.begin_names()

    def set_step(self, step: int) -> None:
        """The number of the step that begins next."""
        self.library.set_step(step)

    def leave_out(self, change: int) -> None:
        """A run that is not to be recorded begins (1) or ends (-1)."""
        self.library.leave_out(change)
        self.left_out += change

    def engine_step(self) -> None:
        """An engine that serves requests begins a step."""
        self.engine_calls = 0

    def engine_batch(self, requests: list[tuple[str, int, int, int]], model: object) -> None:
        """The rows of requests in the engine's step, which begins here if its model has been called before."""
        self.library.step_requests(requests)
        if isinstance(model, nn.Module) and id(model) in self.roots:
            self.root_called(model)

    def engine_step_over(self) -> None:
        """The engine's step is over."""
        self.library.step_over()

    # --- called by the adapter, with the GIL, for things that it sees for the first time -------------------------

    def scope_of(self, chain: Sequence[nn.Module]) -> str:
        """The scope of modules calling each other, outermost first: `network-AlexNet/features/0-Conv2d`."""
        return self.names.scope_of(chain)

    def place_in_graph(self, module: nn.Module, line: int) -> tuple[str, graph_modules.Lines, bool] | None:
        """As graph_modules.place_in_graph(), with the name of the optimizer."""
        place = graph_modules.place_in_graph(module, line)
        return (self.optimizers.name_of_any(), place[1], True) if place is not None and place[2] else place

    def new_root(self, module: nn.Module) -> None:
        """A chain of calls begins with `module`. If it is new, watches its forwards from now on."""
        if self.closed or id(module) in self.roots or not issubclass(type(module), nn.Module):
            return
        self.names.add_root(module, is_example=_is_traced())
        if issubclass(type(module), ParametrizationList):
            return  # the value of an attribute, not a called model
        hooks = attributes(module).get("_forward_pre_hooks", {})
        if any(isinstance(hook, RootHook) for hook in hooks.values()):
            return  # a copied model has reported this forward
        # Before all other hooks: ops of the user's hooks belong to the step that begins here.
        handle = self.roots[id(module)] = nn.Module.register_forward_pre_hook(module, _root_hook, prepend=True)
        weakref.finalize(module, self.roots.pop, id(module), None).atexit = False
        if self.closed:  # by another thread meanwhile
            handle.remove()
            return
        # This first forward has already begun; a model in training may begin it by turning gradients off itself, as
        # models with frozen layers and DistributedDataParallel do.
        self.root_called(module, may_train_without_grad=in_training(module) and _turns_gradients_off(module))

    # --- compiled graphs ------------------------------------------------------------------------------------------

    @property
    def plan_key(self) -> str:
        """Distinguishes the configurations of sessions, in the caches of compiled code."""
        return session_facts.plan_key

    def compiled_root(self, module: nn.Module, is_resumed: bool) -> None:
        """A compiled graph runs, called by `module`, the outermost. Its hook sees its calls, unless its call itself is
        compiled (nn.Module.compile())."""
        if id(module) not in self.roots:
            self.new_root(module)
        elif getattr(module, "_compiled_call_impl", None) is not None and not is_resumed:
            self.root_called(module)

    def compiled_owner(self, module: nn.Module) -> None:
        """A compiled function runs, in which modules are called: the model with `module` begins its forward."""
        self.names.add_root(module)
        self.root_called(self.names.owner_of(module))

    def compiled_step_begins(self, inputs: Sequence[object]) -> None:
        """A compiled graph with an optimizer's step runs on these: it is the optimizer of a parameter among them."""
        given, alive = set(map(id, inputs)), self.optimizers.all()
        own = [one for one in alive if not given.isdisjoint(map(id, optimizers.parameters_of(one)))]
        self._name_before_step(own or alive)

    def compiled_step_ends(self) -> None:
        """A compiled graph with an optimizer's step has returned."""
        self.library.optimizer_end()

    # --- hooks ----------------------------------------------------------------------------------------------------

    def root_called(self, module: nn.Module, may_train_without_grad: bool = False) -> None:
        """A root module's forward begins: a step may begin here."""
        if _is_traced():
            return
        try:
            if not self.roots_seen:
                self._report_run_info()
            parameters = self._has_parameters(module)
            if self._is_no_step(parameters):
                return
            self.names.called(module)
            self.roots_seen = self.roots_seen or parameters
            if not parameters and not self.roots_seen:
                self._settle_after_some_calls()
            alive = self.optimizers.any()
            trained, evaluates = True, False
            if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
                trained = self.optimizers.train(module) if alive else may_train(module)
                evaluates = self._evaluates(module)
            silently = may_train_without_grad and trained
            capturing, trains = self.library.root_forward(module, parameters, alive, silently, trained, evaluates)
            if trains:
                self.training_root = weakref.ref(module), in_training(module)
            if capturing:
                self._name_parameters(module)
            self._report_failure()
        except RecursionError:
            return  # the user's own: there was no room left for ours
        except Exception as error:  # no exception may reach the user's forward
            say_once(f"sonde: internal error at a module's forward: {type(error).__name__}: {error}")

    def _is_no_step(self, parameters: bool) -> bool:
        """Of a run that is left out, or not the first model in the step of an engine."""
        if self.left_out:
            return True
        if self.engine_calls is None or not parameters:
            return False
        self.engine_calls += 1
        return self.engine_calls > 1

    def _has_parameters(self, module: nn.Module) -> bool:
        """As has_parameters(), which takes some microseconds: a module that has parameters is remembered."""
        known = self.with_parameters.get(id(module))
        if known is not None and known() is module:
            return True
        found = has_parameters(module)
        if found:
            self.with_parameters[id(module)] = weakref.ref(module)
        return found

    def _evaluates(self, module: nn.Module) -> bool:
        """Without gradients: the model that trains has changed its mode since, or is `module`, not in training mode."""
        reference, mode = self.training_root
        trains = reference() if reference is not None else None
        if trains is None:
            return False
        return not in_training(module) if trains is module else in_training(trains) != mode

    def _settle_after_some_calls(self) -> None:
        """Modules without parameters make steps, unless they are the preamble of a model that is called later."""
        self.calls_without_parameters += 1
        if self.calls_without_parameters == _MOST_CALLS_OPEN:
            self.library.modules_exist(self._parameters_exist())

    def _parameters_exist(self) -> bool:
        """True if some module has parameters: then steps are counted from its first call."""
        if _is_distributed():
            self._report_run_info()
        modules = (o for o in gc.get_objects() if issubclass(type(o), nn.Module))
        return any(value is not None for m in modules for value in (vars(m).get("_parameters") or {}).values())

    def _before_optimizer_step(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        """Gradients and optimizer state get their names just before the optimizer reads them."""
        if not torch.compiler.is_compiling():  # not part of a compiled graph
            self._name_before_step([optimizer])

    def _name_before_step(self, optimizers: Sequence[Optimizer]) -> None:
        self.end_if_over()  # if no module is called, the optimizer's next step is the first event
        if TorchHost.current is not self or not self.library.capturing():
            return
        try:
            for optimizer in optimizers:
                self._name_optimizer(optimizer)
        except Exception as error:
            say_once(f"sonde: internal error at Optimizer.step: {type(error).__name__}: {error}")

    def _after_optimizer_step(self, _optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        """A step that raises does not come here and does not count."""
        if torch.compiler.is_compiling():
            return
        if TorchHost.current is self:
            self.library.step_returned()

    # --- names of tensors -----------------------------------------------------------------------------------------

    def begin_names(self) -> None:
        """After sonde.step(): parameters of all roots get their names again."""
        if self.library.capturing():
            for module in self.names.root_modules():
                self._name_parameters(module)

    def _name_parameters(self, module: nn.Module) -> None:
        owner = self.names.owner_of(module)
        self.library.name_model(owner, self.names.parameter_prefix(owner), self._writers([owner]))

    def _name_optimizer(self, optimizer: Optimizer) -> None:
        models = [(module, self.names.parameter_prefix(module)) for module in self.names.root_modules()]
        self.library.name_optimizer(vars(optimizer), models, self._writers([module for module, _ in models]))

    def _writers(self, roots: list[nn.Module]) -> dict[int, int] | None:
        """Of the tensors that several ranks have, if the plan lets one rank write them."""
        return replicas.writers_of(roots) if _is_distributed() and self.library.asks_for_writers() else None

    # --- messages -------------------------------------------------------------------------------------------------

    def _report_run_info(self) -> None:
        """The identity of this process; reported again until the first step, since torch.distributed may come later."""
        python = ".".join(map(str, sys.version_info[:3]))
        launched = launched_rank()
        rank, world_size = launched.rank, launched.world_size
        if _is_distributed():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if world_size > 1:
            name_process(rank)
        host = f"torch {torch.__version__}, CPython {python}"
        self.library.set_run_info(rank, launched.local_rank, host, command_line(), world_size)

    def _report_failure(self) -> None:
        failure = self.library.take_failure()
        if failure:
            report("failure", failure)


def _is_traced() -> bool:
    """True inside torch.jit.trace, which calls the model on its example, and again to check the result."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == torch.jit._trace.__file__:
            return True
        frame = frame.f_back
    return False


_GRADIENT_MODES = {"no_grad", "inference_mode", "set_grad_enabled", "_set_grad_enabled"}


def _turns_gradients_off(module: nn.Module) -> bool:
    """True if some function between the running line and the call of `module` turns gradients off by name."""
    frame: FrameType | None = sys._getframe(1)
    found = False
    while frame is not None:
        code = frame.f_code
        if code is nn.Module._wrapped_call_impl.__code__ and frame.f_locals.get("self") is module:
            return found
        found = found or not _GRADIENT_MODES.isdisjoint(code.co_names) or code.co_name == "decorate_context"
        frame = frame.f_back
    return found


def _nobodys_code() -> tuple[str, ...]:
    """Paths of code that does not count as the user's: torch, Sonde, the standard library, the wrapper of deprecated
    functions."""
    torch_directory = os.path.dirname(torch.__file__)
    ours = os.path.dirname(os.path.abspath(__file__))
    standard = sysconfig.get_path("stdlib")
    wrapper = getattr(sys.modules.get("typing_extensions"), "__file__", None)
    directories = tuple(os.path.join(directory, "") for directory in (torch_directory, ours, standard))
    return directories + ((wrapper,) if wrapper else ())


def _source_of(file: str) -> str | None:
    """The text of a source without a file, such as a notebook's cell; None for all others."""
    entry = linecache.cache.get(file)
    if entry is None or len(entry) != 4 or entry[1] is not None:  # a time of change: it was read from a file
        return None
    return "".join(entry[2])


def _may_read(file: str) -> bool:
    """Whether the text of `file` may go into a dump although only data name it, as a saved program does, and whoever
    wrote them chose the name: a source of the environment, or one that this process has loaded."""
    if _source_of(file) is not None:
        return True
    try:
        real = os.path.realpath(file)
    except (OSError, ValueError):
        return False
    environment = {sys.prefix, sysconfig.get_path("purelib"), os.path.dirname(os.path.dirname(torch.__file__))}
    inside = any(real.startswith(os.path.join(os.path.realpath(place), "")) for place in environment if place != "/")
    return (inside and real.endswith(".py")) or real in map(os.path.realpath, _loaded_sources(os.path.basename(real)))


def _loaded_sources(name: str) -> Iterator[str]:
    """Files with this name of which this process has run code: of modules, and on this thread now."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and os.path.basename(file) == name:
            yield file
    frame = inspect.currentframe()
    while frame is not None:
        if os.path.basename(frame.f_code.co_filename) == name:
            yield frame.f_code.co_filename
        frame = frame.f_back


def _watch_waits(library: Library) -> Callable[[], None]:
    """Some works (gloo's receives) are complete when Work.wait() returns, without a signal; returns a function that
    undoes it."""
    if not torch.distributed.is_available():
        return lambda: None
    from torch.distributed import Work

    original = Work.wait

    @functools.wraps(original)
    def wait(self: Work, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if TorchHost.current is not None:
            library.work_waited(self)
        return result

    return replace(Work, "wait", wait)


@functools.cache
def _hide_hook_from_scripting() -> None:
    """torch.jit.script compiles the hooks of a module, but not ours. Stays after the session: copies keep their
    hook."""
    from torch.jit import _recursive

    original: Callable[[nn.Module], Any] = _recursive.get_hook_stubs

    @functools.wraps(original)
    def get_hook_stubs(module: nn.Module) -> Any:
        hooks = getattr(module, "_forward_pre_hooks", {})
        ours = {key: hook for key, hook in hooks.items() if isinstance(hook, RootHook)}
        for key in ours:
            del hooks[key]
        try:
            return original(module)
        finally:
            hooks.update(ours)

    _recursive.get_hook_stubs = get_hook_stubs


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
