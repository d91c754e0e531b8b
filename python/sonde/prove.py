"""The data that `sonde run --prove` compares: digests of all values of a training, written by the training itself.

The same observer runs in the run without Sonde and in the one that is recorded. At each backward, each forward of a
root module, each outermost Optimizer.step and at the end it writes one line per event to a file below the directory
that SONDE_PROVE names. Tensors are read where they lie, by the adapter: no operator runs, so nothing of this is
recorded, and nothing is kept, so no tensor lives longer.
"""

import atexit
import functools
import gc
import hashlib
import itertools
import json
import multiprocessing.process
import os
import random
import re
import struct
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

import sonde_early

from . import adapter
from .console import report
from .library import Library
from .modules import modules_below, tensors_of
from .optimizers import step_wrapper_code

_MOST_DEEP = 8  # levels of lists and dictionaries in a module's result
_MODULE_CALL = nn.Module._wrapped_call_impl.__code__
_OPTIMIZER_STEP = step_wrapper_code()

_UNSEEDED = torch.default_generator.initial_seed()  # another in each run

_observer: "Observer | None" = None


def start(directory: str) -> None:
    """Observe this process and those it forks, until it ends."""
    global _observer
    if _observer is None:
        _observer = Observer(directory, adapter.load())
        register_module_forward_hook(_after_forward)
        register_optimizer_step_post_hook(_after_step)
        torch.autograd.backward = _observed_backward(torch.autograd.backward)
        os.register_at_fork(before=_observer.before_fork, after_in_child=_observer.in_forked_child)
        atexit.register(_observer.observe, _observer.end)
        report("observed", str(os.getpid()))


def _after_forward(module: nn.Module, _arguments: object, output: object) -> None:
    if torch.compiler.is_compiling():
        return
    if _observer is not None and _is_outermost(_MODULE_CALL):
        _observer.observe(_observer.forward, module, output)


def _after_step(optimizer: Optimizer, _arguments: object, _keywords: object) -> None:
    if _observer is not None and _is_outermost(_OPTIMIZER_STEP):
        _observer.observe(_observer.step, optimizer)


def _observed_backward(original: Callable[..., None]) -> Callable[..., None]:
    def backward(tensors: object, *arguments: Any, **keywords: Any) -> None:
        if _observer is not None:
            _observer.observe(_observer.backward, tensors)
        return original(tensors, *arguments, **keywords)

    backward.__doc__ = original.__doc__
    backward.__wrapped__ = original  # type: ignore[attr-defined]
    return backward


def _is_outermost(code: CodeType) -> bool:
    """True if exactly one frame of the stack runs `code`."""
    found = 0
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and found < 2:
        found += frame.f_code is code
        frame = frame.f_back
    return found == 1


class Event:
    """A line under construction: `values` are [kind, name, description, digest]."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._seen: dict[int, torch.Tensor] = {}  # id -> tensor, kept alive so that the id stays unique
        self.values: list[list[str]] = []
        self.skipped: list[list[str]] = []

    def add(self, kind: str, name: str, tensor: object) -> None:
        """Adds a tensor, if it is new in this event. Of one that wraps others, such as a DTensor, these are added."""
        if not isinstance(tensor, torch.Tensor) or id(tensor) in self._seen:
            return
        self._seen[id(tensor)] = tensor
        wrapped = _wrapped_in(tensor)
        for attribute, part in wrapped:
            self.add(kind, f"{name}.{attribute}", part)
        if wrapped:
            return
        description, memory = self._library.memory_of(tensor)
        if memory is None:
            self.skipped.append([kind, name, description])
        else:
            self.values.append([kind, name, description, _digest(memory)])

    def add_all(self, kind: str, name: str, value: object, depth: int = 0) -> None:
        """The tensors in a module's result: the result itself, or those in tuples, lists and dictionaries."""
        if isinstance(value, torch.Tensor):
            self.add(kind, name, value)
        elif depth < _MOST_DEEP and isinstance(value, tuple | list):
            for i, element in enumerate(value):
                self.add_all(kind, f"{name}[{i}]", element, depth + 1)
        elif depth < _MOST_DEEP and isinstance(value, dict):
            for key, element in value.items():
                self.add_all(kind, f"{name}[{key!r}]", element, depth + 1)

    def add_model(self, label: str, model: nn.Module) -> None:
        """Parameters with their gradients, and buffers."""
        for name, parameter in tensors_of(model, "_parameters"):
            self.add_parameter(f"{label}.{name}", parameter)
        for name, buffer in tensors_of(model, "_buffers"):
            self.add("buffer", f"{label}.{name}", buffer)

    def add_parameter(self, name: str, parameter: torch.Tensor) -> None:
        """The gradient comes first: if both differ, it is the cause."""
        if parameter.is_leaf and parameter.grad is not None:
            self.add("gradient", name, parameter.grad)
        self.add("parameter", name, parameter)

    def add_random_numbers(self) -> None:
        """The states of the generators; of generators without a seed only their position."""
        state = torch.default_generator.get_state()
        if torch.default_generator.initial_seed() == _UNSEEDED:
            left, _, following = struct.unpack_from("<iiQ", self._library.memory_of(state)[1] or b"", 8)
            self._add_position("torch", f"{left} {following}")
        else:
            self.add("random state", "torch", state)
        self._add_position("Python", random.getstate()[1][-1])
        numpy = sys.modules.get("numpy.random")
        position = numpy.get_state() if numpy is not None else None
        if isinstance(position, tuple):  # the usual generator: Mersenne Twister
            self._add_position("NumPy", position[2])

    def _add_position(self, name: str, position: object) -> None:
        self.values.append(["random state", name, "", f"position {position}"])


