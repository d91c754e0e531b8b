"""Rows of tables (contract/tables.toml): of a saved index and of the server for C++, and the columns of sonde.dump."""

from __future__ import annotations

import keyword
from typing import Any

from contract_language import Contract, Member, Table
from contract_text import MADE, cpp_file, cpp_name, each_of

_TYPES = {
    "text": "std::string_view",
    "count": "std::uint64_t",
    "index": "std::uint32_t",
    "integer": "std::int64_t",
    "flag": "bool",
    "number": "double",
    "Statistics": "KnownStatistics",
}
# Of the server: the class in C++, the column's type, the type in Arrow, the schema.
_COUNT = {"type": "integer", "minimum": 0}
_SHARED = {"State": "class", "number": "known_number"}  # schemas of openapi.json; all numbers may be null
_SERVED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "text": ("std::string", "text", "dictionary<int32, utf8>", {"type": "string"}),
    "unique": ("std::string", "unique", "utf8", {"type": "string"}),
    "shape": ("std::string", "shape", "utf8", {"type": "array", "items": {"type": "integer"}}),
    "flag": ("bool", "boolean", "bool", {"type": "boolean"}),
    "byte": ("std::uint8_t", "uint8", "uint8", _COUNT),
    "index": ("std::uint32_t", "uint32", "uint32", _COUNT),
    "count": ("std::uint64_t", "uint64", "uint64", _COUNT),
    "number": ("double", "float64", "float64", {}),
}
_PYTHON = {"Statistics": "Mapping[str, Known]", "shape": "Shapes"} | dict.fromkeys(
    ("count", "index", "flag"), "NDArray[Any]"
)


def tables_text(contract: Contract) -> str:
    """contract/tables.h."""
    lines = ["namespace tables {", ""]
    saved = [table for table in contract.tables if table.table]
    for table in saved:
        lines += [f"// {table.meaning}", f"struct {table.name} {{"]
        lines += [f"  {_class(one)} {one.name}{_initial(one)};  // {one.meaning}" for one in table.members]
        lines += ["};", ""]
    lines += ["}  // namespace tables", ""]
    for table in saved:
        name = f"tables::{table.name}"
        lines += ["template <>", f"struct TableOf<{name}> {{"]
        lines += [f'  static constexpr std::string_view name = "{table.table}", key = "{table.key}";']
        lines += [*_tuple("columns", [_field(name, one) for one in table.members]), "};"]
    rows = ", ".join(f"tables::{table.name}" for table in saved)
    about = f"The rows of the tables of a saved index. {MADE}."
    return cpp_file(about, '"read/index/row_fields.h"', [*lines, "", f"using AllTables = std::tuple<{rows}>;"])


def _tuple(name: str, fields: list[str]) -> list[str]:
    last = len(fields) - 1
    rows = [f"      {field}{',' if i < last else ');'}" for i, field in enumerate(fields)]
    return [f"  static constexpr auto {name} = std::tuple(", *rows]


def _class(member: Member) -> str:
    name = _TYPES[member.type]
    return f"std::optional<{name}>" if member.left_out else name


def _initial(member: Member) -> str:
    if member.left_out or member.type in ("text", "unique", "shape"):
        return "{}"
    return " = false" if member.type == "flag" else " = 0"


def _field(name: str, member: Member) -> str:
    if member.merged:
        return f"StatisticsField{{&{name}::{member.name}}}"
    return f'RowField{{"{member.name}", &{name}::{member.name}}}'


def served_text(contract: Contract) -> str:
    """contract/served_rows.h."""
    lines: list[str] = []
    for table in (one for one in contract.tables if one.served):
        lines += [f"// {table.meaning}", f"struct {table.name} {{"]
        lines += [f"  {_served_class(one)} {cpp_name(one.name)}{_served_initial(one)};" for one in table.members]
        lines += ["};", "template <>", f"struct ColumnsOf<{table.name}> {{"]
        lines += each_of([_served_field(table.name, one) for one in table.members])
        lines += ["  static constexpr bool is_row = true;", "};", ""]
    about = f"The rows of the server's tables. {MADE}."
    return cpp_file(about, '"contract/served_answers.h" "face/server/row_table.h"', lines, "sonde::server")


def _served_form(member: Member) -> tuple[str, str, str, dict[str, Any]]:
    return _SERVED.get(member.type, (member.type, "text", "dictionary<int32, utf8>", {}))


def _served_class(member: Member) -> str:
    if member.merged:
        return "KnownStatistics"
    name = _served_form(member)[0]
    return f"std::optional<{name}>" if member.left_out else name


def _served_initial(member: Member) -> str:
    return "" if member.merged else _initial(member) if member.type in _SERVED else "{}"


def _served_field(row: str, member: Member) -> str:
    if member.merged:
        return f"StatisticsColumns{{&{row}::{member.name}}}"
    return f'RowColumn{{"{member.name}", &{row}::{cpp_name(member.name)}, ColumnType::{_served_form(member)[1]}}}'


def put_rows(contract: Contract, paths: dict[str, Any]) -> None:
    """The rows of the tables into the paths of openapi.json."""
    for table in (one for one in contract.tables if one.served):
        path, _, part = table.served.partition(" ")
        answer = paths[path]["get"]["responses"]["200"]
        members = _with_statistics(contract, table)
        properties = {one.name: _schema(contract, one) for one in members}
        arrow = [{"name": one.name, "type": _served_form(one)[2], "nullable": one.left_out} for one in members]
        rows = answer["content"]["application/json"]["schema"]["properties"]["rows"]
        places = rows.get("anyOf", [rows])
        places[1 if part else 0]["items"]["properties"] = properties
        if part:
            answer[f"x-arrow-columns-of-{part}"] = arrow
        else:
            answer["content"]["application/vnd.apache.arrow.stream"]["x-arrow-columns"] = arrow


def _with_statistics(contract: Contract, table: Table) -> list[Member]:
    found: list[Member] = []
    for member in table.members:
        found += contract.types[member.type].members if member.merged else [member]
    return found


def _schema(contract: Contract, member: Member) -> dict[str, Any]:
    words = contract.enums.get(member.type)
    schema = {"enum": list(words)} if words else dict(_served_form(member)[3])
    if member.type in _SHARED:
        schema = {"$ref": f"#/components/schemas/{_SHARED[member.type]}"}
    elif member.left_out:
        schema["type"] = [schema["type"], "null"]
    return {**schema, "description": member.meaning}


def text_columns(contract: Contract) -> list[str]:
    """The columns of the server's tables that are no numbers."""
    served = (member for table in contract.tables if table.served for member in table.members)
    return sorted(
        {one.name for one in served if _served_form(one)[1] in ("text", "unique", "shape") and not one.merged}
    )


_PYTHON_HEAD = '''"""The columns of the tables of an open dump. Made from contract/ by tools/contract.py."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from .columns import Known, Shapes, Words
'''


def python_columns(contract: Contract) -> str:
    """sonde/dump/column_types.py."""
    return "\n\n".join([_PYTHON_HEAD, *(_python_class(table) for table in contract.tables if table.is_python)])


def _python_class(table: Table) -> str:
    lines = [f"class {table.name}(NamedTuple):", f'    """{table.meaning}"""', ""]
    for member in table.members:
        name = member.name + "_" * keyword.iskeyword(member.name)
        lines.append(f"    {name}: {_PYTHON.get(member.type, 'Words')}")
    return "\n".join([*lines, ""])
