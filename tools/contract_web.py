"""The page's types of the answers (web/src/answers.ts)."""

from __future__ import annotations

from contract_language import ENVELOPE, ERROR, Contract, Type, inner, is_list, is_map
from contract_options import job_interface
from contract_schema import always
from contract_tables import text_columns

_BASIC = {
    "text": "string",
    "path": "string",
    "count": "number",
    "index": "number",
    "integer": "number",
    "number": "Numeric",
    "finite": "number",
    "flag": "boolean",
    "dtype": "string | null",
    "shape": "readonly number[] | null",
    "json": "unknown",
}
_HEAD = """// The documents of the verbs. Made from contract/ by tools/contract.py: a change here is lost.

// A number; one that JSON does not have is a text.
export type Numeric = number | "nan" | "inf" | "-inf";
"""


def typescript(contract: Contract, type: str) -> str:
    if type.endswith("?"):
        return f"{typescript(contract, type[:-1])} | null"
    if is_list(type):
        element = typescript(contract, inner(type))
        return f"readonly ({element})[]" if " " in element else f"readonly {element}[]"
    if is_map(type):
        return f"Readonly<Record<string, {typescript(contract, inner(type))}>>"
    if type in contract.enums:
        return " | ".join(f'"{word}"' for word in contract.enums[type])
    return _BASIC.get(type, type)


def _lines(contract: Contract, type: Type) -> list[str]:
    needed = always(type)
    members = [(member, member.name in needed) for member in type.members if not member.merged]
    if type.name in contract.answers():
        members += [(member, not member.left_out) for member in (*ENVELOPE, ERROR)]
    return [
        f"  readonly {member.name}{'' if is_there else '?'}: {typescript(contract, member.type)}; // {member.meaning}"
        for member, is_there in members
    ]


def web_text(contract: Contract) -> str:
    """Interfaces of the types that the page reads, and of their parts."""
    blocks = [_HEAD]
    read = [name for question in contract.questions for name in question.page]
    for type in contract.with_parts(["Problem", "Failure", *read, *(type.name for type in contract.served)]):
        lines = _lines(contract, type)
        if type.rest:
            lines.append(f"  readonly [name: string]: {typescript(contract, type.rest)};")
        merged = ", ".join(member.type for member in type.members if member.merged)
        head = f"export interface {type.name}{f' extends {merged}' if merged else ''} {{"
        blocks.append("\n".join([f"// {type.meaning}", head, *lines, "}", ""]))
    columns = ", ".join(f'"{name}"' for name in text_columns(contract))
    texts = f"// Columns of tables that hold texts.\nexport const TEXT_COLUMNS: readonly string[] = [{columns}];\n"
    return "\n".join([*blocks, job_interface(contract), texts])