class Stream:
    """The events of one thread of one process, in their order."""

    def __init__(self, path: str) -> None:
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.steps = 0
        self.forwards = 0

    def write(self, kind: str, place: str, event: Event) -> None:
        """Raises OSError."""
        if self._file is None:
            raise ValueError("the stream is closed")
        line = {"event": kind, "place": place, "values": event.values, "skipped": event.skipped}
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        """Only once; later the descriptor may belong to another file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Observer:
    """The record of this process's results."""

    def __init__(self, directory: str, library: Library) -> None:
        self._directory = directory
        self._library = library
        # Closed at the end of the thread.
        self._streams: weakref.WeakKeyDictionary[threading.Thread, Stream] = weakref.WeakKeyDictionary()
        self._observed = False
        self._lock = threading.RLock()
        self._labels = Labels()
        self._called: list[weakref.ref[nn.Module]] = []  # models called since the last step
        self._children = 0
        self._lineage = ""  # `-child1-child2`: forked by child1
        self._broken = False

    def observe(self, what: Callable[..., None], *arguments: object) -> None:
        """Calls `what`; reports an exception, which never reaches the program."""
        if self._broken:
            return
        try:
            with self._lock, torch._C.DisableTorchFunction():
                what(*arguments)
            self._library.forget_dead_storages()
        except Exception as error:
            self._broken = True
            report("unobserved", f"observing stopped: {type(error).__name__}: {error}")

    # --- events -----------------------------------------------------------------------------------------------------

    def forward(self, model: nn.Module, output: object) -> None:
        """After a model's forward: its result."""
        stream = self._stream()
        label = self._labels.of(model)
        if all(known() is not model for known in self._called):
            self._called.append(weakref.ref(model))
        event = Event(self._library)
        event.add_all("output", label, output)
        event.add_random_numbers()
        stream.write("forward", f"step {stream.steps}, forward {stream.forwards} ({label})", event)
        stream.forwards += 1

    def backward(self, tensors: object) -> None:
        """Before a backward: the losses that it begins with."""
        stream = self._stream()
        event = Event(self._library)
        event.add_all("loss", "loss", tensors)
        stream.write("backward", f"step {stream.steps}, backward", event)

    def step(self, optimizer: Optimizer) -> None:
        """After an optimizer's step: the models that were called, the trained tensors, and its state."""
        stream = self._stream()
        label = self._labels.of(optimizer)
        event = Event(self._library)
        names: dict[int, str] = {}
        for model in [model for model in (known() for known in self._called) if model is not None]:
            for name, parameter in tensors_of(model, "_parameters"):
                names.setdefault(id(parameter), f"{self._labels.of(model)}.{name}")
            event.add_model(self._labels.of(model), model)
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                name = names.get(id(parameter), f"{label}.group {g}.parameter {i}")
                event.add_parameter(name, parameter)
                state = optimizer.state.get(parameter)
                for key, value in state.items() if isinstance(state, dict) else ():
                    event.add_all("optimizer state", f"{key}.{name}", value)
        event.add_random_numbers()
        stream.write("step", f"step {stream.steps}, after {label}.step", event)
        stream.steps += 1
        self._called.clear()

    def end(self) -> None:
        """At the end of the program: every model that is alive."""
        if not self._observed and sonde_early.not_the_training():
            return
        gc.collect()  # objects that only wait to be collected are not alive
        modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module)]
        inner = {id(below) for module in modules for _, below in modules_below(module)}
        event = Event(self._library)
        event.add_random_numbers()
        outermost = [module for module in modules if id(module) not in inner]
        for module in sorted((m for m in outermost if self._labels.knows(m)), key=self._labels.number):
            event.add_model(self._labels.of(module), module)
        # Modules that were not called are distinguished only by their contents.
        others = [self._never_called(module) for module in outermost if not self._labels.knows(module)]
        for values, skipped in sorted(others):
            event.values += values
            event.skipped += skipped
        self._stream().write("end", "end of the program", event)

    def _never_called(self, module: nn.Module) -> tuple[list[list[str]], list[list[str]]]:
        event = Event(self._library)
        event.add_model(f"{type(module).__name__} (never called)", module)
        return event.values, event.skipped

    # --- output -----------------------------------------------------------------------------------------------------

    def _stream(self) -> Stream:
        thread = threading.current_thread()
        stream = self._streams.get(thread)
        if stream is None:
            stream = self._streams[thread] = self._open(self._name(thread))
            weakref.finalize(thread, stream.close).atexit = False
            self._observed = True
        return stream

    def _name(self, thread: threading.Thread) -> str:
        rank = os.environ.get("RANK")
        process = multiprocessing.process.current_process().name
        parts = [f"rank {rank}" if rank else "", "" if process == "MainProcess" else process]
        if thread is not threading.main_thread():
            parts.append(thread.name)
        name = ", ".join(part for part in parts if part) or "main"
        return re.sub(r"[^\w ,().:-]", "_", name)[:200] + self._lineage

    def _open(self, name: str) -> Stream:
        number = 1
        while True:
            try:
                return Stream(os.path.join(self._directory, f"{name}{f' {number}' if number > 1 else ''}.digests"))
            except FileExistsError:
                number += 1  # an earlier process had the same name

    def before_fork(self) -> None:
        """Counts children, whose files have names of their own."""
        self._children += 1

    def in_forked_child(self) -> None:
        """The child has its own files, and new locks: other threads may have locked the old ones."""
        self._lineage += f"-child{self._children}"
        self._children = 0
        self._lock = threading.RLock()
        for stream in list(self._streams.values()):
            stream.close()
        self._streams = weakref.WeakKeyDictionary()
        self._observed = False


