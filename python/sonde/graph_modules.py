"""Places in an FX graph that runs as generated code: the nodes of an exported program (`ep.module()`) know the modules
and the lines of the model that it was made from."""

import os
import re

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

# Innermost first: (file, line, function, the line's text or "").
Lines = list[tuple[str, int, str, str]]

_PLAIN_CONTAINERS = {"Sequential", "ModuleList", "ModuleDict"}
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_OPTIMIZERS = os.path.join(_TORCH, "optim", "")
_FRAME = re.compile(r'File "(.+)", line (\d+), in (.+)(?:\n[ \t]*(?!File ")(.*))?')


def place_in_graph(module: nn.Module, line: int) -> tuple[str, Lines, bool] | None:
    """The scope below the graph's root, and the lines, of the node in a line of the graph's code, counted from its
    `def`; and whether it is part of an Optimizer.step. None where the graph does not know."""
    if not issubclass(type(module), GraphModule):
        return None
    number = (vars(module).get("_lineno_map") or {}).get(line)
    nodes = _nodes(module)
    if number is None or not 0 <= number < len(nodes):
        return None
    levels = _levels(nodes[number])
    if not levels:  # of Dynamo, for another backend than Inductor: the modules around it are called as usual
        lines, steps = _lines(nodes[number]), is_of_optimizer(nodes[number])
        if steps and all(file.startswith(_TORCH) for file, *_ in lines):
            lines.clear()  # Optimizer.step itself is compiled: the user's line is the one that called it
        return ("", lines, steps) if lines or steps else None
    parts, parent = [], ""
    for path, kind in levels[1:]:
        if not path.startswith(parent):
            return None  # the caller is not the module that contains it
        name = path[len(parent) :].replace(".", "/")
        parts.append(name if kind in _PLAIN_CONTAINERS else f"{name}-{kind}")
        parent = f"{path}."
    return "/".join(parts), _lines(nodes[number]), False


def exported_class(module: nn.Module) -> str:
    """The class of the model that a graph was made from; "" where the graph does not know."""
    if not issubclass(type(module), GraphModule):
        return ""
    levels = next(filter(None, map(_levels, _nodes(module))), None)
    return levels[0][1] if levels else ""


def is_of_optimizer(node: Node) -> bool:
    """True if Dynamo has met the node in the code of PyTorch's optimizers."""
    return _OPTIMIZERS in (node.meta.get("stack_trace") or "")


def _nodes(module: nn.Module) -> list[Node]:
    graph: Graph = module.graph  # type: ignore[assignment]
    return list(graph.nodes)


def _levels(node: Node) -> list[tuple[str, str]]:
    """(path, class) of the modules around a node, outermost first: `("", "Net"), ("block.conv", "Conv2d")`. Empty where
    the outermost is not the exported model itself."""
    stack = node.meta.get("nn_module_stack")
    levels = []
    for path, kind in (stack or {}).values():
        name = kind if isinstance(kind, str) else kind.__name__
        levels.append((str(path), name.rpartition(".")[2]))
    return levels if levels and levels[0][0] == "" else []


def _lines(node: Node) -> Lines:
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    found = [(file, int(line), function, text) for file, line, function, text in frames]
    found.reverse()
    while len(found) > 1 and found[0][0].startswith(_TORCH):
        del found[0]
    return found
