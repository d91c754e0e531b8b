"""Gives taps their tensors while Inductor turns a graph into kernels, without changing the kernels of the program.

In the FX graph a tap names its node only, so nothing about the node's users changes. When Inductor has decided which
results become memory, and how that lies, the taps get their tensors: memory that is there anyway as it is; any other
result is computed once more into memory of its own, in kernels of the taps' own. So the program's kernels are those of
the form without taps, and their results are the same bits, whatever a fused kernel keeps unrounded.
"""

import contextlib
import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from . import nodes, packages
from .nodes import Input, Table
from .order import program_keeps_its_order
from .taps import followed_results, results_are_followed

# A result that becomes memory within so many taps is handed over then, instead of being computed again.
_MOST_WAITED = 8
# Taps that wait for the end of a function: they hold memory.
_MOST_WAITING = 32


@dataclasses.dataclass
class _Value:
    """A tensor for a tap, as Inductor knew it at its place."""

    box: Any  # ir.TensorBox
    computes: tuple[Any, ...] | None  # (function, size, dtype, device) of one that is not memory
    tensor: Any = None  # given to the tap; values are shared between taps
    strides: list[int] | None = None  # of its own memory, where they matter
    is_constant: bool = False  # every element is the same
    # (value, function of it) of one that is a view of another value
    view: tuple["_Value", Callable[[Any], Any]] | None = None


@dataclasses.dataclass
class _Tap:
    number: int
    position: int  # among the operations of the graph
    node: Any  # of FX
    results: list[_Value]
    given: list[_Value]


class Taps:
    """The taps of one graph, while it is lowered."""

    def __init__(self, order: Any, table: Table) -> None:
        from torch._inductor import ir

        self.order = order
        self.table = table
        self.all: list[_Tap] = []
        self.values: dict[tuple[str, int], _Value] = {}
        self.own: set[str] = set()  # buffers that the program does not have
        self.kernels: dict[str, list[str]] = {}  # the program's, by the nodes that they compute
        self._nodes: dict[str, Any] = {}  # of FX
        self._followed: dict[tuple[str, int], str] = {}  # results of mutating operators: the nodes that they became
        self._kernel = packages.tap_kernel() if table.package else ir.FallbackKernel

    def add(self, graph: Any, number: int) -> None:
        """The tap of node `number` has its place here."""
        node = self.table.nodes[number]
        for slot, name in followed_results(graph.current_node).items():
            self._followed[node.name, slot] = name
        results = [self._value(graph, node.name, slot) for slot, output in enumerate(node.outputs) if output.used]
        given = [self._value(graph, *self._source(one)) for one in node.inputs if one.maker is None]
        found = [one for one in results if one is not None], [one for one in given if one is not None]
        if None not in results and None not in given:
            self.all.append(_Tap(number, len(graph.operations), graph.current_node, *found))

    def _source(self, one: Input) -> tuple[str, int]:
        return one.value, one.output

    def _value(self, graph: Any, name: str, slot: int) -> _Value | None:
        if (name, slot) in self._followed:
            name, slot = self._followed[name, slot], 0
        if (name, slot) not in self.values:
            # An input itself, not the copy in another layout that a convolution reads: its memory has a name.
            lowered = graph.graph_inputs.get(name, graph.sonde_results.get(name))
            if isinstance(lowered, tuple | list):
                lowered = lowered[slot] if slot < len(lowered) else None
            value = _as_value(lowered)
            if value is None:
                return None
            if value.computes is not None:
                self._nodes = self._nodes or {node.name: node for node in graph.module.graph.nodes}
                value.view = self._view(name, slot)
                value.strides = _strides_of_copy(self._nodes.get(name))
                value.is_constant = getattr(self._nodes.get(name), "target", None) is torch.ops.aten.full.default
            self.values[name, slot] = value
        return self.values[name, slot]

    def _view(self, name: str, slot: int) -> tuple[_Value, Callable[[Any], Any]] | None:
        """A view of a value that a tap has got needs no memory of its own. `slot`: of an operator with several."""
        from torch._inductor import lowering

        node: Any = self._nodes.get(name)
        base = node.args[0] if node is not None and node.args else None
        if not nodes.is_view(getattr(node, "target", None)) or not isinstance(base, fx.Node):
            return None
        value, function = self.values.get((base.name, 0)), lowering.lowerings.get(node.target)
        others = [*node.args[1:], *node.kwargs.values()]
        if value is None or function is None or any(isinstance(one, fx.Node) for one in _flat(others)):
            return None

        def view_of(tensor: Any) -> Any:
            made = function(tensor, *node.args[1:], **node.kwargs)
            return made[slot] if isinstance(made, tuple | list) else made

        return value, view_of

    def add_kernel(self, kernel: str, scheduled: list[Any]) -> None:
        """A C++ kernel has its name."""
        for one in scheduled:
            if set(one.get_buffer_names()) & self.own:
                continue
            for part in one.get_nodes():
                for node in sorted(origin.name for origin in getattr(part.node, "origins", ())):
                    names = self.kernels.setdefault(node, [])
                    if kernel not in names:
                        names.append(kernel)

    def place(self, graph: Any) -> None:
        """All layouts are decided: makes the operations of the taps and puts them where they belong."""
        from torch._inductor import ir

        program = list(graph.operations)
        ends = {op.get_name(): i + 1 for i, op in enumerate(program) if hasattr(op, "get_name")}
        writes = [i for i, op in enumerate(program) if op.get_mutation_names()]
        order = _Order(program)
        earliest = 0
        for i, tap in enumerate(self.all):
            last = self.all[min(i + _MOST_WAITED, len(self.all) - 1)].position
            position = max(earliest, tap.position)
            for value in tap.results:
                end = ends.get(_memory_of(value.box), -1) if value.computes is not None and value.tensor is None else -1
                if 0 <= end <= last and not any(tap.position <= write < end for write in writes):
                    value.computes = None
                    position = max(position, end)
            earliest = position
            known = len(graph.operations), len(graph.buffers)
            with graph.set_current_node(tap.node), ir.IRNode.current_origins(_origins(tap.node)):
                results = [_tensor_of(value) for value in tap.results]
                given = [_tensor_of(value) for value in tap.given]
                self._kernel.create(torch.ops.sonde.tap.default, self.order, tap.number, results, given)
            *own, call = graph.operations[known[0] :]
            order.put(position, own, call)
            for buffer in graph.buffers[known[1] :]:
                buffer.decide_layout()
                self.own.add(buffer.get_name())
        graph.operations[:] = order.merged()


