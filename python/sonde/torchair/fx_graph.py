"""An FX graph as GE's."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import fx

from ..compiled.nodes import is_scope_marker
from ..ge.graph import Description, GeGraph, Operator, Value

# Of an FX node: the operator and the number of its output. Nodes without tensors have none.
_Sources: TypeAlias = dict[fx.Node, str]


def ge_graph(name: str, graph: fx.Graph) -> GeGraph:
    """The operators of an FX graph. Items of a result with several outputs (`getitem`) belong to its operator."""
    made = GeGraph(name)
    sources: _Sources = {}
    data = 0
    for node in nodes_of(graph):
        if is_item(node):
            maker = sources[node.all_input_nodes[0]].rpartition(":")[0]
            sources[node] = f"{maker}:{node.args[1]}"
            continue
        if node.op == "output":
            made.operators.append(_net_output(node, sources))
            continue
        operator = _operator(node, sources)
        if node.op == "placeholder":
            operator.attributes = {"index": data}
            data += 1
        made.operators.append(operator)
        sources[node] = f"{operator.name}:0"
    return made


# --- operators --------------------------------------------------------------------------------------------------------


def _operator(node: fx.Node, sources: _Sources) -> Operator:
    operator = Operator(node.name, type_of(node))
    for key, value in _arguments(node):
        tensors = [one for one in flat(value) if isinstance(one, fx.Node) and one in sources]
        if not tensors:
            if value is not None:
                operator.attributes[key] = _value(value)
            continue
        for n, one in enumerate(tensors):
            operator.inputs.append(sources[one])
            described = _described(key if len(tensors) == 1 else f"{key}_{n}", value_of(one))
            operator.input_descriptions.append(described)
    outputs = outputs_of(node)
    for n, tensor in enumerate(outputs):
        described = _described("y" if len(outputs) == 1 else f"y{n}", tensor)
        if node.op == "call_function":
            described.attributes["_fx_tensor_name"] = f"{node.name}-{node.target}.OUTPUT.{n}"
        if isinstance(tensor, torch.Tensor):
            described.attributes["_meta"] = f"Tensor(dtype={tensor.dtype}, shape={tensor.shape})"
        operator.output_descriptions.append(described)
    return operator


def _net_output(node: fx.Node, sources: _Sources) -> Operator:
    operator = Operator("NetOutput", "NetOutput")
    for n, one in enumerate(flat(node.args[0])):
        if isinstance(one, fx.Node) and one in sources:
            operator.inputs.append(sources[one])
            operator.input_descriptions.append(_described(f"x{n}", value_of(one)))
    return operator


def type_of(node: fx.Node) -> str:
    """The type of its operator: `add`."""
    if node.op == "placeholder":
        return "Data"
    if node.op == "get_attr":
        return "Const"
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name.partition("::")[2]
    return getattr(node.target, "__name__", str(node.target))


def _arguments(node: fx.Node) -> Iterator[tuple[str, Any]]:
    """The arguments of a node with their names."""
    if node.op != "call_function":
        return
    names: list[str] = []
    if isinstance(node.target, torch._ops.OpOverload):
        names = [one.name for one in node.target._schema.arguments]
    names += [f"x{n}" for n in range(len(names), len(node.args))]
    yield from zip(names, node.args, strict=False)
    yield from node.kwargs.items()


def outputs_of(node: fx.Node) -> list[Any]:
    """The values of the node, as fake tensors and symbols."""
    meta = value_of(node)
    return list(meta) if isinstance(meta, list | tuple) else [meta] if meta is not None else []


def value_of(node: fx.Node) -> Any:
    """Its value, as PyTorch traced it: a fake tensor, a list, a symbol; None if unknown."""
    return node.meta.get("val")


def _described(name: str, meta: object) -> Description:
    if isinstance(meta, torch.Tensor):
        dtype = str(meta.dtype).removeprefix("torch.")
        return Description(name, dtype, [size if isinstance(size, int) else -1 for size in meta.shape])
    kinds = ((bool | torch.SymBool, "bool"), (int | torch.SymInt, "int64"), (float | torch.SymFloat, "float64"))
    return Description(name, next((dtype for kind, dtype in kinds if isinstance(meta, kind)), ""))


def nodes_of(graph: fx.Graph) -> Iterator[fx.Node]:
    """The nodes, without the marks that scope.data_dump() leaves."""
    return (node for node in graph.nodes if not is_scope_marker(node))


def is_item(node: fx.Node) -> bool:
    """True for an item of a result with several outputs."""
    return (
        node.op == "call_function"
        and getattr(node.target, "__name__", "") == "getitem"
        and isinstance(node.args[0], fx.Node)
        and isinstance(value_of(node.args[0]), list | tuple)
    )


def flat(value: object) -> list[Any]:
    """The items of nested lists."""
    return [one for item in value for one in flat(item)] if isinstance(value, list | tuple) else [value]


def _value(value: object) -> Value:
    """An argument that is not a tensor, as an attribute."""
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    return value if isinstance(value, bool | int | float | str) else str(value)
