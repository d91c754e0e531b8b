"""Keeps the summary of a training (`saved_data` "summary"): the output of each module, each gradient, the loss.

No operator is watched: hooks of modules and optimizers see a few hundred tensors of a step, whose statistics the engine
takes at once.
"""

import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import _core
from .console import launched_rank, name_process, say_once
from .host import Host
from .module_names import ModuleNames, class_name
from .patches import replace

_OUTPUT, _GRADIENT, _LOSS = range(3)  # enum sonde_summary_kind
_ALL = 1  # enum sonde_summary_step
_NOTHING_KEPT = 2**32 - 1
# enum sonde_dtype. Of other types no statistic is worth a look.
_DTYPES = {
    getattr(torch, name): number
    for name, number in {
        "float16": 10,
        "float32": 11,
        "float64": 12,
        "bfloat16": 13,
        "float8_e4m3fn": 14,
        "float8_e5m2": 15,
    }.items()
}
_PLAIN = (torch.Tensor, nn.Parameter)
_DEEPEST_OUTPUT = 4  # containers in each other


class SummaryHost(Host):
    """One session's view of a training."""

    def __init__(self, end_if_over: Callable[[], None]) -> None:
        super().__init__(end_if_over)
        self.names = ModuleNames(self._forget_names)
        self.by_name: dict[tuple[int, str], int] = {}  # kind and name -> its number
        self.outputs: dict[int, int] = {}  # id of a module that lives -> its number
        self.gradients: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}  # id of a parameter -> it, its number
        self.last_read: tuple[weakref.ref[torch.Tensor], int, int] | None = None  # an output, its version and number
        self.wanted = False  # the loss of the step that runs
        self.reads_all = False  # and its other tensors
        self.spent = 0  # nanoseconds, for the tensors of the step that runs
        self.number: int | None = None  # of the step that runs
        self.next_number = 0
        self.is_over = True  # the next forward with gradients begins a step
        self.undo: list[Callable[[], None]] = [
            register_module_forward_hook(self._after_forward).remove,
            register_optimizer_step_pre_hook(self._before_optimizer_step).remove,
            register_optimizer_step_post_hook(self._after_optimizer_step).remove,
            replace(torch.autograd, "backward", self._with_loss(torch.autograd.backward)),
            replace(torch.amp.GradScaler, "update", self._ending_step(torch.amp.GradScaler.update)),
        ]

    def close(self) -> None:
        """Removes the hooks."""
        self.let_go()

    def let_go(self) -> None:
        """Removes the hooks."""
        while self.undo:
            self.undo.pop()()
        self.outputs.clear()
        self.gradients.clear()

    def step(self) -> None:
        """The step ends."""
        self.is_over = True

    def dump_switch(self, on: bool) -> None:
        """The tensors of this step are read from here on, or no longer."""
        self.wanted = self.reads_all = on

    def set_step(self, step: int) -> None:
        """The number of the step that begins next."""
        self.next_number = step
        self.is_over = True

    # --- hooks: they run in the program's own calls, so nothing that fails in them may reach it --------------------

    def _after_forward(self, module: nn.Module, _arguments: object, output: object) -> None:
        if not self.is_over and not self.reads_all:
            return  # before anything else: many steps are left out if the time is limited
        if torch.compiler.is_compiling() or not torch.is_grad_enabled() or SummaryHost.current is not self:
            return
        begin = time.perf_counter_ns()
        try:
            if self._reads_here():
                self._read_output(module, output)
        except Exception as error:
            _complain("a module's forward", error)
        self.spent += time.perf_counter_ns() - begin

    def _before_optimizer_step(self, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        if torch.compiler.is_compiling() or SummaryHost.current is not self:
            return
        begin = time.perf_counter_ns()
        try:
            if self._reads_here():
                self._read_gradients(optimizer)
        except Exception as error:
            _complain("Optimizer.step", error)
        self.spent += time.perf_counter_ns() - begin

    def _after_optimizer_step(self, _optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        if not torch.compiler.is_compiling():
            self.is_over = True

    def _with_loss(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def backward(tensors: object, *arguments: Any, **keywords: Any) -> None:
            if self.wanted and SummaryHost.current is self and not torch.compiler.is_compiling():
                try:
                    self._read_loss(tensors)
                except Exception as error:
                    _complain("backward", error)
            return original(tensors, *arguments, **keywords)

        return backward

    def _ending_step(self, original: Callable[..., None]) -> Callable[..., None]:
        """A GradScaler that leaves a step of its optimizer out ends the step, too."""

        @functools.wraps(original)
        def update(*arguments: Any, **keywords: Any) -> None:
            self.is_over = True
            return original(*arguments, **keywords)

        return update

    # --- steps ------------------------------------------------------------------------------------------------------

    def _reads_here(self) -> bool:
        if self.is_over:
            self._begin_step()
        return self.reads_all

    def _begin_step(self) -> None:
        if self.number is None:
            self._say_rank()
        self.is_over = False
        self.number = self.next_number
        self.next_number += 1
        spent, self.spent = self.spent, 0
        wanted = _core.summary_step(self.number, spent)
        self.wanted, self.reads_all = wanted != 0, wanted == _ALL
        failure = _core.take_failure()
        if failure:
            say_once(f"sonde: {failure}")

    def _say_rank(self) -> None:
        """Before the first step, since torch.distributed may begin after the session."""
        launched = launched_rank()
        rank, world_size = launched.rank, launched.world_size
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if world_size > 1:
            name_process(rank)
        _core.summary_place(rank, launched.local_rank)

    # --- tensors ----------------------------------------------------------------------------------------------------

    def _read_output(self, module: nn.Module, output: object) -> None:
        tensor = output if type(output) is torch.Tensor else _first_tensor(output)
        if tensor is None or tensor.dtype not in _DTYPES:
            return
        number = self.outputs.get(id(module))
        if number is None:
            number = self._number_of(module, tensor)
        if not self._read_again(number, tensor):
            _read(number, tensor)
            self.last_read = (weakref.ref(tensor), tensor._version, number) if number != _NOTHING_KEPT else None

    def _read_again(self, number: int, tensor: torch.Tensor) -> bool:
        """A module that returns what its last one returned has the same numbers: its elements need no second look."""
        if self.last_read is None or number == _NOTHING_KEPT:
            return False
        last, version, earlier = self.last_read
        if last() is not tensor or tensor._version != version or not _core.summary_again(number, earlier):
            return False
        self.last_read = last, version, number
        return True

    def _read_gradients(self, optimizer: Optimizer) -> None:
        for parameter in _parameters_of(optimizer):
            gradient = _plain(parameter.grad)
            if gradient is None or gradient.dtype not in _DTYPES:
                continue
            known = self.gradients.get(id(parameter))
            if known is None or known[0]() is not parameter:
                known = self._know_gradient(parameter, gradient)
            _read(known[1], gradient)

    def _read_loss(self, tensors: object) -> None:
        loss = _first_tensor(tensors)
        if loss is not None and loss.dtype in _DTYPES and loss.numel() == 1:
            _read(self._series(_LOSS, "loss", "", loss), loss.detach())

    def _series(self, kind: int, name: str, type_name: str, tensor: torch.Tensor) -> int:
        """A module or parameter that is made again under its name goes on where the other ended."""
        number = self.by_name.get((kind, name))
        if number is None:
            number = _core.summary_series(kind, name, type_name, _DTYPES[tensor.dtype], list(tensor.shape))
            self.by_name[kind, name] = number
        return number

    def _number_of(self, module: nn.Module, tensor: torch.Tensor) -> int:
        scope = self.names.scope_of(_modules_that_run(module))
        number = self._series(_OUTPUT, f"Default/{scope}", class_name(module), tensor)
        self.outputs[id(module)] = number
        weakref.finalize(module, self.outputs.pop, id(module), None).atexit = False
        return number

    def _know_gradient(self, wanted: torch.Tensor, gradient: torch.Tensor) -> tuple["weakref.ref[torch.Tensor]", int]:
        name = self._name_of(wanted) or f"parameter-{len(self.gradients)}"
        known = weakref.ref(wanted), self._series(_GRADIENT, f"{name}.grad", "", gradient)
        self.gradients[id(wanted)] = known
        return known

    def _name_of(self, wanted: torch.Tensor) -> str:
        for root in self.names.root_modules():
            prefix = self.names.parameter_prefix(root)
            for name, parameter in nn.Module.named_parameters(root):
                if parameter is wanted:
                    return prefix + name
        return ""

    def _forget_names(self) -> None:
        """A module has died: its name may be another's."""


def _complain(where: str, error: Exception) -> None:
    say_once(f"sonde: internal error at {where}: {type(error).__name__}: {error}")


def _parameters_of(optimizer: Optimizer) -> Iterable[torch.Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _modules_that_run(module: nn.Module) -> list[nn.Module]:
    """The modules that call each other, outermost first, `module` the last."""
    code = nn.Module._wrapped_call_impl.__code__
    chain: list[nn.Module] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is code:
            chain.append(frame.f_locals["self"])
        frame = frame.f_back
    if not chain or chain[0] is not module:
        chain.insert(0, module)  # called in another way
    return chain[::-1]


def _first_tensor(value: object, depth: int = 0) -> torch.Tensor | None:
    """The first tensor of numbers in an output: of a tuple, a list, or a dictionary as transformers return it."""
    if isinstance(value, torch.Tensor):
        return _plain(value)
    if depth >= _DEEPEST_OUTPUT or not isinstance(value, tuple | list | dict):
        return None
    for one in dict.values(value) if isinstance(value, dict) else value:
        found = _first_tensor(one, depth + 1)
        if found is not None and found.dtype in _DTYPES:
            return found
    return None


def _plain(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The tensor itself; of a DTensor this rank's part. Other subclasses run code of their own."""
    if tensor is not None and type(tensor) not in _PLAIN:
        tensor = getattr(tensor, "_local_tensor", None)
    if tensor is None or type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
        return None
    return tensor


def _read(number: int, tensor: torch.Tensor) -> None:
    if number == _NOTHING_KEPT:
        return
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None or not tensor.is_cpu:
        _core.summary_unread(number)
    elif tensor.is_contiguous() and not tensor.is_neg():
        _core.summary_dense(number, tensor.data_ptr(), dtype, tensor.numel())
    elif not tensor.is_neg():
        _core.summary_strided(number, tensor.data_ptr(), dtype, list(tensor.shape), list(tensor.stride()))
    else:
        _core.summary_unread(number)
