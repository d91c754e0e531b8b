"""Structs of C++ (sonde/answers.h), and the lists of their members, from which JSON is written and read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from contract_language import ENVELOPE, Contract, Member, Type, distinct_names, inner, is_list, is_map, parts
from contract_text import MADE, cpp_file, cpp_name, each_of

_BASIC = {
    "text": "std::string",
    "path": "std::filesystem::path",
    "count": "std::uint64_t",
    "index": "std::uint32_t",
    "integer": "std::int64_t",
    "number": "double",
    "finite": "double",
    "flag": "bool",
    "dtype": "DType",
    "shape": "std::optional<Dims>",
    "json": "JsonText",
    "JobArguments": "JsonText",
}
_NUMBERS = ("count", "index", "integer", "number", "finite")
_STANDARD = "<cstdint> <filesystem> <optional> <string> <string_view> <vector>"
_NAMED_VALUE = [
    "// A value with its name.",
    "template <typename Value>",
    "struct NamedValue {",
    "  std::string name;",
    "  Value value{};",
    "};",
    "",
]
_JSON_TEXT = ["// Any JSON, as text.", "struct JsonText {", '  std::string text = "null";', "};", ""]


class Structs:
    """The types that C++ has: those that the questions name, and all that they need."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.enums: dict[str, tuple[str, ...]] = {}
        self.types: dict[str, Type] = {}
        self.answers = contract.answers()
        self.library = self._taken(name for question in contract.questions for name in question.cpp)
        self.command = self._taken(name for question in contract.questions for name in question.cpp_of_command)
        self.server = self._taken(type.name for type in contract.served)

    def _taken(self, names: Iterable[str]) -> set[str]:
        """What these need, and those before do not."""
        known = {*self.types, *self.enums}
        for name in names:
            self._take(name)
        return {*self.types, *self.enums} - known

    def _take(self, name: str) -> None:
        if name in self.contract.enums:
            self.enums[name] = self.contract.enums[name]
        if name not in self.contract.types or name in self.types:
            return
        type = self.contract.types[name]
        for member in (*type.members, *(ENVELOPE if name in self.answers else ())):
            for part in parts(member.type):
                self._take(part)
        for part in parts(type.rest):
            self._take(part)
        self.types[name] = type

    def own_enums(self, part: set[str]) -> Iterator[str]:
        return (name for name in self.enums if name in part and name not in self.contract.enum_headers)

    def headers(self, part: set[str]) -> set[str]:
        """Those of the classes that are written by hand."""
        of_enums = self.contract.enum_headers.items()
        found = {type.cpp_header for name, type in self.types.items() if name in part and type.cpp_header}
        return found | {header for name, header in of_enums if name in part}

    def class_of(self, type: str) -> str:
        if type.endswith("?"):
            return f"std::optional<{self.class_of(type[:-1])}>"
        if is_list(type):
            return f"std::vector<{self.class_of(inner(type))}>"
        if is_map(type):
            return f"std::vector<NamedValue<{self.class_of(inner(type))}>>"
        if type in _BASIC:
            return _BASIC[type]
        return self.types[type].cpp if type in self.types else type

    def class_of_member(self, type: Type, member: Member) -> str:
        # An empty text or false is left out; the others need a word for "not there".
        found = self.class_of(member.type)
        of_some_forms = type.may_lack(member) and not member.left_out
        needs_word = member.type in _NUMBERS or member.type in self.types or member.type[-1] in "]}"
        needs_word |= of_some_forms and member.type == "flag"
        return f"std::optional<{found}>" if type.may_lack(member) and needs_word else found


