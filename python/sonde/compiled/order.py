"""The order in which operations run, with taps: the program's run as without Sonde, those of taps between them.

Inductor moves operations, so that less memory is needed at once. With taps it would move others, and what it computes
may depend on the order: PyTorch 2.13 zeroes some gradients of bilinear interpolation only because of it.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# The program's operations after which taps do not wait any longer: their inputs hold memory.
MOST_WAITED = 32


@contextlib.contextmanager
def program_keeps_its_order(is_ours: Callable[[Any], bool]) -> Iterator[None]:
    """Within the block, Inductor orders the program's operations alone. `is_ours`: whether one serves taps."""
    from torch._inductor import memory

    module: Any = memory
    reorder: Any = getattr(module, "reorder_for_peak_memory", None)

    def reorder_program(nodes: list[Any], *args: Any, **kwargs: Any) -> list[Any]:
        program = [node for node in nodes if not is_ours(node)]
        if len(program) == len(nodes):
            return list(reorder(nodes, *args, **kwargs))
        return merged(nodes, reorder(program, *args, **kwargs)) or nodes

    if reorder is None:
        yield
        return
    module.reorder_for_peak_memory = reorder_program
    try:
        yield
    finally:
        module.reorder_for_peak_memory = reorder


def merged(nodes: Sequence[Any], program: Sequence[Any]) -> list[Any] | None:
    """All `nodes` of Inductor's scheduler: those of `program` in its order, the others where a C++ function of the
    program ends and what they need is there. None: one of the program needs one that cannot run yet."""
    makers = {name: node for node in nodes for name in node.get_buffer_names()}
    needs = {node: {makers.get(dep.name) for dep in node.unmet_dependencies} - {None, node} for node in nodes}
    known = set(program)
    waiting = [node for node in nodes if node not in known]
    waiting.sort(key=lambda node: bool(node.is_extern()))  # calls end a function
    done: set[Any] = set()
    order: list[Any] = []

    def run(node: Any) -> None:
        order.append(node)
        done.add(node)

    def run_ready() -> None:
        left = []
        for node in waiting:
            if needs[node] <= done:
                run(node)
            else:
                left.append(node)
        waiting[:] = left

    waited = 0
    for node in program:
        missing = needs[node] - known - done
        if missing or node.is_extern() or waited == MOST_WAITED:
            run_ready()
            waited = 0
        if missing - done:
            return None
        run(node)
        waited += 1
    run_ready()
    return None if waiting else order
