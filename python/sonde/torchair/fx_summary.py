"""`config.debug.fx_summary`: a table of the operators of a graph, with the types and shapes they are called with.

Its words are TorchAir's: target, kind, state of support, number of calls, inputs, outputs.
"""

import collections
import csv
import os
from typing import Any

import torch
from torch import fx

from .fx_graph import nodes_of

_COLUMNS = ("目标函数", "函数类型", "支持状态", "调用次数", "输入统计", "输出统计")
_SUPPORTED = "已支持"  # every operator runs here


def write_summary(path: str, graph: fx.Graph) -> None:
    """Writes the table. Raises OSError."""
    with open(f"{path}.partial", "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        writer.writerows(summary(graph))
    os.replace(f"{path}.partial", path)


def summary(graph: fx.Graph) -> list[list[str]]:
    """A row for each target, in the order of first calls."""
    inputs: dict[Any, collections.Counter[str]] = {}
    outputs: dict[Any, collections.Counter[str]] = {}
    for node in nodes_of(graph):
        if node.op != "call_function":
            continue
        arguments = ", ".join(_shown(one) for one in node.args) + ("," if len(node.args) == 1 else "")
        named = ", ".join(f"'{key}': {_shown(one)}" for key, one in node.kwargs.items())
        text = f"({arguments})" + (f", {{{named}}}" if named else "")
        inputs.setdefault(node.target, collections.Counter())[text] += 1
        outputs.setdefault(node.target, collections.Counter())[_shown(node)] += 1
    return [
        [_name(target), _kind(target), _SUPPORTED, str(count.total()), _counted(count), _counted(outputs[target])]
        for target, count in inputs.items()
    ]


def _counted(texts: "collections.Counter[str]") -> str:
    return "\n".join(f"{count}次：{text}" for text, count in texts.most_common())


def _kind(target: object) -> str:
    if not isinstance(target, torch._ops.OpOverload):
        return "builtin"
    return target.namespace


def _name(target: object) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"built-in function {getattr(target, '__name__', target)}"


def _shown(value: object) -> str:
    """`float32(2, 3)` of a tensor."""
    if isinstance(value, fx.Node):
        return _shown(value.meta["val"]) if "val" in value.meta else value.name
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(str, value.shape)) + ("," if value.dim() == 1 else "")
        return f"{str(value.dtype).removeprefix('torch.')}({sizes})"
    if isinstance(value, list):
        return f"[{', '.join(_shown(one) for one in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(_shown(one) for one in value)})"
    return str(value)