class _Order:
    """The operations of the program and those of the taps, in the order in which they run.

    A call, of a library or of a tap, ends a C++ function, and each function is a file to be compiled. So taps wait
    until the program ends the function, or writes to memory that they may read."""

    def __init__(self, program: list[Any]) -> None:
        from torch._inductor import ir

        self._program = program
        self._ends = [i for i, op in enumerate(program) if isinstance(op, ir.ExternKernel) or op.get_mutation_names()]
        self._ends.append(len(program))
        self._before: list[list[Any]] = [[] for _ in range(len(program) + 1)]  # each operation of the program
        self._waiting: list[Any] = []
        self._until = 0

    def put(self, position: int, own: list[Any], call: Any) -> None:
        """The kernels of a tap run before the program's operation `position`, as do those of all earlier taps."""
        if position > self._until or len(self._waiting) == _MOST_WAITING:
            self._before[min(position, self._until)] += self._waiting
            self._waiting.clear()
        self._until = next(end for end in self._ends if end >= position)
        self._before[position] += own
        self._waiting.append(call)

    def merged(self) -> list[Any]:
        """All operations."""
        self._before[self._until] += self._waiting
        merged = []
        for i in range(len(self._program) + 1):
            merged += self._before[i] + self._program[i : i + 1]
        return merged


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(list(value))
        else:
            yield value


def _origins(node: Any) -> Any:
    from torch.utils._ordered_set import OrderedSet

    return OrderedSet([node])


