"""Keys of configuration files (contract/settings.toml), for the engine that reads them and for the documents."""

from __future__ import annotations

import dataclasses
from typing import Any

from contract_text import MADE, cpp_file

_BEGIN = "<!-- the keys of contract/settings.toml -->"
_END = "<!-- end -->"


@dataclasses.dataclass(frozen=True)
class Setting:
    object: str  # "" for the top of the file
    key: str
    accepted: str
    meaning: str
    since: str = ""  # the first release of MindSpore that reads it
    default: str = ""
    member: str = ""  # the name in C++, if it is another one
    # What the engine reads by these facts alone: the initial value of a boolean or of a number, or all words.
    flag: bool | None = None
    number: int | None = None
    least: int = 0
    most: int = 2**64 - 1
    allowed: str = ""  # the numbers, for a message
    words: tuple[str, ...] = ()  # the first one is the initial one
    type: str = ""  # the enum of these words in C++

    @property
    def cpp_name(self) -> str:
        return self.member or self.key

    @property
    def default_text(self) -> str:
        return self.default or {None: "–", False: "false", True: "true"}[self.flag]


def settings_of(file: Any) -> tuple[Setting, ...]:
    """Those of settings.toml. A file has `table` and `error(message, section, key)`."""
    known = {field.name for field in dataclasses.fields(Setting)}
    found = []
    for name, table in file.table.get("settings", {}).items():
        for key, value in table.items():
            section = f"settings.{name}"
            if len(value) not in (2, 3) or not value[0] or not value[1]:
                raise file.error(f"key '{key}' needs [accepted, meaning]", section, key)
            facts = value[2] if len(value) == 3 else {}
            for fact in facts:
                if fact not in known:
                    raise file.error(f"unknown fact '{fact}' of key '{key}'", section, key)
            if (facts.get("number") is not None) != ("allowed" in facts):
                raise file.error(f"key '{key}' needs both 'number' and 'allowed'", section, key)
            if ("words" in facts) != ("type" in facts):
                raise file.error(f"key '{key}' needs both 'words' and 'type'", section, key)
            found.append(Setting(name, key, value[0], value[1], **facts))
    return tuple(found)


def keys_text(settings: tuple[Setting, ...]) -> str:
    """contract/settings.h: all keys."""
    lines = ["inline constexpr KnownKey kKnownKeys[] = {"]
    for one in settings:
        since = f", Release::v{one.since.replace('.', '_')}" if one.since else ""
        lines.append(f'    {{"{one.object}", "{one.key}"{since}}},')
    return cpp_file(f"The keys of configuration files. {MADE}.", '"plan/config/known_key.h"', [*lines, "};"])


def names_text(settings: tuple[Setting, ...]) -> str:
    """contract/setting_keys.h."""
    names = {one.cpp_name: one.key for one in settings} | {one.object: one.object for one in settings}
    lines = [
        f'inline constexpr const char* {name} = "{key}";' for name, key in sorted(names.items()) if name.isidentifier()
    ]
    return cpp_file(f"The keys of configuration files by their names. {MADE}.", "", lines, "sonde::keys")


def plain_text(settings: tuple[Setting, ...]) -> str:
    """contract/plain_settings.h."""
    plain = [one for one in settings if one.flag is not None or one.number is not None or one.words]
    lines = [
        "struct NumberBounds {",
        "  std::uint64_t least, most;",
        "  std::string_view allowed;  // for a message",
        "};",
    ]
    lines += [f"enum class {one.type} : std::uint8_t {{ {', '.join(one.words)} }};" for one in plain if one.words]
    lines += ["", "struct PlainSettings {"]
    for one in plain:
        lines += [f"  // {one.meaning}", f"  {_declaration(one)};"]
    lines += ["};", ""]
    lines += ["// Calls the visitor with the key and the member of each, and with the bounds of a number or the words."]
    lines += ["template <typename Visit>", "void for_each_setting(PlainSettings& settings, const Visit& visit) {"]
    lines += [f"  visit({', '.join(_arguments(one))});" for one in plain]
    about = "The keys that are read by what contract/ says of them. Made from it by tools/contract.py."
    return cpp_file(about, "<array> <cstdint> <string_view>", [*lines, "}"])


def _declaration(one: Setting) -> str:
    if one.words:
        return f"{one.type} {one.cpp_name} = {one.type}::{one.words[0]}"
    if one.flag is not None:
        return f"bool {one.cpp_name} = {str(one.flag).lower()}"
    return f"std::uint64_t {one.cpp_name} = {one.number}"


def _arguments(one: Setting) -> list[str]:
    place = [f'"{one.key}"', f"settings.{one.cpp_name}"]
    if one.words:
        words = ", ".join(f'"{word}"' for word in one.words)
        return [*place, f"std::array<std::string_view, {len(one.words)}>{{{words}}}"]
    if one.flag is not None:
        return place
    return [*place, f'NumberBounds{{{one.least}U, {one.most}U, "{one.allowed}"}}']


def with_table(settings: tuple[Setting, ...], text: str) -> str:
    """The document with the table of Sonde's own keys."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    rows = ["| key | accepted | default | effect |", "| --- | --- | --- | --- |"]
    for one in settings:
        if one.object == "sonde_settings":
            rows.append(f"| `{one.key}` | {one.accepted} | {one.default_text} | {one.meaning} |")
    return "\n".join([before + _BEGIN, "", *rows, "", _END + after])
