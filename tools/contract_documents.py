"""docs/json/answers.md: the members of each answer, in tables."""

from __future__ import annotations

import textwrap

from contract_language import BASIC, Contract, Type, parts
from contract_options import table

_HEAD = """# Options and answers of the verbs

`sonde VERB --json` prints these; classes of Python (`sonde.answers`) and of C++ (`sonde/answers.h`) have members of the
same names. `[T]` is a list, `{T}` an object by name, `T?` may be null; a member with `*` is left out where it is empty.
Each answer has `problems`, `warnings` and, if the call failed, `error` besides ([README](README.md)).

The arguments of Python's functions and of the server's jobs are among the options, with `_` for `-`.

Made from `contract/` by `tools/contract.py`.
"""


def documents_text(contract: Contract) -> str:
    blocks = [
        _HEAD,
        "\n".join(["| type | |", "| --- | --- |", *(f"| `{name}` | {text} |" for name, text in BASIC.items())]),
    ]
    blocks += ["\n## Shared\n", *(_table(contract, one, "###") for one in contract.shared)]
    blocks.append("\n## Options\n")
    blocks += ["### of every verb", "", *table(contract.everywhere), ""]
    for command in contract.commands:
        blocks += [f"### sonde {command.verb}", "", command.help, "", *table(command.options), ""]
    for question in contract.questions:
        blocks.append(f"\n## {question.title}\n")
        blocks += [_table(contract, one, "###") for one in (question.answer, *question.types)]
    return "\n".join(blocks).rstrip("\n") + "\n"


def _table(contract: Contract, type: Type, heading: str) -> str:
    lines = [f"{heading} {type.name}", "", type.meaning, "", "| member | type | |", "| --- | --- | --- |"]
    for member in type.members:
        words = [word for part in parts(member.type) for word in contract.enums.get(part, ())]
        missing = [f"`{word}`" for word in words if f"`{word}`" not in member.meaning]
        meaning = member.meaning
        if missing and len(missing) == len(words):  # the words of an enumeration say what it is
            meaning = ", ".join(missing) if meaning == "what it is" else f"{meaning}: {', '.join(missing)}"
        mark = " *" if member.left_out else ""
        name = f"members of {member.type}" if member.merged else f"`{member.name}`{mark}"
        lines.append(f"| {name} | {'' if member.merged else f'`{member.type}`'} | {meaning} |")
    if type.forms:
        forms = "; or ".join(", ".join(f"`{name}`" for name in form) for form in type.forms)
        lines += ["", *textwrap.wrap(f"It has {forms}.", 120)]
    return "\n".join([*lines, ""])
