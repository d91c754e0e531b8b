"""Inserts taps into a graph just before Inductor generates code for it: operators that hand a node's results to Sonde.

A tap comes after its node; the code around it stays compiled, and lowering.py gives the tap its tensors. All taps of a
graph write one small tensor, `order`: no pass removes or reorders them. The first of them carries the table of nodes as
text, so that code from a cache, for which this pass does not run, brings it along.
"""

import contextlib
import dataclasses
import hashlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from . import nodes
from .nodes import Table

_FORMAT = 14  # of the table and the taps: code of another one is not taken from a cache


@dataclasses.dataclass
class Choice:
    """The nodes that get a tap. `by_value`: taps get all inputs of their node, not only those of the graph."""

    wants: Callable[[Table], None]  # sets `tapped` of every node
    by_value: bool
    key: str  # distinguishes choices in the cache of compiled code
    package: str = ""  # of a package: `network-Net`, its root


class TapPass(CustomGraphPass):
    """Inductor's last pass over a graph: runs the user's own passes, if any, then inserts the taps."""

    def __init__(
        self, users: Any, module: fx.GraphModule, backward: bool, forward_types: Mapping[int, str], choice: Choice
    ) -> None:
        self._users = list(users) if isinstance(users, tuple | list) else [users] if users is not None else []
        self._backward = backward
        self._forward_types = forward_types
        self._choice = choice
        self._source = _fingerprint(module.graph)
        self._inner = [one.graph for one in module.modules() if isinstance(one, fx.GraphModule) and one is not module]

    def __call__(self, graph: fx.Graph) -> None:
        """Called by Inductor."""
        for users in self._users:
            _run_users_pass(users, graph)
        if any(graph is inner for inner in self._inner):
            return  # of a node of the graph, as torch.cond: it has no place for taps
        insert(graph, self._backward, self._forward_types, self._choice)

    def uuid(self) -> Any | None:
        """Part of the key of cached code: names and lines are in the code. None: the user's pass forbids caching."""
        users = [users.uuid() if isinstance(users, CustomGraphPass) else None for users in self._users]
        if any(one is None for one in users):
            return None
        types = sorted(self._forward_types.items())
        return f"sonde-{_FORMAT}-{self._source}-{self._backward}-{types}-{self._choice.key}-{users}"


def insert(graph: fx.Graph, backward: bool, forward_types: Mapping[int, str], choice: Choice) -> Table:
    """Taps for the nodes of `graph` that `choice` wants. Returns the table of all nodes."""
    table = nodes.read_table(graph, backward, forward_types)
    table.package = choice.package
    choice.wants(table)
    for node in table.nodes if choice.by_value else ():
        for one in node.inputs:
            if one.maker is not None:
                one.value, one.maker = table.nodes[one.maker].name, None
    values = [node.meta.get("val") for node in graph.nodes]
    fake = next((value.fake_mode for value in values if hasattr(value, "fake_mode")), None)
    first = next(node for node in graph.nodes if node.op not in ("placeholder", "get_attr"))
    with graph.inserting_before(first):
        order = graph.call_function(torch.ops.aten.full.default, ([1], 0), {"dtype": torch.int64, "device": "cpu"})
        if fake is not None:
            with fake:
                order.meta["val"] = torch.full([1], 0, dtype=torch.int64, device="cpu")
        graph.call_function(torch.ops.sonde.graph.default, (order, table.to_json()))
    by_name = {node.name: node for node in graph.nodes}
    for number, node in enumerate(table.nodes):
        if node.tapped:
            own = by_name[node.name]
            with graph.inserting_after(own):
                tap = graph.call_function(torch.ops.sonde.tap.default, (order, number, [], []))
            if nodes.mutating_operator(own) is not None:
                tap.meta[_NODE] = node.name
    return table


_NODE = "sonde_node"  # of a tap: the name of a node that a later pass replaces
_RESULTS = "sonde_results"  # and then: the name of what each of its results has become


@contextlib.contextmanager
def results_are_followed(graph: fx.Graph) -> Iterator[None]:
    """Around the pass that calls mutating operators: their taps see what becomes of the results. A tap uses them
    meanwhile, since passes change all uses."""
    named = {node.name: node for node in graph.nodes}
    followed = []
    for tap in [node for node in graph.nodes if _NODE in node.meta]:
        own = named.get(tap.meta[_NODE])
        items = [user for user in own.users if user.target is operator.getitem] if own is not None else []
        followed.append((tap, [nodes.output_of(item) for item in items]))
        order, number, *_ = tap.args
        tap.args = (order, number, items, [])
    yield
    for tap, slots in followed:
        order, number, items, _ = tap.args
        tap.meta[_RESULTS] = {slot: item.name for slot, item in zip(slots, items, strict=True)}
        tap.args = (order, number, [], [])


def followed_results(tap: fx.Node) -> dict[int, str]:
    """The nodes that the results of a mutating operator have become, by slot; of any other node nothing."""
    found: dict[int, str] = tap.meta.get(_RESULTS, {})
    return found


def _run_users_pass(users: Any, graph: fx.Graph) -> None:
    from torch._inductor import custom_graph_pass

    aware = getattr(custom_graph_pass, "CustomInferenceAwareGraphPass", None)
    if aware is not None and isinstance(users, aware):
        users(graph, is_inference=not any(node.meta.get("partitioner_tag") for node in graph.nodes))
    else:
        users(graph)


def _fingerprint(graph: fx.Graph) -> str:
    """Of the names and lines in the graph's metadata, which the keys of Inductor's cache leave out."""
    digest = hashlib.sha256()
    for node in graph.nodes:
        stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
        facts = (node.name, node.meta.get("stack_trace"), nodes.module_path(stack), node.meta.get("seq_nr"))
        digest.update(repr((*facts, bool(node.meta.get("sonde_scoped")))).encode())
    return digest.hexdigest()


def strip_scope_markers(graph: fx.Graph) -> bool:
    """Removes what sonde.dump_scope() left in the graph; the nodes inside remember it. True: there were some."""
    depth, found = 0, []
    for node in graph.nodes:
        if nodes.is_scope_marker(node):
            depth = max(0, depth + node.args[0])
            found.append(node)
        elif depth:
            node.meta["sonde_scoped"] = True
    for node in found:
        graph.erase_node(node)
    return bool(found)


def tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among the inputs of a graph."""
    return [value for value in values if isinstance(value, torch.Tensor)]
