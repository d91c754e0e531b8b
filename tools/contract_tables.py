"""The tables of a saved index (contract/tables.toml): rows of C++, which know their columns."""

from __future__ import annotations

from contract_language import Contract, Member

_TYPES = {
    "text": "std::string_view",
    "count": "std::uint64_t",
    "index": "std::uint32_t",
    "integer": "std::int64_t",
    "flag": "bool",
    "number": "double",
    "Statistics": "KnownStatistics",
}


def tables_text(contract: Contract) -> str:
    """contract/tables.h."""
    lines = [
        "// The rows of the tables of a saved index. Made from contract/tables.toml by tools/contract.py.",
        "#pragma once",
        "",
        '#include "read/index/row_fields.h"',
        "",
        "namespace sonde {",
        "namespace tables {",
        "",
    ]
    for table in contract.tables:
        lines += [f"// {table.meaning}", f"struct {table.name} {{"]
        lines += [f"  {_class(one)} {one.name}{_initial(one)};  // {one.meaning}" for one in table.members]
        lines += ["};", ""]
    lines += ["}  // namespace tables", ""]
    for table in contract.tables:
        name = f"tables::{table.name}"
        fields = [_field(name, one) for one in table.members]
        lines += ["template <>", f"struct TableOf<{name}> {{"]
        lines += [f'  static constexpr std::string_view name = "{table.table}", key = "{table.key}";']
        lines += ["  static constexpr auto columns = std::tuple("]
        lines += [f"      {field}{',' if field is not fields[-1] else ');'}" for field in fields]
        lines += ["};"]
    rows = ", ".join(f"tables::{table.name}" for table in contract.tables)
    return "\n".join([*lines, "", f"using AllTables = std::tuple<{rows}>;", "", "}  // namespace sonde", ""])


def _class(member: Member) -> str:
    name = _TYPES[member.type]
    return f"std::optional<{name}>" if member.left_out else name


def _initial(member: Member) -> str:
    if member.left_out or member.type == "text":
        return "{}"
    return " = false" if member.type == "flag" else " = 0"


def _field(name: str, member: Member) -> str:
    if member.merged:
        return f"StatisticsField{{&{name}::{member.name}}}"
    return f'RowField{{"{member.name}", &{name}::{member.name}}}'