def _comment(meaning: str, indent: str) -> str:
    return "\n".join(
        textwrap.wrap(meaning, 118 - len(indent), initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// ")
    )


def _initial(structs: Structs, type: Type, member: Member) -> str:
    if structs.class_of_member(type, member).startswith("std::optional"):
        return ""
    if member.type in _NUMBERS:
        return " = 0"
    if member.type == "flag":
        return " = false"
    if member.type == "JobArguments":
        return ' = {"{}"}'
    if member.type == "dtype":
        return " = DType::undefined"
    return f" = {member.type}::{cpp_name(structs.enums[member.type][0])}" if member.type in structs.enums else ""


def _aligned(rows: list[tuple[str, str]]) -> list[str]:
    """Declarations with their comments beside them in one column; a long comment comes before its declaration."""
    width = max((len(declaration) for declaration, comment in rows if comment), default=0)
    return [f"{declaration:<{width}}  // {comment}" if comment else declaration for declaration, comment in rows]


def _struct(structs: Structs, type: Type) -> list[str]:
    lines, rows = [_comment(type.meaning, ""), f"struct {type.cpp} {{"], []
    rest = [Member("others", f"{{{type.rest}}}", "further members, by name")] if type.rest else []
    members = (*type.members, *rest, *(ENVELOPE if type.name in structs.answers else ()))
    declarations = [
        f"  {structs.class_of_member(type, one)} {cpp_name(one.name)}{_initial(structs, type, one)};" for one in members
    ]
    width = max(map(len, declarations), default=0)
    for member, declaration in zip(members, declarations, strict=True):
        if width + len(member.meaning) + 5 <= 120:
            rows.append((declaration, member.meaning))
        else:
            lines += [*_aligned(rows), _comment(member.meaning, "  "), declaration]
            rows = []
    return [*lines, *_aligned(rows), "};", ""]


def _enum(name: str, values: list[str]) -> list[str]:
    line = f"enum class {name} : std::uint8_t {{ {', '.join(values)} }};"
    if len(line) <= 120:
        return [line]
    return [f"enum class {name} : std::uint8_t {{", *(f"  {value}," for value in values), "};"]


def _declarations(structs: Structs, part: set[str]) -> list[str]:
    """The enums and structs of one header."""
    lines: list[str] = []
    export = "SONDE_EXPORT " if part is structs.library else "inline " if part is structs.server else ""
    for name in structs.own_enums(part):
        lines += _enum(name, [*map(cpp_name, structs.enums[name])])
        lines += [f"{export}std::string_view word_of({name} value);", ""]
    for type in structs.types.values():
        if not type.cpp_header and type.name in part:
            lines += _struct(structs, type)
    return lines


def header_text(contract: Contract) -> str:
    """sonde/answers.h."""
    structs = Structs(contract)
    headers = sorted(structs.headers(structs.library) | {"sonde/dims.h", "sonde/dtype.h", "sonde/export.h"})
    return cpp_file(
        f"The answers of the analyses. {MADE}: a change here is lost.\n\n"
        "An answer owns its texts. Its members have the names that they have in JSON (docs/json/) and in Python.",
        " ".join([_STANDARD, *(f'"{name}"' for name in headers)]),
        [*_NAMED_VALUE, *_declarations(structs, structs.library)],
    )


def command_header_text(contract: Contract) -> str:
    """contract/command_answers.h."""
    about = f"Answers that the command alone gives. {MADE}: a change here is lost."
    structs = Structs(contract)
    return cpp_file(about, '"sonde/answers.h"', [*_JSON_TEXT, *_declarations(structs, structs.command)])


def served_header_text(contract: Contract) -> str:
    """contract/served_answers.h."""
    structs = Structs(contract)
    headers = ['"contract/members.h"', *(f'"{name}"' for name in sorted(structs.headers(structs.server)))]
    lines = ["namespace server {", "", *_declarations(structs, structs.server), "}  // namespace server", ""]
    lines += _members(structs, structs.server, "server::")
    lines += [_word_of(name, "inline ", "server::") for name in structs.own_enums(structs.server)]
    return cpp_file(f"Answers that the server alone gives, and their members. {MADE}.", " ".join(headers), lines)


def members_text(contract: Contract) -> str:
    """contract/members.h: for each type and enum, what a generic writer or reader needs."""
    structs = Structs(contract)
    about = f"The members of each answer, by their names in JSON. {MADE}."
    lines = _members(structs, structs.library | structs.command)
    return cpp_file(about, '"contract/command_answers.h" "ground/contract/member.h"', lines)


def _members(structs: Structs, part: set[str], namespace: str = "") -> list[str]:
    lines = []
    own = {*structs.own_enums(part)}
    for name, words in structs.enums.items():
        if name not in part:
            continue
        values = ", ".join(f'"{word}"' for word in words)
        lines += [
            "template <>",
            f"struct Words<{namespace if name in own else ''}{name}> {{",
            f"  static constexpr std::string_view list[] = {{{values}}};",
            "};",
        ]
    for type in (one for one in structs.types.values() if one.name in part):
        name = namespace + structs.class_of(type.name)
        rows = [_row(structs, name, type, member) for member in type.members]
        rows += [f"Rest{{&{name}::others}}"] if type.rest else []
        lines += ["template <>", f"struct Members<{name}> {{", *each_of(rows)]
        lines += [f"  static constexpr bool is_answer = {str(type.name in structs.answers).lower()};", "};"]
    return lines


def _row(structs: Structs, name: str, type: Type, member: Member) -> str:
    if member.merged:
        return f"Merged{{&{name}::{cpp_name(member.name)}}}"
    left_out = ", true" if type.may_lack(member) else ""
    return f'Member{{"{member.name}", &{name}::{cpp_name(member.name)}{left_out}}}'


def _word_of(name: str, inline: str = "", space: str = "") -> str:
    body = f"return Words<{space}{name}>::list[static_cast<std::size_t>(value)];"
    return f"{inline}std::string_view {space}word_of({name} value) {{ {body} }}"


_JSON_TEMPLATES = {
    "writers": "template void contract::put_members(Json&, const {0}&);",
    "readers": "template void contract::JsonReader::take_members(const Json&, {0}&);",
}


def json_header_text(contract: Contract, kind: str) -> str:
    """contract/json_writers.h, json_readers.h: what json_members.cpp holds is compiled nowhere else."""
    lines = (f"extern {line}" for line in _json_templates(contract, kind))
    return cpp_file(f"The {kind} of these types are in json_members.cpp. {MADE}.", "", lines)


def json_members_text(contract: Contract) -> str:
    """contract/json_members.cpp: the writer and the reader of each type that more than the server knows."""
    lines = [f"// {MADE}.", '#include "ground/contract/read_json.h"', "", "namespace sonde {", ""]
    lines += [line for kind in _JSON_TEMPLATES for line in _json_templates(contract, kind)]
    return "\n".join([*lines, "", "}  // namespace sonde", ""])


def _json_templates(contract: Contract, kind: str) -> list[str]:
    structs = Structs(contract)
    known = structs.library | structs.command
    return [_JSON_TEMPLATES[kind].format(structs.class_of(name)) for name in structs.types if name in known]


def names_text(contract: Contract) -> str:
    """contract/names.h: names of members, where JSON or a table is made without a struct."""
    names = (f'inline constexpr const char* {name} = "{name}";' for name in distinct_names(contract))
    return cpp_file(f"Names of members in JSON and in tables. {MADE}.", "", names, "sonde::names")


def words_text(contract: Contract) -> str:
    """contract/words.cpp: the words of the enums, and the privacy of names."""
    structs = Structs(contract)
    lines = [
        "// Made from contract/ by tools/contract.py.",
        '#include "contract/members.h"',
        '#include "ground/contract/privacy.h"',
        "",
    ]
    lines += ["namespace sonde {", ""]
    lines += [_word_of(name) for name in structs.own_enums(structs.library | structs.command)]
    lines += ["", "Privacy privacy_of(std::string_view member) {", "  using enum Privacy;"]
    lines += ["  static constexpr std::pair<std::string_view, Privacy> kWords[] = {"]
    lines += [f'      {{"{name}", {privacy}}},' for name, privacy in sorted(contract.privacy.items())]
    lines += [
        "  };",
        "  for (const auto& [name, privacy] : kWords) {",
        "    if (name == member) return privacy;",
        "  }",
    ]
    return "\n".join([*lines, "  return hidden;", "}", "", "}  // namespace sonde", ""])
