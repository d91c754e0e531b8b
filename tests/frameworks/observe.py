"""Runs a program and logs its results, without a change to the program.

    python observe.py OUT.json program.py      # with OBSERVE_OPERATORS=1: PyTorch's profiler and forward hooks, too

Written down: after every outermost Optimizer.step digests of its parameters and their gradients; at the end the states
of all random generators and what the program left in `observe.results`. With OBSERVE_OPERATORS=1 also the operators of
each training step, by PyTorch's profiler, and the outputs of leaf modules and the gradients, reduced with NumPy.
No operator is run for any of it: both runs, bare and recorded, stay what they are.
"""

import bisect
import contextlib
import ctypes
import hashlib
import itertools
import json
import os
import pickle
import random
import runpy
import sys

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

OPERATORS = os.environ.get("OBSERVE_OPERATORS") == "1"
MARK = "observe.step:"
results = {}  # the program's own: losses, the trainer's numbers
steps = []  # a digest after each optimizer step
samples = []  # (step, module path, class, slot, minimum, maximum, mean, l2norm) of outputs; ("grad", …) of gradients
calls = []  # of root modules with gradients: (step, class)


def digest(tensors):
    sum_ = hashlib.sha256()
    for tensor in tensors:
        sum_.update(bytes(memory_of(tensor)))
    return sum_.hexdigest()[:16]


def memory_of(tensor):
    """The bytes of its storage, without an operator."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr()), np.uint8)


class Steps:
    """Training steps as docs/guide.md defines them, found independently: a step ends when a root with parameters is
    called after Optimizer.step."""

    def __init__(self):
        self.number, self.stepped, self.depth, self.open, self.mark = -1, False, 0, [], None

    def forward_begins(self, module, _arguments):
        self.depth += 1
        if self.depth == 1:
            roots[id(module)] = module
        if self.depth > 1 or self.inside_optimizer or not torch.is_grad_enabled():
            return
        if next(module.parameters(), None) is None:
            return
        if self.number < 0 or self.stepped:
            self.begin()
        calls.append([self.number, type(module).__name__])

    inside_optimizer = 0

    def begin(self):
        self.number += 1
        self.stepped = False
        if OPERATORS:
            if self.mark is not None:
                self.mark.__exit__(None, None, None)
            self.mark = torch.profiler.record_function(f"{MARK}{self.number}")
            self.mark.__enter__()

    def forward_ends(self, module, _arguments, output):
        self.depth -= 1
        if OPERATORS and torch.is_grad_enabled() and not next(module.children(), None):
            for slot, tensor in enumerate([output] if isinstance(output, torch.Tensor) else []):
                sample(self.number, name_of(module), type(module).__name__, slot, tensor)

    def optimizer_begins(self, optimizer, _args, _kwargs):
        self.inside_optimizer += 1
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if OPERATORS:
            for parameter in parameters[:8]:
                sample(self.number, names.get(id(parameter), ""), "grad", 0, parameter.grad)
        self.gradients = digest(p.grad for p in parameters if not p.grad.is_sparse)

    def optimizer_ended(self, optimizer, _args, _kwargs):
        self.inside_optimizer -= 1
        self.stepped = True
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        steps.append([self.number, self.gradients, digest(parameters)])


names = {}


def name_of(module):
    if id(module) not in names:
        for root in [o for o in list(roots.values()) if o is not None]:
            for name, child in root.named_modules():
                names.setdefault(id(child), name)
            for name, parameter in root.named_parameters():
                names.setdefault(id(parameter), name)
    return names.get(id(module), "")


roots = {}


def sample(step, name, kind, slot, tensor):
    if len(samples) >= 4000 or tensor.dtype not in (torch.float32, torch.float64) or not tensor.numel():
        return
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        return
    storage = memory_of(tensor)
    width = tensor.element_size()
    dtype = np.float32 if width == 4 else np.float64
    view = np.lib.stride_tricks.as_strided(
        np.frombuffer(storage, dtype)[tensor.storage_offset() :],
        tuple(tensor.shape),
        tuple(stride * width for stride in tensor.stride()),
    )
    wide = view.astype(np.float64)
    values = [float(wide.min()), float(wide.max()), float(wide.mean()), float(np.sqrt((wide * wide).sum()))]
    samples.append([step, name, kind, slot, list(tensor.shape), values])


def operators_by_step(profile):
    """{step: {operator: times}}: operators that no other one called, by the profiler.

    Autocast's own entry of an operator casts and calls the operator again: that call is the operator."""
    events = sorted(profile.profiler.kineto_results.events(), key=lambda e: (e.start_ns(), -e.duration_ns()))
    marks = sorted((e.start_ns(), int(e.name()[len(MARK) :])) for e in events if e.name().startswith(MARK))
    starts = [start for start, _ in marks]
    counts, around = {}, {}
    for at, event in enumerate(events):
        name, thread = event.name(), event.start_thread_id()
        if "::" not in name or name.startswith(("autograd::", "torch::autograd")):
            continue
        if event.start_ns() < around.get(thread, 0):
            continue  # inside another operator
        if is_entry_of_autocast(events, at):
            continue
        around[thread] = event.start_ns() + event.duration_ns()
        mark = bisect.bisect_right(starts, event.start_ns()) - 1
        if mark >= 0:
            of_step = counts.setdefault(marks[mark][1], {})
            of_step[name] = of_step.get(name, 0) + 1
    return counts


def is_entry_of_autocast(events, at):
    """True for an entry that only casts, and calls itself."""
    event = events[at]
    end, inside = event.start_ns() + event.duration_ns(), 0
    called = set()
    for inner in itertools.takewhile(lambda e: e.start_ns() < end, itertools.islice(events, at + 1, None)):
        if inner.start_thread_id() == event.start_thread_id() and inner.start_ns() >= inside:
            called.add(inner.name())
            inside = inner.start_ns() + inner.duration_ns()
    return event.name() in called and called <= {event.name(), "aten::to"}


def random_states():
    states = pickle.dumps((random.getstate(), np.random.get_state()))
    return hashlib.sha256(states).hexdigest()[:16], digest([torch.random.get_rng_state()])


def main():
    out, program = sys.argv[1:3]
    sys.argv = [program, *sys.argv[3:]]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    clock = Steps()
    register_module_forward_pre_hook(clock.forward_begins)
    register_module_forward_hook(clock.forward_ends, always_call=True)
    register_optimizer_step_pre_hook(clock.optimizer_begins)
    register_optimizer_step_post_hook(clock.optimizer_ended)
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if OPERATORS else None
    with profile or contextlib.nullcontext():
        runpy.run_path(program, run_name="__main__")
        if clock.mark is not None:
            clock.mark.__exit__(None, None, None)
    written = {"results": results, "steps": steps, "random": random_states(), "calls": calls}
    if OPERATORS:
        written |= {"operators": operators_by_step(profile), "samples": samples}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(written, file)


if __name__ == "__main__":
    sys.modules["observe"] = sys.modules["__main__"]
    main()
