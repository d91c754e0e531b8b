"""The nodes of an FX graph as Sonde records them: name, type, module path, source lines, phase and data flow.

A graph comes from AOTAutograd: operators of ATen, forward or backward. Its metadata says for each node which module and
line it comes from. A table of nodes can be written as JSON: the compiled code carries it, also in caches.

    table = read_table(graph_module.graph, backward=False)
    text = table.to_json()
"""

import base64
import dataclasses
import json
import operator
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ..graph_modules import is_of_optimizer

Line = tuple[str, int, str]  # file, line, function

# sonde.h, enum sonde_phase
FORWARD, BACKWARD, OPTIMIZER, OUTSIDE, RECOMPUTE = range(5)

# Containers that only hold modules: their level in a name is the attribute alone, as in module_names.py.
_PLAIN_CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")

# Names of element types and their numbers in sonde.h, enum sonde_dtype.
DTYPES = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint8": 6, "uint16": 7, "uint32": 8, "uint64": 9,
    "float16": 10, "float32": 11, "float64": 12, "bfloat16": 13, "float8_e4m3fn": 14, "float8_e5m2": 15,
    "float8_e4m3fnuz": 16, "float8_e5m2fnuz": 17, "float8_e8m0fnu": 18, "complex32": 19, "complex64": 20,
    "complex128": 21, "qint8": 22, "quint8": 23, "qint32": 24,
}  # fmt: skip


@dataclasses.dataclass
class Attribute:
    """An argument that is not a tensor; `kind` is of sonde.h, enum sonde_attribute_kind."""

    name: str
    kind: int
    integers: list[int] = dataclasses.field(default_factory=list)
    reals: list[float] = dataclasses.field(default_factory=list)
    text: str = ""


@dataclasses.dataclass
class Input:
    """A tensor argument at `slot`: output `output` of node `maker`, or, with None, of a value from outside: `value` is
    the name of its node in the graph (an input of the graph, or a constant)."""

    slot: int
    maker: int | None = None
    output: int = 0
    value: str = ""


@dataclasses.dataclass
class Output:
    """A result: its element type, and its shape where it is known before the run. `used`: by some node."""

    dtype: str
    shape: list[int]
    used: bool = True


@dataclasses.dataclass
class Node:
    """One operator of the graph."""

    name: str  # in the graph: `addmm_1`
    op_type: str  # `addmm`
    phase: int
    root: str  # the variable that holds the outermost module: `self`; empty: no module
    path: list[tuple[str, str]]  # (attribute, class) from there: [("fc1", "Linear")]
    trace: int  # number of its source lines in the table
    seq_nr: int  # of autograd; equal for a node and those that differentiate it; -1: none
    forward_type: str  # of a backward node: the type of operator that it differentiates; empty: unknown
    is_view: bool
    inputs: list[Input]
    outputs: list[Output]
    attributes: list[Attribute]
    scoped: bool = False  # inside sonde.dump_scope()
    tapped: bool = True
    # Types of operators that the program called and that are not in the graph: this node computes a part of them.
    part_of: list[str] = dataclasses.field(default_factory=list)

    @property
    def scope(self) -> str:
        """The scope below the module that holds it: `features/0-Conv2d`."""
        return scope_of_path(self.path)


