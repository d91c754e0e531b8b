"""Graphs that run node by node, and write the tensors of their nodes to files.

`config.debug.data_dump` writes inputs and outputs as .npy; the modes reduce-overhead and npugraph_ex with
`dump_config.enable_dump` write what each node gives as .pt.
"""

import datetime
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import fx

from ..compiled.nodes import is_scope_marker
from ..console import say_once
from ..errors import Error
from .config import _DataDump


def rank_directory() -> str:
    """`worldsize1_global_rank0`, as TorchAir names the directory of a process."""
    world, rank = 1, 0
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world = torch.distributed.get_world_size()
        rank = torch.distributed.get_rank() if world > 1 else 0
    return f"worldsize{world}_global_rank{rank}"


def timestamp() -> str:
    """The time in UTC, to the microsecond: `20260101120000000000`."""
    return datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y%m%d%H%M%S%f")


class DataDumper(fx.Interpreter):
    """Runs a graph node by node. Each run is a step of the graph."""

    def __init__(self, module: fx.GraphModule, options: _DataDump, graph_id: int) -> None:
        super().__init__(module)
        self._filter = options.filter
        self._root = os.path.join(options.path or os.getcwd(), rank_directory(), f"graph_{graph_id}")
        self._step = 0
        self._writes = True  # until a file could not be written

    def __call__(self, *args: Any) -> Any:
        """One step."""
        result = self.run(*args)
        self._step += 1
        return result

    def run_node(self, n: fx.Node) -> Any:
        """Runs a node; writes its inputs before it and its outputs after it."""
        is_operator = n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload)
        if not is_operator or is_scope_marker(n) or not self._takes(n):
            return super().run_node(n)
        time = timestamp()
        arguments, _ = self.fetch_args_kwargs_from_env(n)
        self._write(n, time, _named_inputs(arguments))
        result = super().run_node(n)
        outputs = result if isinstance(result, list | tuple) else [result]
        self._write(n, time, ((f"OUTPUT.{i}", one) for i, one in enumerate(outputs)))
        return result

    def _takes(self, node: fx.Node) -> bool:
        if self._filter is None:
            return True
        taken = self._filter(node)
        if taken is not None and not isinstance(taken, fx.Node):
            raise Error(
                f"debug.data_dump.filter gave {taken!r} for the node {node.name}; expected: the node itself, or None"
            )
        return taken is not None

    def _write(self, node: fx.Node, time: str, named: Iterator[tuple[str, object]]) -> None:
        if not self._writes:
            return
        directory = os.path.join(self._root, str(self._step))
        try:
            os.makedirs(directory, exist_ok=True)
            for name, value in named:
                _save(os.path.join(directory, f"{node.name}-{node.target}.{name}.{time}.npy"), value)
        except OSError as error:
            self._writes = False
            say_once(
                f"sonde: debug.data_dump cannot write the files of {node.name} in {directory}: {error.strerror}; "
                "the files of its graph are missing from here on; free the disk, or set debug.data_dump.path"
            )
        except (TypeError, RuntimeError) as error:  # a type of elements that NumPy lacks
            say_once(f"sonde: debug.data_dump cannot write a tensor of {node.name}, whose file is missing: {error}")


class TensorSaver(fx.Interpreter):
    """Runs a graph node by node, and saves each tensor, those of inputs too: `add_device_0_3.pt` of the fourth run."""

    def __init__(self, module: fx.GraphModule, dump_path: str) -> None:
        super().__init__(module)
        self._root = os.path.join(dump_path, rank_directory())
        self._count = 0
        self._writes = True  # until a file could not be written

    def __call__(self, *args: Any) -> Any:
        """One run."""
        result = self.run(*args)
        self._count += 1
        return result

    def run_node(self, n: fx.Node) -> Any:
        """Runs a node and saves its tensor."""
        result = super().run_node(n)
        if self._writes and n.op != "output" and isinstance(result, torch.Tensor):
            path = os.path.join(self._root, f"{n.name}_device_{result.device.index or 0}_{self._count}.pt")
            try:
                os.makedirs(self._root, exist_ok=True)
                torch.save(result.detach().clone(), f"{path}.partial")
                os.replace(f"{path}.partial", path)
            except (OSError, RuntimeError) as error:  # torch.save raises both
                self._writes = False
                say_once(f"sonde: cannot write '{path}': {error}; the files of its graph are missing from here on")
        return result


def _named_inputs(arguments: tuple[Any, ...]) -> Iterator[tuple[str, object]]:
    for i, one in enumerate(arguments):
        if isinstance(one, list | tuple) and one and isinstance(one[0], torch.Tensor):
            yield from ((f"INPUT.{i}.{j}", item) for j, item in enumerate(one))
        else:
            yield f"INPUT.{i}", one


def _save(path: str, value: object) -> None:
    """Writes the file under another name first, so that it appears as a whole."""
    partial = f"{path}.partial"
    with open(partial, "wb") as file:
        np.save(file, as_numpy(value), allow_pickle=False)
    os.replace(partial, path)


# What NumPy has no type for is written in the next larger type that it has.
_WIDER = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


@functools.cache
def _wider(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_floating_point and dtype.itemsize == 1:
        return torch.float32
    return _WIDER.get(dtype, dtype)


def as_numpy(value: object) -> "np.ndarray[Any, Any]":
    """A tensor, a number or a list of numbers as an array; everything else as its text."""
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        if plain.is_quantized:
            plain = plain.int_repr()
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        return plain.cpu().to(_wider(plain.dtype)).resolve_conj().resolve_neg().numpy()
    numbers = value if isinstance(value, list | tuple) else [value]
    if all(isinstance(one, bool | int | float | complex) for one in numbers):
        return np.array(value)
    return np.array(str(value))
