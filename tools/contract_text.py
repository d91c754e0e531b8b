"""The frame of a file of C++ that is made from contract/."""

from __future__ import annotations

import re
from collections.abc import Iterable

MADE = "Made from contract/ by tools/contract.py"
_KEYWORDS = ("class", "operator")  # of C++, among members and the words of enums


def cpp_name(name: str) -> str:
    """Of a member, or of a word of an enum."""
    return re.sub("[ -]", "_", name) + "_" * (name in _KEYWORDS)


def cpp_file(about: str, headers: str, lines: Iterable[str], namespace: str = "sonde") -> str:
    """`about`: the comment at its head; `headers`: names, `<…>` before `"…"`."""
    head = [f"// {line}".rstrip() for line in about.splitlines()]
    system = [f"#include {name}" for name in headers.split() if name[0] == "<"]
    own = [f"#include {name}" for name in headers.split() if name[0] == '"']
    blocks = [[*head, "#pragma once"], system, own, [f"namespace {namespace} {{"], [*lines]]
    text = "\n\n".join("\n".join(block).rstrip("\n") for block in blocks if block)
    return f"{text}\n\n}}  // namespace {namespace}\n"


def each_of(rows: list[str]) -> list[str]:
    """`each(visit)`: visit(row, row, ...). Unlike a tuple it takes the compiler no time where nobody calls it."""
    *others, last = rows
    lines = ["  template <typename Visit>", "  static constexpr auto each(const Visit& visit) {", "    return visit("]
    return [*lines, *(f"        {row}," for row in others), f"        {last});", "  }"]
