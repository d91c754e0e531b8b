"""An FX graph as the Python text of TorchAir's graph_dump `py`."""

import os
import re

import torch
from torch import fx

from .fx_graph import flat, is_item, nodes_of, outputs_of, type_of, value_of

_HEAD = """\
# -*- coding: utf-8 -*-
from torch import tensor
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import get_default_ge_graph
"""
_SONDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")  # --npu-stand-in is in stacks
_CODE_LINE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def python_text(graph: fx.Graph) -> str:
    """A line `Op_0 = ge.Op(...)` for each operator, below its FX node and the source line that it comes from."""
    writer = _Writer()
    for node in nodes_of(graph):
        writer.add(node)
    return "\n".join([_HEAD, *writer.lines]) + "\n"


class _Writer:
    """Collects the lines of the operators."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._results: dict[fx.Node, str] = {}  # the names of what the nodes give
        self._place = ""  # the source line that was written last
        self._inputs = 0

    def add(self, node: fx.Node) -> None:
        """The next node."""
        if is_item(node):
            maker = self._results[node.all_input_nodes[0]]
            self._results[node] = f"{maker.removesuffix('_0')}_{node.args[1]}"
        elif node.op == "output":
            results = ", ".join(self._argument(one) for one in flat(node.args[0]))
            self.lines += ["", f"_ = ge.NetOutput([{results}], dependencies=[])"]
        else:
            self._results[node] = f"{node.name}_0"
            self._add_operator(node)

    def _add_operator(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            arguments = [f"index={self._inputs}", *_described(node)]
            self._inputs += 1
        else:
            self._add_origin(node)
            arguments = [self._argument(one) for one in node.args]
            arguments += [f"{key}={self._argument(one)}" for key, one in node.kwargs.items()]
        results = ", ".join(f"{node.name}_{n}" for n in range(max(1, len(outputs_of(node)))))
        arguments.append(f'node_name="{node.name}"')
        self.lines.append(f"{results} = ge.{type_of(node)}({', '.join(arguments)})")

    def _add_origin(self, node: fx.Node) -> None:
        place = _place(node)
        if place and place != self._place:
            self.lines += ["", place]
            self._place = place
        self.lines.append(f"## FX Code: {_code(node)}")

    def _argument(self, value: object) -> str:
        if isinstance(value, list | tuple):
            return f"[{', '.join(self._argument(one) for one in value)}]"
        if isinstance(value, fx.Node):
            return self._results.get(value, value.name)
        return repr(value) if isinstance(value, bool | int | float | str | None) else repr(str(value))


def _place(node: fx.Node) -> str:
    """The innermost source line that made the node, as a comment."""
    text = node.meta.get("stack_trace") or ""
    places = [place for place in _CODE_LINE.finditer(text) if not place["file"].startswith(_SONDE)]
    if not places:
        return ""
    last = places[-1]
    code = [line.strip() for line in text[last.end() :].splitlines() if line.strip(" ^~")]
    where = f'# File "{last["file"]}", line {last["line"]}, in {last["function"]}'
    return f"{where} {code[0]}" if code else where


def _code(node: fx.Node) -> str:
    arguments = [_with_type(one) for one in node.args] + [
        f"{key}={_with_type(one)}" for key, one in node.kwargs.items()
    ]
    target = f"torch.ops.{node.target}" if isinstance(node.target, torch._ops.OpOverload) else type_of(node)
    return f"{_with_type(node)} = {target}({', '.join(arguments)})"


def _with_type(value: object) -> str:
    """`add: torch.float32[2, 2]cpu` of a node with a tensor."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_with_type(one) for one in value)}]"
    if not isinstance(value, fx.Node):
        return repr(value)
    meta = value_of(value)
    if not isinstance(meta, torch.Tensor):
        return value.name
    return f"{value.name}: {meta.dtype}[{', '.join(map(str, meta.shape))}]{meta.device}"


def _described(node: fx.Node) -> list[str]:
    meta = value_of(node)
    if not isinstance(meta, torch.Tensor):
        return []
    sizes = [size if isinstance(size, int) else -1 for size in meta.shape]
    return [f'dtype="{meta.dtype}"', f"shape={sizes}", f'placement="{meta.device.type.upper()}"']
