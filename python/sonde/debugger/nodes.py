"""Graphs, their nodes, and the tensors of these."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from .checks import DebuggerParamTypeError, Numbers, chosen_slots, is_number
from .data import Data, GraphKey
from .model_proto import Slot

# `# In file /a/b.py:12/    code/`, `#  - In file …` for an earlier caller, and the places that newer releases add.
_LINE = re.compile(
    r"#(?:  (?P<mark>.))? (?:inlined:)?In file (?P<file>.+?)"
    r"(?::(?P<line>\d+)|\((?P<old>\d+)\))(?P<place>~\d+)?(?P<columns>,\s*\d+~\d+)?/(?P<code>.*)/"
)


class Source:
    """A line of the stack of a node. Queries by `code_stack` are compared with its `str()`."""

    def __init__(
        self,
        file_path: str = "",
        line_no: int = 0,
        code_line: str = "",
        has_substack: bool = False,
        text: str | None = None,
    ) -> None:
        self.file_path = file_path
        self.line_no = line_no
        self.code_line = code_line
        self.has_substack = has_substack
        self._text = text

    @classmethod
    def of_line(cls, line: str) -> "Source":
        """A line in the form of graph files. The form of MindSpore 1.x and 2.0 is rebuilt, others are unchanged."""
        found = _LINE.search(line)
        if found is None:
            return cls(code_line=line)
        number = int(found["line"] or found["old"])
        plain = found["line"] and not found["place"] and not found["columns"] and "inlined:" not in found[0]
        text = None if plain else line
        return cls(found["file"], number, found["code"].strip(), found["mark"] == "-", text)

    def __str__(self) -> str:
        if self._text is not None:
            return self._text
        if not self.file_path:
            return self.code_line
        return f"# {'-' if self.has_substack else ' '} {self.file_path}:{self.line_no}  {self.code_line}"

    def __repr__(self) -> str:
        known = ("file_path", "line_no", "code_line", "has_substack")
        return str({name: getattr(self, name) for name in known})


class Graph:
    """One graph of one rank. `id`: its number in the dump; `root_id`: that of the graph that runs it."""

    def __init__(
        self, data: Data, rank: int, number: int, *, root_id: int, name: str, iterations: Iterable[int]
    ) -> None:
        self.data = data
        self.rank = rank
        self.id = number
        self.root_id = root_id
        self.name = name
        self.iterations = list(iterations)
        self.nodes: list[Node] = []  # constants, parameters, operators

    @property
    def key(self) -> GraphKey:
        """The key of its tensors."""
        return GraphKey(self.rank, self.id, self.root_id)

    def add(self, node: "Node") -> "Node":
        """Adds a node, and returns it."""
        self.nodes.append(node)
        return node

    def connect(self) -> None:
        """Sets the readers of nodes, after all have their inputs."""
        for node in self.nodes:
            for made in node.inputs:
                if made is not None:
                    made[0].readers.append((made[1], node))


class Node:
    """An operator, parameter or constant of a graph."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        op_type: str,
        *,
        kind: str = "operator",
        short_name: str = "",
        scope: str = "",
        stack: Iterable[Source] = (),
        attributes: Mapping[str, object] | None = None,
        value: object = None,
    ) -> None:
        """`kind`: "operator", "parameter" or "constant"."""
        self._name = name
        self._stack = list(stack)
        # Not shown by the original; used by the modules here.
        self.graph = graph
        self.op_type = op_type
        self.kind = kind
        self.short_name = short_name
        self.file_name = name  # its name in the graph file
        self.scope = scope
        self.attributes = dict(attributes or {})
        self.value = value  # of a constant
        self.outputs: list[Slot] = []
        # (node, slot of its outputs; None: all of them); None if unknown
        self.inputs: list[tuple[Node, int | None] | None] = []
        self.readers: list[tuple[int | None, Node]] = []  # (slot of our outputs, or None, node), in the graph's order

    @property
    def name(self) -> str:
        """Full name, with the scope."""
        return self._name

    @property
    def stack(self) -> list[Source]:
        """Sources, as in the graph file."""
        return self._stack

    @property
    def rank(self) -> int:
        """Number of the rank."""
        return self.graph.rank

    @property
    def root_graph_id(self) -> int:
        """Number of the graph that runs it."""
        return self.graph.root_id

    @property
    def graph_name(self) -> str:
        """Name of its graph."""
        return self.graph.name

    def get_input_tensors(
        self, iterations: Numbers = None, slots: Sequence[int] | None = None
    ) -> "list[DebuggerTensor]":
        """Tensors that it reads: outputs of other nodes. `slots`: of its inputs. Raises DebuggerParamTypeError."""
        wanted, wanted_slots = self._wanted(iterations, slots)
        return [
            DebuggerTensor(maker, made, iteration, (self, slot))
            for slot, maker, made in self._read()
            if wanted_slots is None or slot in wanted_slots
            for iteration in wanted
        ]

    def _read(self) -> "Iterator[tuple[int, Node, int]]":
        """(our slot, the source node, its slot), with tuples expanded."""
        slot = 0
        for source in self.inputs:
            if source is None:  # unknown
                slot += 1
                continue
            maker, made = source
            for each in range(max(len(maker.outputs), 1)) if made is None else (made,):
                yield slot, maker, each
                slot += 1

    def get_output_tensors(
        self, iterations: Numbers = None, slots: Sequence[int] | None = None
    ) -> "list[DebuggerTensor]":
        """Tensors that it makes. Raises DebuggerParamTypeError."""
        wanted, wanted_slots = self._wanted(iterations, slots)
        return [
            DebuggerTensor(self, slot, iteration)
            for slot in range(max(len(self.outputs), 1))
            if wanted_slots is None or slot in wanted_slots
            for iteration in wanted
        ]

    def _wanted(self, iterations: Numbers, slots: Sequence[int] | None) -> tuple[list[int], set[int] | None]:
        known = self.graph.iterations
        if iterations is not None:
            several: list[Any] = list(iterations) if isinstance(iterations, (list, tuple, set, range)) else [iterations]
            for number in several:
                if not is_number(number):
                    raise DebuggerParamTypeError(
                        f"iterations must be int, list[int] or None, not {type(number).__name__}: {iterations!r}"
                    )
            known = [number for number in known if number in several]
        return known, chosen_slots(slots)

    def __str__(self) -> str:
        return f"rank: {self.rank}\ngraph_name: {self.graph_name}\nnode_name: {self.name}"


