"""Nodes of a graph, and their tensors."""

import re

from .checks import DebuggerParamTypeError, chosen_slots, is_number

# `# In file /a/b.py:12/    code/`, `#  - In file …` where what it calls follows, and the places newer releases add.
_LINE = re.compile(
    r"#(?:  (?P<mark>.))? (?:inlined:)?In file (?P<file>.+?)"
    r"(?::(?P<line>\d+)|\((?P<old>\d+)\))(?P<place>~\d+)?(?P<columns>,\s*\d+~\d+)?/(?P<code>.*)/"
)


class Source:
    """A line of the stack of a node. `str()` is what queries by `code_stack` are held against."""

    def __init__(self, file_path="", line_no=0, code_line="", has_substack=False, text=None):
        self.file_path = file_path
        self.line_no = line_no
        self.code_line = code_line
        self.has_substack = has_substack
        self._text = text

    @classmethod
    def of_line(cls, line):
        """A line as graph files have it. The form of MindSpore 1.x and 2.0 is printed anew, others as they stand."""
        found = _LINE.search(line)
        if found is None:
            return cls(code_line=line)
        number = int(found["line"] or found["old"])
        plain = found["line"] and not found["place"] and not found["columns"] and "inlined:" not in found[0]
        text = None if plain else line
        return cls(found["file"], number, found["code"].strip(), found["mark"] == "-", text)

    def __str__(self):
        if self._text is not None:
            return self._text
        if not self.file_path:
            return self.code_line
        return f"# {'-' if self.has_substack else ' '} {self.file_path}:{self.line_no}  {self.code_line}"

    def __repr__(self):
        known = ("file_path", "line_no", "code_line", "has_substack")
        return str({name: getattr(self, name) for name in known})


class Node:
    """An operator, parameter or constant of a graph."""

    def __init__(
        self, graph, name, op_type, *, kind="operator", short_name="", scope="", stack=(), attributes=None, value=None
    ):
        self._graph = graph
        self._name = name
        self._type = op_type
        self._kind = kind
        self._short_name = short_name
        self._scope = scope
        self._stack = list(stack)
        self._attributes = attributes or {}
        self._value = value
        self._outputs = []  # (type, shape) of each slot; None for what is no tensor
        self._inputs = []  # (node, slot of its outputs; None: all of them); None where nothing is known
        self._readers = []  # (slot of our outputs, or None, node), in the order of the graph

    @property
    def name(self):
        """Full name, with the scope."""
        return self._name

    @property
    def stack(self):
        """Sources, as the graph file has them."""
        return self._stack

    @property
    def rank(self):
        return self._graph.rank

    @property
    def root_graph_id(self):
        return self._graph.root_id

    @property
    def graph_name(self):
        return self._graph.name

    def get_input_tensors(self, iterations=None, slots=None):
        """Tensors that it reads: outputs of other nodes. `slots`: of its inputs."""
        iterations, slots = self._wanted(iterations, slots)
        return [
            DebuggerTensor(maker, made, iteration, (self, slot))
            for slot, maker, made in self._read()
            if slots is None or slot in slots
            for iteration in iterations
        ]

    def _read(self):
        """(our slot, the node it comes from, its slot), tuples laid out."""
        slot = 0
        for source in self._inputs:
            if source is None:  # nothing is known of it
                slot += 1
                continue
            maker, made = source
            for each in range(max(len(maker._outputs), 1)) if made is None else (made,):
                yield slot, maker, each
                slot += 1

    def get_output_tensors(self, iterations=None, slots=None):
        iterations, slots = self._wanted(iterations, slots)
        return [
            DebuggerTensor(self, slot, iteration)
            for slot in range(max(len(self._outputs), 1))
            if slots is None or slot in slots
            for iteration in iterations
        ]

    def _wanted(self, iterations, slots):
        known = self._graph.iterations
        if iterations is not None:
            several = list(iterations) if isinstance(iterations, (list, tuple, set, range)) else [iterations]
            for number in several:
                if not is_number(number):
                    raise DebuggerParamTypeError(
                        f"iterations must be int, list[int] or None, not {type(number).__name__}: {iterations!r}"
                    )
            known = [number for number in known if number in several]
        return known, chosen_slots(slots)

    def __str__(self):
        return f"rank: {self.rank}\ngraph_name: {self.graph_name}\nnode_name: {self.name}"


class DebuggerTensor:
    """An output of a node in one iteration."""

    def __init__(self, node, slot, iteration, reader=None):
        self._node = node
        self._slot = slot
        self._iteration = iteration
        self._reader = reader  # of a tensor that a node reads: it may have recorded what its maker has not

    @property
    def node(self):
        return self._node

    @property
    def slot(self):
        return self._slot

    @property
    def iteration(self):
        return self._iteration

    @property
    def rank(self):
        return self._node.rank

    def value(self):
        """A NumPy array that cannot be written to; None when the dump has no values of it."""
        row = self._row()
        tensor = None if row is None else self._node._graph.data.tensor(row)
        return None if tensor is None or tensor.file is None else tensor.numpy()

    def _row(self):
        """Of the dump's table of tensors; None when it has none."""
        graph = self._node._graph
        row = graph.data.find(graph, self._node.name, self._iteration, False, self._slot)
        if row is None and self._reader is not None:
            reader, slot = self._reader
            row = graph.data.find(graph, reader.name, self._iteration, True, slot)
        return row

    def __str__(self):
        return f"{self._node}\nslot: {self._slot}\niteration: {self._iteration}"
