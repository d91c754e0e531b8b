"""The classes of Python (sonde/answer_types.py)."""

from __future__ import annotations

import dataclasses
import keyword
import textwrap

from contract_language import ENVELOPE, Contract, Member, Type, inner, is_list, is_map, parts
from contract_options import python_classes
from contract_statistics import statistics_row

_BASIC = {
    "text": "str",
    "path": "str",
    "count": "int",
    "index": "int",
    "integer": "int",
    "number": "float",
    "finite": "float",
    "flag": "bool",
    "dtype": "str | None",
    "shape": "tuple[int, ...] | None",
    "json": "Any",
}
_HEAD = '''"""The answers of the analyses as classes, and the arguments of their questions.

Made from contract/ by tools/contract.py: a change here is lost.

The members have the names that they have in JSON (docs/json/)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

from .answer_base import Answer, Record, Steps
'''


def python_text(contract: Contract) -> str:
    """All types that the answers of Python need."""
    needed = contract.with_parts(["Problem", *(name for question in contract.questions for name in question.python)])
    answers = contract.answers()
    classes = [_class(contract, one, one.name in answers) for one in needed if one.name != "Statistics"]
    any_json = any("Any" in one for one in classes)
    head = _HEAD.replace("import NamedTuple", "import Any, NamedTuple") if any_json else _HEAD
    return "\n\n".join([head, statistics_row(contract), *classes, *python_classes(contract.commands)])


def _class(contract: Contract, type: Type, is_answer: bool) -> str:
    base = "Answer" if is_answer else "Record"
    head = f"class {type.name}(NamedTuple):" if type.is_tuple else f"class {type.name}({base}):"
    answer = "@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)"
    members = [dataclasses.replace(one, left_out=type.may_lack(one)) for one in type.members]
    is_sorted = members == sorted(members, key=lambda member: member.left_out)
    part = f"@dataclasses.dataclass(frozen=True{'' if is_sorted else ', kw_only=True'})"
    decorator = [] if type.is_tuple else [answer if is_answer else part]
    lines = [*decorator, head, *_docstring(contract, type), ""]
    fields = [_field(contract, member) for member in members]
    if is_answer:
        fields += [f"{_field(contract, member)} = ()" for member in ENVELOPE]
    return "\n".join([*lines, *(f"    {field}" for field in fields), ""])


def _docstring(contract: Contract, type: Type) -> list[str]:
    lines = textwrap.wrap(f'"""{type.meaning}', 116)
    for member in type.members:
        words = ", ".join(f"`{word}`" for part in parts(member.type) for word in contract.enums.get(part, ()))
        meaning = (
            f"{python_name(member)}: {member.meaning}{f' ({words})' if words and '`' not in member.meaning else ''}"
        )
        lines += ["", *textwrap.wrap(meaning, 112, initial_indent="", subsequent_indent="    ")]
    lines = [line for i, line in enumerate(lines) if line or lines[i - 1].startswith('"""')]
    return [f"    {line}" if line else "" for line in [*lines, '"""']]


def _field(contract: Contract, member: Member) -> str:
    if member.merged:
        metadata = f'metadata={{"members": {member.type}._fields}}'
        return f"{member.name}: Mapping[str, float] = dataclasses.field(default_factory=dict, {metadata})"
    type, name = annotation(contract, member.type), python_name(member)
    if not member.left_out:
        return f"{name}: {type}"
    if is_list(member.type):
        return f"{name}: {type} = ()"
    if member.type in ("flag",):
        return f"{name}: bool = False"
    return f"{name}: {type.removesuffix(' | None')} | None = None"


def python_name(member: Member) -> str:
    """A word of Python's gets a `_`."""
    return member.name + "_" * keyword.iskeyword(member.name)


def annotation(contract: Contract, type: str) -> str:
    if type.endswith("?"):
        return f"{annotation(contract, type[:-1])} | None"
    if is_list(type):
        return f"tuple[{annotation(contract, inner(type))}, ...]"
    if is_map(type):
        return f"Mapping[str, {annotation(contract, inner(type))}]"
    return "str" if type in contract.enums else _BASIC.get(type, type)