@dataclasses.dataclass
class Table:
    """All nodes of one graph, in its order."""

    backward: bool
    nodes: list[Node]
    traces: list[list[Line]]  # each innermost first
    # The fused kernels that compute a node, by its name.
    kernels: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    package: str = ""  # of a package: the name of its root, `network-Net`
    # The values that the graph returns and that a node makes: (position, number of the node, its output).
    results: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)

    def to_json(self) -> str:
        """As the compiled code carries it. Its kernels are known when all of it is generated: see with_kernels()."""
        return json.dumps(dataclasses.asdict(self) | {"kernels": _KERNELS}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Table":
        """The reverse of to_json(), also as C++ carries it."""
        raw = json.loads(text if text.startswith("{") else base64.b64decode(text))
        nodes = [
            Node(
                **node
                | {
                    "path": [tuple(level) for level in node["path"]],
                    "inputs": [Input(**one) for one in node["inputs"]],
                    "outputs": [Output(**one) for one in node["outputs"]],
                    "attributes": [Attribute(**one) for one in node["attributes"]],
                }
            )
            for node in raw["nodes"]
        ]
        traces = [[(file, line, function) for file, line, function in trace] for trace in raw["traces"]]
        kernels = raw["kernels"]
        results = [(position, node, output) for position, node, output in raw["results"]]
        kernels = kernels if isinstance(kernels, dict) else {}
        return Table(raw["backward"], nodes, traces, kernels, raw["package"], results)


_KERNELS = "kernels of this graph"
IN_CPP = "table of this graph"  # generated C++ has this text: Inductor writes quotes into a string as they are


def with_kernels(code: str, table: Table) -> str:
    """Compiled code that carries `table`, whose kernels are known now."""
    kernels = json.dumps(table.kernels, separators=(",", ":"))
    if IN_CPP in code:
        text = table.to_json().replace(json.dumps(_KERNELS), kernels)
        return code.replace(IN_CPP, base64.b64encode(text.encode()).decode())
    return code.replace(json.dumps(_KERNELS), kernels)


def facts_of(
    table: Table, node: Node
) -> tuple[list[tuple[int, int, int]], list[tuple[bool, int, list[int]]], list[tuple[Any, ...]]]:
    """As the adapter takes them: inputs (slot, maker, output), outputs (given, type, shape) and attributes (name, kind,
    integers, reals, text)."""
    inputs = [(one.slot, -1 if one.maker is None else one.maker, one.output) for one in node.inputs]
    outputs = [
        (node.tapped and one.used, DTYPES.get(one.dtype, 0), one.shape if one.dtype else []) for one in node.outputs
    ]
    attributes: list[tuple[Any, ...]] = [(a.name, a.kind, a.integers, a.reals, a.text) for a in node.attributes]
    if node.name in table.kernels:
        attributes.append(("fused_kernel", 4, [], [], ", ".join(table.kernels[node.name])))
    return inputs, outputs, attributes


def scope_of_path(path: Sequence[tuple[str, str]]) -> str:
    """`features/0-Conv2d` of [("features", "Sequential"), ("0", "Conv2d")]."""
    return "/".join(name if kind in ("", *_PLAIN_CONTAINERS) else f"{name}-{kind}" for name, kind in path)


def recorded_nodes(graph: fx.Graph) -> Iterator[fx.Node]:
    """The nodes that are operators with a tensor as result. Items of a tuple belong to the node that makes it."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem and _makes_tensors(node):
            yield node


def read_table(graph: fx.Graph, backward: bool, forward_types: Mapping[int, str] | None = None) -> Table:
    """The nodes of `graph`. `forward_types`: of the graph that this one differentiates, by sequence number."""
    table = Table(backward, [], [])
    places: dict[str, int] = {}  # node -> its number in the table
    traces: dict[str, int] = {}
    scopes = 0
    recorded = {node.name for node in recorded_nodes(graph)}
    for node in graph.nodes:
        if is_scope_marker(node):
            scopes = max(0, scopes + node.args[0])
        if node.name not in recorded:
            continue
        text = node.meta.get("stack_trace") or ""
        trace = traces.setdefault(text, len(traces))
        if trace == len(table.traces):
            table.traces.append(source_lines(text))
        one = _node(node, backward, forward_types or {}, places, trace)
        one.scoped = scopes > 0 or bool(node.meta.get("sonde_scoped"))
        places[node.name] = len(table.nodes)
        table.nodes.append(one)
    table.results = _results(graph, table, places)
    return table


def _results(graph: fx.Graph, table: Table, places: Mapping[str, int]) -> list[tuple[int, int, int]]:
    (returned,) = graph.output_node().args
    values = returned if isinstance(returned, list | tuple) else [returned]
    found = []
    for position, value in enumerate(values):
        one = _input(0, value, places) if isinstance(value, fx.Node) else Input(0, None)
        if one.maker is not None:
            found.append((position, one.maker, one.output))
    return found


def forward_types_of(table: Table) -> dict[int, str]:
    """The type of operator of each sequence number: what a backward node with this number differentiates."""
    types: dict[int, str] = {}
    for node in table.nodes:
        if node.seq_nr >= 0 and (node.seq_nr not in types or not node.is_view):
            types[node.seq_nr] = node.op_type
    return types


def is_scope_marker(node: fx.Node) -> bool:
    """True for the node that sonde.dump_scope() leaves in a graph."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.name == "sonde::dump_scope"


def mutating_operator(node: fx.Node) -> Any | None:
    """The operator that such a node calls; None for all other nodes. Until Inductor's last passes, what it writes are
    results, after its own ones."""
    if getattr(node.target, "_name", "") not in ("auto_functionalized", "auto_functionalized_v2") or not node.args:
        return None
    return node.args[0] if getattr(node.args[0], "_schema", None) is not None else None


def output_of(item: fx.Node) -> int:
    """The output that `getitem` takes. The first result of a mutating operator that returns nothing is None."""
    source, index = item.args[:2]
    if not isinstance(index, int) or not isinstance(source, fx.Node):
        return 0
    return index - _without_results(source)


def _without_results(node: fx.Node) -> bool:
    mutating = mutating_operator(node)
    return mutating is not None and not mutating._schema.returns


def op_type_of(target: Any) -> str:
    """`addmm` of torch.ops.aten.addmm.default; of other functions their name."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        return str(schema.name).rpartition("::")[2]
    name = getattr(target, "_name", None) or getattr(target, "__name__", None)
    return str(name or type(target).__name__)


_FRAME = re.compile(r'^\s*File "(.*)", line (\d+), in (.*)$')


def source_lines(stack_trace: str) -> list[Line]:
    """The lines of a traceback's text, innermost first. PyTorch's own are left out where there are others."""
    lines: list[Line] = []
    for line in stack_trace.splitlines():
        match = _FRAME.match(line)
        if match:
            lines.append((match[1], int(match[2]), match[3]))
    lines.reverse()
    users = [line for line in lines if not is_pytorch(line[0])]
    return users or lines


_TORCH = torch.__file__.rpartition("/")[0] + "/"


def is_pytorch(file: str) -> bool:
    """True for a file of PyTorch."""
    return file.startswith(_TORCH)


_SONDE = __file__.rpartition("/compiled/")[0] + "/"


def lines_of_program() -> list[Line]:
    """Those that run now, innermost first, without PyTorch's and ours."""
    lines: list[Line] = []
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_pytorch(file) and not file.startswith(_SONDE):
            lines.append((file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return lines


def module_path(stack: Mapping[str, Any] | None) -> tuple[str, list[tuple[str, str]]]:
    """(variable, [(attribute, class)]) of a node's `nn_module_stack`: the path to the innermost module."""
    classes: dict[tuple[str, ...], str] = {}
    root = ""
    names: tuple[str, ...] = ()
    for path, kind in (stack or {}).values():
        root, names = module_place(str(path))
        classes[names] = kind.rpartition(".")[2] if isinstance(kind, str) else getattr(kind, "__name__", "")
    return root, [(name, classes.get(names[: i + 1], "")) for i, name in enumerate(names)]


_GETATTR = re.compile(r"getattr\((.+?), '([^']*)'\)")
_ROOT = re.compile(r"^(?:[LG]\[['\"]([^'\"]+)['\"]\]|L__([A-Za-z]\w*?)(?=\.|\[|$))")
_STEP = re.compile(r"\.([A-Za-z_0-9]\w*)|\[['\"]?([^\]'\"]+)['\"]?\]")


def module_place(path: str) -> tuple[str, tuple[str, ...]]:
    """("self", ("blocks", "0")) of `L['self'].blocks.0`; ("", ("blocks",)) of `blocks`, as torch.export writes it."""
    while _GETATTR.search(path):
        path = _GETATTR.sub(r"\1.\2", path)
    match = _ROOT.match(path)
    root = (match[1] or match[2]) if match else ""
    rest = path[match.end() :] if match else f".{path}" if path else ""
    names = [step[0] or step[1] for step in _STEP.findall(rest)]
    return root, tuple(name for name in names if name not in ("_modules", "__self__", "__func__", "_orig_mod"))


def _node(node: fx.Node, backward: bool, types: Mapping[int, str], places: Mapping[str, int], trace: int) -> Node:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    root, path = module_path(stack)
    tag = node.meta.get("partitioner_tag")
    # In the graph of backward: a node of the forward, which runs again instead of being kept.
    again = backward and (tag == "is_forward" or (tag is None and bool(node.meta.get("nn_module_stack"))))
    sequence = node.meta.get("seq_nr")
    inputs, attributes = _arguments(node, places)
    return Node(
        name=node.name,
        op_type=op_type_of(mutating_operator(node) or node.target),
        phase=OPTIMIZER if is_of_optimizer(node) else RECOMPUTE if again else BACKWARD if backward else FORWARD,
        root=root,
        path=path,
        trace=trace,
        seq_nr=sequence if isinstance(sequence, int) else -1,
        forward_type=types.get(sequence, "") if backward and not again and isinstance(sequence, int) else "",
        is_view=is_view(node.target),
        inputs=inputs,
        outputs=_outputs(node),
        attributes=attributes,
        part_of=_part_of(node),
    )


def _part_of(node: fx.Node) -> list[str]:
    """["native_layer_norm", "layer_norm"]: the operator of ATen that was decomposed, the function that Dynamo met."""
    original = node.meta.get("original_aten")
    functions = node.meta.get("source_fn_stack") or []
    names = [op_type_of(original)] if original is not None else []
    names += [re.sub(r"_\d+$", "", str(functions[-1][0]))] if functions else []
    return [name for name in dict.fromkeys(names) if name != op_type_of(node.target)]


def is_view(target: Any) -> bool:
    """True if the function's result may be memory of its first argument."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.returns:
        return False
    alias = schema.returns[0].alias_info
    return (alias is not None and not alias.is_write) or op_type_of(target) in ("reshape", "_reshape_alias")


def _values(node: fx.Node) -> list[Any]:
    """The tensors that a node makes, as far as its metadata says; None for results of other kinds."""
    value = node.meta.get("val", node.meta.get("example_value"))
    if value is None:
        schema = getattr(node.target, "_schema", None)
        return [True] if schema is not None and any(str(r.type) == "Tensor" for r in schema.returns) else []
    values = list(value) if isinstance(value, tuple | list) else [value]
    if _without_results(node):
        values = values[1:]
    return [one if isinstance(one, torch.Tensor) else None for one in values]


def _makes_tensors(node: fx.Node) -> bool:
    return any(value is not None for value in _values(node))


def _outputs(node: fx.Node) -> list[Output]:
    values = _values(node)
    several = isinstance(node.meta.get("val"), tuple | list)
    taken = {output_of(user) for user in node.users if user.target is operator.getitem} if several else {0}
    outputs = []
    for number, value in enumerate(values):
        known = isinstance(value, torch.Tensor)
        dtype = str(value.dtype).removeprefix("torch.") if known else ""
        sizes = list(value.shape) if known else []
        shape = sizes if all(isinstance(size, int) for size in sizes) else []
        outputs.append(Output(dtype, shape, value is not None and number in taken))
    return outputs


def _arguments(node: fx.Node, places: Mapping[str, int]) -> tuple[list[Input], list[Attribute]]:
    """Tensors by their slot, as the adapter counts them: lists are flattened, None keeps its place."""
    inputs: list[Input] = []
    attributes: list[Attribute] = []
    slot = 0
    for name, value, is_tensor in _named_arguments(node):
        is_number = type(value) in _KIND_OF  # where eager code wraps it as a tensor
        if not is_tensor or is_number:
            attributes.append(_attribute(name, value))
            slot += is_tensor
            continue
        for one in value if isinstance(value, tuple | list) else [value]:
            if isinstance(one, fx.Node) and _is_tensor(one):
                inputs.append(_input(slot, one, places))
            slot += 1
    return inputs, attributes


def _named_arguments(node: fx.Node) -> Iterator[tuple[str, Any, bool]]:
    """(name, value, whether it is a tensor or a list of tensors) in the order of the schema."""
    mutating = mutating_operator(node)
    schema = getattr(mutating or node.target, "_schema", None)
    if schema is None:
        for number, value in enumerate([*node.args, *node.kwargs.values()]):
            flat = value if isinstance(value, tuple | list) else [value]
            yield str(number), value, bool([one for one in flat if isinstance(one, fx.Node) and _is_tensor(one)])
        return
    for number, argument in enumerate(schema.arguments):
        if mutating is not None:
            value = _given_to(node, argument.name)
        elif number < len(node.args):
            value = node.args[number]
        else:
            value = node.kwargs.get(argument.name, argument.default_value if argument.has_default_value() else None)
        yield argument.name, value, "Tensor" in str(argument.type)


def _given_to(node: fx.Node, name: str) -> Any:
    """An argument of a mutating operator: by its name, or what it is a part of, by the number among all such."""
    if name in node.kwargs:
        return node.kwargs[name]
    number = node.kwargs.get(f"_{name}_base_index")
    bases = node.kwargs.get("_all_bases")
    return bases[number] if isinstance(number, int) and isinstance(bases, list | tuple) else None


def _is_tensor(node: fx.Node) -> bool:
    if node.op in ("placeholder", "get_attr"):
        value = node.meta.get("val")
        return value is None or isinstance(value, torch.Tensor)
    return _makes_tensors(node) or node.target is operator.getitem


def _input(slot: int, value: fx.Node, places: Mapping[str, int]) -> Input:
    output = 0
    source = value
    while source.target is operator.getitem and isinstance(source.args[0], fx.Node):
        output = output_of(source)
        source = source.args[0]
    if source.name in places:
        return Input(slot, places[source.name], output)
    return Input(slot, None, 0, value.name)


_KIND_OF = {bool: 1, int: 2, float: 3}


def _attribute(name: str, value: Any) -> Attribute:
    if value is None:
        return Attribute(name, 0)
    if type(value) in _KIND_OF:
        kind = _KIND_OF[type(value)]
        return Attribute(name, kind, reals=[value]) if kind == 3 else Attribute(name, kind, integers=[int(value)])
    if isinstance(value, tuple | list) and value and all(type(one) is type(value[0]) for one in value):
        kind = _KIND_OF.get(type(value[0]), 0)
        if kind:
            numbers = list(value)
            return (
                Attribute(name, kind + 4, reals=numbers)
                if kind == 3
                else Attribute(name, kind + 4, [*map(int, numbers)])
            )
    if isinstance(value, tuple | list) and not value:
        return Attribute(name, 6)
    return Attribute(name, 4, text=str(value).removeprefix("torch."))
