"""Keys of configuration files (contract/settings.toml), for the engine that reads them and for the documents."""

from __future__ import annotations

import dataclasses
from typing import Any

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
    flag: bool | None = None  # a boolean that the engine reads by its name: the initial value
    member: str = ""  # the name in C++, if it is another one

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
            found.append(Setting(name, key, value[0], value[1], **facts))
    return tuple(found)


def keys_text(settings: tuple[Setting, ...]) -> str:
    """contract/settings.h: all keys, and those that are true or false."""
    lines = ["// The keys of configuration files. Made from contract/ by tools/contract.py.", "#pragma once", ""]
    lines += [
        '#include "plan/config/known_key.h"',
        "",
        "namespace sonde {",
        "",
        "inline constexpr KnownKey kKnownKeys[] = {",
    ]
    for one in settings:
        since = f", Release::v{one.since.replace('.', '_')}" if one.since else ""
        lines.append(f'    {{"{one.object}", "{one.key}"{since}}},')
    return "\n".join([*lines, "};", "", "}  // namespace sonde", ""])


def flags_text(settings: tuple[Setting, ...]) -> str:
    """contract/setting_flags.h."""
    flags = [one for one in settings if one.flag is not None]
    lines = ["// The keys that are true or false. Made from contract/ by tools/contract.py.", "#pragma once", ""]
    lines += ["namespace sonde {", "", "struct SettingFlags {"]
    for one in flags:
        lines += [f"  // {one.meaning}", f"  bool {one.member or one.key} = {str(one.flag).lower()};"]
    lines += ["};", "", "template <typename Visit>", "void for_each_flag(SettingFlags& flags, const Visit& visit) {"]
    lines += [f'  visit("{one.key}", flags.{one.member or one.key});' for one in flags]
    return "\n".join([*lines, "}", "", "}  // namespace sonde", ""])


def with_table(settings: tuple[Setting, ...], text: str) -> str:
    """The document with the table of Sonde's own keys."""
    before, _, rest = text.partition(_BEGIN)
    after = rest.partition(_END)[2]
    rows = ["| key | accepted | default | effect |", "| --- | --- | --- | --- |"]
    for one in settings:
        if one.object == "sonde_settings":
            rows.append(f"| `{one.key}` | {one.accepted} | {one.default_text} | {one.meaning} |")
    return "\n".join([before + _BEGIN, "", *rows, "", _END + after])
