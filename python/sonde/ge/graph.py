"""A graph as GE has it: operators, each with descriptions of its inputs and outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | Sequence["Value"]

_TYPES = {
    "float32": "DT_FLOAT",
    "float16": "DT_FLOAT16",
    "bfloat16": "DT_BF16",
    "float64": "DT_DOUBLE",
    "bool": "DT_BOOL",
    "complex64": "DT_COMPLEX64",
    "complex128": "DT_COMPLEX128",
    "complex32": "DT_COMPLEX32",
    "float8_e5m2": "DT_FLOAT8_E5M2",
    "float8_e4m3fn": "DT_FLOAT8_E4M3FN",
    "float8_e8m0fnu": "DT_FLOAT8_E8M0",
    "qint8": "DT_QINT8",
    "quint8": "DT_QUINT8",
    "qint32": "DT_QINT32",
} | {f"{sign}int{bits}": f"DT_{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def type_name(dtype: str) -> str:
    """`DT_FLOAT` of `float32`; DT_UNDEFINED for one that GE lacks."""
    return _TYPES.get(dtype, "DT_UNDEFINED")


@dataclass
class Description:
    """One input or output of an operator."""

    name: str
    dtype: str = ""  # `float32`; empty if unknown
    shape: Sequence[int] = ()  # -1: known only when the graph runs
    attributes: dict[str, Value] = field(default_factory=dict)


@dataclass
class Operator:
    """One operator. `inputs` are `name:output` of their makers; an empty text is an input that nothing makes."""

    name: str
    type: str
    inputs: list[str] = field(default_factory=list)
    attributes: dict[str, Value] = field(default_factory=dict)
    input_descriptions: list[Description] = field(default_factory=list)
    output_descriptions: list[Description] = field(default_factory=list)


@dataclass
class GeGraph:
    """One graph; its operators are in the order in which they run."""

    name: str
    operators: list[Operator] = field(default_factory=list)

    def inputs(self) -> list[str]:
        """`name:output` of its operators of type Data."""
        return [f"{one.name}:0" for one in self.operators if one.type == "Data"]

    def outputs(self) -> list[str]:
        """Of NetOutput, which every graph of a compiler has; of a recorded graph, what no operator reads."""
        for one in self.operators:
            if one.type == "NetOutput":
                return one.inputs
        read = {source for one in self.operators for source in one.inputs}
        return [
            f"{one.name}:{slot}"
            for one in self.operators
            for slot in range(len(one.output_descriptions))
            if one.type != "Data" and f"{one.name}:{slot}" not in read
        ]