class DebuggerTensor:
    """An output of a node in one iteration."""

    def __init__(self, node: Node, slot: int, iteration: int, reader: tuple[Node, int] | None = None) -> None:
        self._node = node
        self._slot = slot
        self._iteration = iteration
        self._reader = reader  # of a tensor that a node reads: it may have recorded facts that the producer has not

    @property
    def node(self) -> Node:
        """The node that makes it."""
        return self._node

    @property
    def slot(self) -> int:
        """Its position among the node's outputs, from 0."""
        return self._slot

    @property
    def iteration(self) -> int:
        """Number of the step."""
        return self._iteration

    @property
    def rank(self) -> int:
        """Number of the rank."""
        return self._node.rank

    def value(self) -> NDArray[Any] | None:
        """A read-only NumPy array; None if the dump has no values of it. Raises sonde.Error if they cannot be read."""
        row = self.row()
        tensor = None if row is None else self._node.graph.data.tensor(row)
        return None if tensor is None or tensor.tensor_file is None else tensor.numpy()

    def row(self) -> int | None:
        """Its row in the dump's table of tensors; None if it has none."""
        graph = self._node.graph
        row = graph.data.find(graph.key, self._node.name, self._iteration, False, self._slot)
        if row is None and self._reader is not None:
            reader, slot = self._reader
            row = graph.data.find(graph.key, reader.name, self._iteration, True, slot)
        return row

    def __str__(self) -> str:
        return f"{self._node}\nslot: {self._slot}\niteration: {self._iteration}"