class Labels:
    """Names of models and optimizers by class, in the order of their first use: `Net`, `Net-2`."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[object], str, int]] = {}  # id -> (it, label, number)
        self._counts: dict[str, int] = {}
        self._total = itertools.count()

    def knows(self, thing: object) -> bool:
        """True if it has a name."""
        known = self._known.get(id(thing))
        return known is not None and known[0]() is thing

    def number(self, thing: object) -> int:
        """Its place in the order of first use, from 0."""
        return self._known[id(thing)][2]

    def of(self, thing: object) -> str:
        """Its name, given now if it has none."""
        if not self.knows(thing):
            kind = type(thing).__name__
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            label = kind if count == 1 else f"{kind}-{count}"
            reference = weakref.ref(thing, functools.partial(self._died, id(thing)))
            self._known[id(thing)] = reference, label, next(self._total)
        return self._known[id(thing)][1]

    def _died(self, identity: int, _reference: "weakref.ref[object]") -> None:
        self._known.pop(identity, None)


def _wrapped_in(tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """(attribute, tensor): those that a wrapper subclass computes with, by PyTorch's protocol for these classes."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None or getattr(tensor, "completed", True) is False:
        return []  # False: a collective may still be writing (AsyncCollectiveTensor)
    try:
        attributes, _context = flatten(tensor)
        parts = [(name, getattr(tensor, name)) for name in attributes]
    except Exception:  # of the class's own code
        return []
    return [(name, part) for name, part in parts if isinstance(part, torch.Tensor)]


def _digest(memory: bytes | memoryview) -> str:
    return hashlib.blake2b(memory, digest_size=16).hexdigest()