def _as_value(lowered: Any) -> _Value | None:
    from torch._inductor import ir

    if not isinstance(lowered, ir.TensorBox):
        return None
    box = ir.TensorBox(lowered.data)  # an operation in place exchanges the data of the original
    if _memory_of(box):
        return _Value(box, None)
    return _Value(box, (box.make_loader(), list(box.get_size()), box.get_dtype(), box.get_device()))


def _memory_of(box: Any) -> str:
    """The name of the memory that a box, or the view in it, has; empty if it has none yet."""
    from torch._inductor import ir

    try:
        inner = box.unwrap_view() if isinstance(box.data, ir.BaseView) else box
        return str(inner.get_name()) if ir.is_storage_and_layout(inner) else ""
    except (NotImplementedError, AttributeError):
        return ""


def _tensor_of(value: _Value) -> Any:
    from torch._inductor import ir, lowering

    if value.tensor is None:
        value.tensor = value.box
        if value.computes is not None and value.view is not None and value.view[0].tensor is not None:
            base, view_of = value.view
            value.tensor = view_of(base.tensor)
        elif value.computes is not None:
            function, size, dtype, device = value.computes
            memory = [1] * len(size) if value.is_constant else size
            value.tensor = ir.Pointwise.create(device=device, dtype=dtype, inner_fn=function, ranges=memory)
            value.tensor.realize()
            if value.strides is not None:
                value.tensor.freeze_layout_with_exact_strides(value.strides)
            if value.is_constant:
                value.tensor = lowering.lowerings[torch.ops.aten.expand.default](value.tensor, size)
    return value.tensor


def _strides_of_copy(node: Any) -> list[int] | None:
    """Of a copy in another order: views of it are views of its memory only if it lies as the graph says."""
    if getattr(node, "target", None) is not torch.ops.aten.clone.default:
        return None
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not all(type(one) is int for one in (*value.shape, *value.stride())):
        return None
    expected = 1
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size != 1 and stride != expected:
            return None  # parts of its memory are not its own
        expected *= size
    return list(value.stride())


_ALLOCATES = re.compile(r"^( +)(buf\d+) = empty_strided_cpu\(\(([^)]*)\)", re.MULTILINE)
_FEW_ELEMENTS = 1 << 14  # memory that malloc keeps anyway


def with_kept_memory(code: str, returned: set[str]) -> str:
    """Generated Python in which buffers come from memory that is kept between runs, except those that it returns. Taps
    hold memory longer, so that less of it is used again within a run."""

    def replaced(found: re.Match[str]) -> str:
        space, name, sizes = found.groups()
        numbers = [one.strip() for one in sizes.split(",") if one.strip()]
        is_small = all(one.isdigit() for one in numbers) and math.prod(map(int, numbers)) < _FEW_ELEMENTS
        return found[0] if name in returned or is_small else f"{space}{name} = sonde_memory(({sizes})"

    function = "empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu"
    if function not in code:
        return code
    code = code.replace(function, f"{function}; sonde_memory = torch.ops.sonde.memory.default", 1)  # on the same line
    return _ALLOCATES.sub(replaced, code)


@functools.cache
def _cpp_can_call_taps() -> bool:
    """False with PyTorch 2.6, whose generated C++ would fail when it runs."""
    from torch._inductor.codecache import custom_op_wrapper

    try:
        custom_op_wrapper("torch.ops.sonde.dump_scope.default", 0)
    except AssertionError:
        return False
    return True


