"""The graphs of a recording in GE's forms: ge_proto_*.txt, ge_onnx_*.pbtxt, ge_readable_*.txt.

They are written when a session ends, if DUMP_GE_GRAPH asks for them, or if TorchAir's options started it. The names in
them are those of the recorded operators, so `dump_layer` takes them.
"""

import contextlib
import glob
import json
import os
import re
from collections.abc import Iterator
from typing import Any

from . import _core, environment
from .console import report
from .ge import text
from .ge.graph import Description, GeGraph, Operator, Value

_FORMS = {
    "ge_proto": ("txt", text.proto),
    "onnx": ("pbtxt", text.onnx),
    "readable": ("txt", text.readable),
}


def write(settings: dict[str, Any]) -> None:
    """A session with this configuration has ended."""
    of_options = "dump_config" in settings
    if not (environment.ge_graphs_are_wanted() or of_options):
        return
    path = _core.dump_path_of(json.dumps(settings))
    if not path:
        return
    try:
        runs = _runs_of_this_process(path)
        if runs:
            _write(runs[-1], path, of_options)
    except Exception as error:  # the program goes on, or ends as it would
        report("failure", f"sonde: cannot write the graph in GE's form: {error} ({type(error).__name__})")


def _runs_of_this_process(path: str) -> list[str]:
    """The directories of ranks below `path` that this process wrote, in the order of their journals."""
    found: list[tuple[float, str]] = []
    for depth in range(4):
        below = os.path.join(glob.escape(path), *["*"] * depth, ".dump_metadata", "sonde", "owner")
        for owner in glob.glob(below):
            with open(owner, encoding="utf-8") as file:
                is_ours = file.read().split()[:1] == [str(os.getpid())]
            if is_ours:
                found.append((os.path.getmtime(owner), owner.removesuffix("/.dump_metadata/sonde/owner")))
    return [directory for _, directory in sorted(found)]


def _write(run: str, path: str, of_options: bool) -> None:
    from . import dump

    opened = dump.open(run)
    chosen: dict[int, Any] = {}
    for step in opened.steps:  # the first of the longest: others may have been cut off
        nodes = opened.graph.select(step=step.step, graph=step.graph).nodes
        if step.graph not in chosen or len(nodes) > len(chosen[step.graph][1]):
            chosen[step.graph] = step, nodes
    graphs = [
        (f"graph_{graph + 1}", _read(f"graph_{graph + 1}", opened, step, nodes))
        for graph, (step, nodes) in sorted(chosen.items())
    ]
    places: dict[str, list[str]] = {}
    if of_options:
        # Beside {time}, in the directory that dump_path names, as GE does.
        places[os.path.join(path, os.path.relpath(run, path).split(os.sep)[0])] = ["ge_proto"]
    if environment.ge_graphs_are_wanted():
        places[environment.path_of_ge()] = environment.forms_of_ge()
    for directory, forms in places.items():
        os.makedirs(directory, exist_ok=True)
        for name, graph in graphs:
            for form in forms:
                _write_file(directory, form, name, graph)


def _write_file(directory: str, form: str, name: str, graph: GeGraph) -> None:
    ending, as_text = _FORMS[form]
    beginning = form if form.startswith("ge_") else f"ge_{form}"
    taken = [int(m[1]) for one in os.listdir(directory) if (m := re.match(rf"{beginning}_(\d{{8}})_", one))]
    number = max(taken, default=-1) + 1
    path = os.path.join(directory, f"{beginning}_{number:08d}_{name}_Build.{ending}")
    with open(f"{path}.partial", "w", encoding="utf-8") as file:
        file.write(as_text(graph))
    os.replace(f"{path}.partial", path)


def _read(name: str, opened: Any, step: Any, nodes: Any) -> GeGraph:
    """The graph of a step: what no operator made is an operator of type Data."""
    made = GeGraph(name)
    sources: dict[tuple[str, int], str] = {}
    for edge in opened.graph.select(step=step.step, graph=step.graph).edges:
        maker = edge.from_op.op_name if edge.from_op is not None else edge.parameter
        sources[edge.to_op.op_name, edge.to_slot] = f"{maker}:{edge.from_slot if edge.from_op is not None else 0}"
    operators = [_operator(node, sources) for node in nodes]
    known = {one.name for one in operators}
    for n, (source, description) in enumerate(_outside(operators, known)):
        data = Operator(source, "Data", attributes={"index": n})
        data.output_descriptions.append(Description("y", description.dtype, description.shape))
        made.operators.append(data)
    made.operators += operators
    return made


def _outside(operators: list[Operator], known: set[str]) -> Iterator[tuple[str, Description]]:
    """The values that operators read and none of them made, with their types."""
    seen: set[str] = set()
    for one in operators:
        for source, description in zip(one.inputs, one.input_descriptions, strict=True):
            name = source.rpartition(":")[0]
            if name and name not in known and name not in seen:
                seen.add(name)
                yield name, description


def _operator(node: Any, sources: dict[tuple[str, int], str]) -> Operator:
    operator = Operator(node.op_name, node.op_type, attributes=dict(_attributes(node)))
    for tensor in node.inputs:
        operator.inputs.append(sources.get((node.op_name, tensor.slot), ""))
        operator.input_descriptions.append(_description(tensor, tensor.key or f"x{tensor.slot}"))
    for tensor in node.outputs:
        operator.output_descriptions.append(_description(tensor, f"y{tensor.slot}" if tensor.slot else "y"))
    return operator


def _description(tensor: Any, name: str) -> Description:
    return Description(name, tensor.recorded_dtype, list(tensor.recorded_shape or ()))


def _attributes(node: Any) -> Iterator[tuple[str, Value]]:
    for name, value in node.attributes.items():
        yield name, _parsed(value)
    if node.source is not None:
        yield "_source", f"{node.source.file}:{node.source.line}"


def _parsed(value: str) -> Value:
    """A number, a boolean or a list of them, from its text; any other text as it is."""
    with contextlib.suppress(ValueError):
        parsed: Value | None = json.loads(value)
        if isinstance(parsed, bool | int | float | list):
            return parsed
    return value
