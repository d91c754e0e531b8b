"""What the operators of a dump computed, in words that two frameworks share, read through `sonde stats --json`."""

import dataclasses
import functools
import json
import math
import pathlib
import shutil
import subprocess
import sys

import numpy as np

# What an operator computes, by output: (slot, kind, the inputs it multiplies or adds up). Outputs that the other
# framework has nowhere are left out. A type that is not here computes what it is called: see plain().
KINDS = {
    "Conv2D": [(0, "conv2d", (0, 1))],
    "Conv2DBackpropInput": [(0, "conv2d input gradient", (0, 1))],
    "Conv2DBackpropFilter": [(0, "conv2d weight gradient", (0, 1))],
    "MatMul": [(0, "matmul", (0, 1))],
    "BiasAddGrad": [(0, "bias gradient", (0,))],
    "BatchNormGrad": [
        (0, "batchnorm input gradient", ()),
        (1, "batchnorm weight gradient", (0,)),
        (2, "batchnorm bias gradient", (0,)),
    ],
    "MaxPool": [(0, "maxpool2d", ())],
    "MaxPoolGrad": [(0, "maxpool2d gradient", ())],
    "ReluGrad": [(0, "relu gradient", ())],
    "Flatten": [(0, "reshape", ())],
    "SparseSoftmaxCrossEntropyWithLogits": [(0, "cross_entropy", ())],  # its gradient too, of another shape
    "convolution_backward": [
        (0, "conv2d input gradient", (0, 2)),
        (1, "conv2d weight gradient", (0, 1)),
        (2, "bias gradient", (0,)),
    ],
    "flatten": [(0, "reshape", ())],
    "linear": [(0, "matmul", (0, 1))],
    "addmm": [(0, "matmul", (1, 2))],
    "mm": [(0, "matmul", (0, 1))],
    "sum": [(0, "bias gradient", (0,))],
    "max_pool2d_with_indices_backward": [(0, "maxpool2d gradient", ())],
    "threshold_backward": [(0, "relu gradient", ())],
    "cross_entropy_loss": [(0, "cross_entropy", ())],
    "_log_softmax_backward_data": [(0, "cross_entropy", ())],
}
KINDS["conv2d"] = KINDS["Conv2D"]
KINDS["native_batch_norm_backward"] = KINDS["BatchNormGrad"]
# The rest of what the other framework does in one operator; what comes out of it stands for both.
FINISHES = {"BiasAdd": ("conv2d", "matmul"), "constant_pad_nd": ("conv2d input gradient",)}
# Inputs that the operator overwrites: a dump by MindSpore itself shows what they are afterwards.
OVERWRITTEN = {"batch_norm": (3, 4), "BatchNorm": (3, 4)}
# Names for memory, not computations.
VIEWS = {"t", "view", "detach", "alias", "transpose", "permute", "expand", "clone", "lift_fresh", "to", "ones_like"}

PHASES = ("forward", "backward", "optimizer")


class Unreadable(Exception):
    """Names the dump or file, and why."""


@dataclasses.dataclass
class Operator:
    """One run of an operator: its rows of `sonde stats --json`, a row for each tensor."""

    rows: list

    def __getattr__(self, key):  # full_name, op_type, phase, source_file, line, function
        return self.rows[0][key]

    def tensors(self, is_input):
        return {row["slot"]: row for row in self.rows if row["is_input"] == is_input}


@dataclasses.dataclass
class Value:
    """What came out of an operator, or of two that together do what the other framework does in one."""

    kind: str
    operators: list
    row: dict
    added_up: list = dataclasses.field(default_factory=list)

    @property
    def shape(self):  # a dimension of 1 is a matter of taste
        kept = [n for n in self.row["shape"] if n != 1]
        return (math.prod(kept),) if self.kind == "reshape" else tuple(kept)

    @property
    def key(self):
        """What values that belong together have in common, padding and layout aside."""
        return self.kind, self.shape, tuple(sorted(math.prod(row["shape"]) for row in self.added_up))

    def inputs(self):
        """What went into it from elsewhere, not from one of its operators into the next."""
        first, *rest = (operator.tensors(True) for operator in self.operators)
        return [*first.values(), *(row for inputs in rest for slot, row in inputs.items() if slot)]


def run_sonde(*arguments):
    beside = pathlib.Path(sys.executable).with_name("sonde")
    command = str(beside) if beside.exists() else shutil.which("sonde")
    if not command:
        raise Unreadable(f"the command sonde is neither beside {sys.executable} nor in PATH")
    return subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)


def read_steps(dump):
    """{step: [Operator, ...]} of rank 0's training, in the order in which they ran."""
    shown = run_sonde("stats", dump, "--rank", 0, "--graph", 0, "--json")
    if shown.returncode not in (0, 1):  # 1: there is a NaN, which is for the comparison to judge
        raise Unreadable(shown.stderr.strip().removeprefix("sonde: error: "))
    steps, seen = {}, set()
    for row in map(json.loads, shown.stdout.splitlines()):
        operators = steps.setdefault(row["iteration"], [])
        if row["is_parameter"]:
            continue
        slot = row["is_input"], row["slot"]
        if not operators or operators[-1].full_name != row["full_name"] or slot in seen:
            operators.append(Operator([]))
            seen.clear()
        operators[-1].rows.append(row)
        seen.add(slot)
    if not any(steps.values()):
        raise Unreadable(f"'{dump}' holds no operators")
    return steps


def plain(op_type):
    """What a type is called anywhere: `LayerNorm` and `layer_norm`, `TanhGrad` and `tanh_backward`."""
    return op_type.replace("_", "").lower().removeprefix("native").replace("backward", "grad")


def values_of(operators):
    """{phase: [Value, ...]}"""
    forward = (row for operator in operators if operator.phase == "forward" for row in operator.rows)
    parameters = {row["tensor_name"] for row in forward} - {""}
    found = {"forward": [], "backward": []}
    updates = {}  # the last of each parameter: weight decay may come before
    for operator in operators:
        inputs, outputs = operator.tensors(True), operator.tensors(False)
        if operator.op_type in VIEWS or operator.phase not in PHASES:
            continue
        if operator.phase == "optimizer":
            name = inputs.get(0, {}).get("tensor_name")
            if 0 in outputs and (name in parameters or operator.op_type.startswith("Apply")):
                updates[name or operator.full_name] = Value("update", [operator], outputs[0])
            continue
        values = found[operator.phase]
        begun = FINISHES.get(operator.op_type, ())
        shape = inputs[0]["shape"] if 0 in inputs else None
        first = next((v for v in reversed(values) if v.kind in begun and v.row["shape"] == shape), None)
        if first and 0 in outputs:
            first.operators.append(operator)
            first.row = outputs[0]
            continue
        for slot, kind, added_up in KINDS.get(operator.op_type) or [(0, plain(operator.op_type), ())]:
            if slot in outputs:
                values.append(Value(kind, [operator], outputs[slot], [inputs[i] for i in added_up if i in inputs]))
    return found | {"optimizer": list(updates.values())}


@functools.lru_cache(maxsize=256)
def load(file, name):
    if not file:
        raise Unreadable(f"{name} was dumped without its tensor; dump both with saved_data tensor or full")
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Unreadable(f"cannot read '{file}': {error}") from error


def tensor(row):
    return load(row.get("file"), slot_name(row))


def slot_name(row):
    return f"{row['full_name']}:{'input' if row['is_input'] else 'output'}.{row['slot']}"