@contextlib.contextmanager
def taps_are_lowered() -> Iterator[None]:
    """Within the block, Inductor knows the taps. Raises AttributeError if it is not as we know it."""
    from torch._inductor import lowering
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler
    from torch._inductor.virtualized import V

    lowered: Any = GraphLowering
    run_node, finalize, can_fuse = GraphLowering.run_node, GraphLowering.finalize, Scheduler.can_fuse
    begin, tap = torch.ops.sonde.graph.default, torch.ops.sonde.tap.default

    def lower_begin(shared: Any, text: str) -> None:
        graph: Any = V.graph
        table = Table.from_json(text)
        graph.sonde_taps = Taps(shared, table)
        known = len(graph.buffers)
        if table.package:
            packages.begin_kernel().create(begin, shared, "")
        elif graph.cpp_wrapper and not _cpp_can_call_taps():
            raise RuntimeError("its C++ wrapper cannot call operators without results in this version of PyTorch")
        else:
            handler: Any = lowering.fallback_handler
            handler(begin, add_to_fallback_set=False)(shared, nodes.IN_CPP if graph.cpp_wrapper else text)
        graph.sonde_taps.own |= {shared.get_name(), *(buffer.get_name() for buffer in graph.buffers[known:])}

    def lower_tap(_order: Any, number: int, _results: Any, _given: Any) -> None:
        graph: Any = V.graph
        graph.sonde_taps.add(graph, number)

    def run_node_and_keep(self: Any, node: Any) -> Any:
        result = run_node(self, node)
        vars(self).setdefault("sonde_results", {})[node.name] = result  # Inductor forgets it after its last user
        return result

    def finalize_with_taps(self: Any) -> None:
        finalize(self)
        taps = getattr(self, "sonde_taps", None)
        if taps is not None:
            taps.place(self)

    def is_ours(node: Any) -> bool:
        taps = getattr(V.graph, "sonde_taps", None)
        return taps is not None and bool(set(node.get_buffer_names()) & taps.own)

    def can_fuse_with_taps(self: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> bool:
        return is_ours(node1) == is_ours(node2) and bool(can_fuse(self, node1, node2, *args, **kwargs))

    lowering.lowerings[begin] = lower_begin
    lowering.lowerings[tap] = lower_tap
    lowered.run_node = run_node_and_keep
    lowered.finalize = finalize_with_taps
    Scheduler.can_fuse = can_fuse_with_taps  # type: ignore[method-assign]
    try:
        with _mutating_operators_are_followed(), _kernels_are_named(), program_keeps_its_order(is_ours):
            yield
    finally:
        lowered.run_node = run_node
        lowered.finalize = finalize
        Scheduler.can_fuse = can_fuse  # type: ignore[method-assign]
        del lowering.lowerings[begin], lowering.lowerings[tap]


@contextlib.contextmanager
def _mutating_operators_are_followed() -> Iterator[None]:
    """Within the block, the taps of mutating operators get what these have written."""
    from torch._inductor.fx_passes import post_grad

    passes: Any = post_grad
    call_mutating = passes.decompose_auto_functionalized

    def call_mutating_and_follow(graph: Any) -> None:
        with results_are_followed(graph):
            call_mutating(graph)

    passes.decompose_auto_functionalized = call_mutating_and_follow
    try:
        yield
    finally:
        passes.decompose_auto_functionalized = call_mutating


@contextlib.contextmanager
def _kernels_are_named() -> Iterator[None]:
    """Within the block, the table in the compiled code says which kernel computes a node."""
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    scheduling: Any = CppScheduling
    lowered: Any = GraphLowering
    codegen, define_kernel = lowered.codegen, scheduling.define_kernel

    def define_kernel_and_keep(self: Any, source: str, scheduled: Any, *args: Any, **kwargs: Any) -> Any:
        name = define_kernel(self, source, scheduled, *args, **kwargs)
        taps = getattr(V.graph, "sonde_taps", None)
        if taps is not None:
            taps.add_kernel(str(name), list(scheduled))
        return name

    def codegen_with_kernels(self: Any) -> Any:
        result = codegen(self)
        taps, code = getattr(self, "sonde_taps", None), result[0]
        if taps is None:
            return result
        taps.table.kernels = taps.kernels
        complete = packages.with_table if taps.table.package else nodes.with_kernels
        returned = set(self.get_output_names())
        if isinstance(code, str):  # PyTorch 2.6
            return with_kept_memory(complete(code, taps.table), returned), *result[1:]
        text = with_kept_memory(complete(code.value, taps.table), returned)
        return type(code)(text, code.line_map), *result[1:]

    lowered.codegen = codegen_with_kernels
    scheduling.define_kernel = define_kernel_and_keep
    try:
        yield
    finally:
        lowered.codegen = codegen
        scheduling.define_kernel = define_kernel
