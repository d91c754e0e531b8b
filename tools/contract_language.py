"""The language of contract/: TOML files that declare each name that leaves the process.

    [words]                                  names that mean the same everywhere, with their privacy
    rank = ["index", "the number of the process", "rank"]

    [enums]
    Side = ["input", "output"]

    [UnfinishedRun]                          a type: capital letter
    _meaning = "A rank whose last run did not end the recording itself."
    state = ["RunState", "what happened"]    a member: type and meaning
    rank = ""                                a member of [words]
    step = "the last one"                    the same, with a meaning of its own
    "reason?" = ["text", "…"]                left out of the document where it is empty
    "+statistics?" = ["Statistics", "…"]     its members are members of this object
    _library = true                          only the library and Python have it, no document
    _any_of = ["ShownFile", "ShownTensor"]   it has the members of one of these

Options are described in contract_options.py. Types are the basic ones below, enums, types, `T?` (or null), `[T]` (a
list) and `{T}` (an object by name). `JobArguments` is made of the options that jobs have."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from contract_options import Command, Option, OptionReader
from contract_settings import Setting, settings_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BASIC = {
    "text": "a text",
    "path": "a path of the file system",
    "count": "a whole number from 0, 64 bits",
    "index": "a whole number from 0, 32 bits",
    "integer": "a whole number",
    "number": 'a number; "nan", "inf" and "-inf" where JSON has none',
    "finite": "a number that is never NaN or infinite",
    "flag": "true or false",
    "dtype": "the name of a type of elements; null: not known",
    "shape": "sizes, the outermost first; null: not known",
    "json": "any JSON",
}
TABLE_TYPES = ("text", "count", "index", "integer", "number", "flag", "Statistics")
ROW_TYPES = (*TABLE_TYPES, "unique", "byte", "shape")
# What a redacted answer keeps of a member. Without one, a text becomes empty.
PRIVACY = {
    "word": "the text: a word of a short list, which Sonde chose",
    "name": "an alias, the same one each time",
    "type": "the type of an operator, if Sonde knows it",
    "rank": "the number",
    "emptied": "a list or an object without content",
    "left_out": "nothing",
    "zero": "0, of a number",
}


class ContractError(Exception):
    """A mistake in a file of contract/, as `file:line: message`."""


@dataclasses.dataclass(frozen=True)
class Member:
    name: str
    type: str
    meaning: str
    left_out: bool = False  # where it is empty
    merged: bool = False  # the members of its type are members of the object


# Every answer has these besides, and its document `error` if the call failed.
ENVELOPE = (
    Member("problems", "[Problem]", "what could not be read, or not wholly; the rest was looked at all the same"),
    Member("warnings", "[text]", "other facts that the user should know, as on standard error"),
)
ERROR = Member("error", "Failure", "why the call failed; other members may then be missing", left_out=True)


@dataclasses.dataclass(frozen=True)
class Type:
    name: str
    meaning: str
    members: tuple[Member, ...]
    forms: tuple[tuple[str, ...], ...]  # the members that are there together; (): all
    rest: str  # the type of further members, by name; "": there are none
    cpp: str  # the class of C++, if it has another name
    cpp_header: str  # the header in which it is written by hand; "": it is generated
    is_tuple: bool  # in Python: a named tuple
    of_library: bool  # no document has it
    no_trend: tuple[str, ...] = ()  # statistics that `sonde export` leaves out of its curves

    def may_lack(self, member: Member) -> bool:
        """Left out where it is empty, or because not all forms have it."""
        forms_with_it = [form for form in self.forms if member.name in form]
        return member.left_out or 0 < len(forms_with_it) < len(self.forms)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a saved index, of the server or of sonde.dump."""

    name: str
    meaning: str
    members: tuple[Member, ...]
    table: str = ""  # its name in a saved index
    key: str = ""
    served: str = ""  # the path of the server
    is_python: bool = False


@dataclasses.dataclass(frozen=True)
class Question:
    verb: str
    title: str
    answer: Type
    types: tuple[Type, ...]  # its own parts
    cpp: tuple[str, ...]  # names of the types that C++ has, of answers that the library gives
    cpp_of_command: tuple[str, ...]  # the same of answers that the command alone gives
    python: tuple[str, ...]  # and Python
    page: tuple[str, ...]  # those that the page reads
    library: str  # the answer of the library's function, where it has another form than the document; "": it has not
    or_answer: str  # another answer, in place of the first; "": there is none


@dataclasses.dataclass(frozen=True)
class Contract:
    enums: dict[str, tuple[str, ...]]
    enum_headers: dict[str, str]  # those of C++ that are written by hand
    types: dict[str, Type]
    shared: tuple[Type, ...]
    questions: tuple[Question, ...]
    served: tuple[Type, ...]  # answers that the server alone gives
    commands: tuple[Command, ...]  # the options of all verbs, also of those without a document
    arguments: tuple[Option, ...]  # of jobs besides
    everywhere: tuple[Option, ...]  # of the command itself
    settings: tuple[Setting, ...]  # keys of configuration files
    tables: tuple[Table, ...]
    privacy: dict[str, str]  # of the members that have one

    def answers(self) -> set[str]:
        """The types that have the envelope."""
        named = ((one.answer.name, one.library, one.or_answer) for one in self.questions)
        return {name for names in named for name in names if name}

    def with_parts(self, names: Iterable[str]) -> tuple[Type, ...]:
        """These types and those of their members, in the order of contract/."""
        found: set[str] = set()

        def take(name: str) -> None:
            if name in self.types and name not in found:
                found.add(name)
                for member in self.types[name].members:
                    for part in parts(member.type):
                        take(part)

        for name in names:
            take(name)
        return tuple(type for type in self.types.values() if type.name in found)


def distinct_names(contract: Contract) -> list[str]:
    """Names that nothing else in a program is called: those with an underscore that are no word of an enum."""
    names = {member.name for type in contract.types.values() for member in type.members if "_" in member.name}
    return sorted(names.difference(*contract.enums.values()))


def parts(type: str) -> Iterator[str]:
    """The names in a type: `[Finding?]` has `Finding`."""
    yield from re.findall(r"\w+", type)


def is_list(type: str) -> bool:
    return type.startswith("[") and type.endswith("]")


def is_map(type: str) -> bool:
    return type.startswith("{") and type.endswith("}")


def inner(type: str) -> str:
    return type[1:-1]


class _File:
    """One file, whose mistakes are named with their line."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8")
        try:
            self.table: dict[str, Any] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            where = re.search(r"line (\d+)", str(error))
            raise ContractError(f"{path}:{where[1] if where else 1}: {error}") from None

    def error(self, message: str, section: str = "", key: str = "") -> ContractError:
        lines = self.text.splitlines()
        begin = lines.index(f"[{section}]") if f"[{section}]" in lines else 0
        of_key = (i for i in range(begin, len(lines)) if re.match(rf'"?\+?{re.escape(key)}\??"?\s*=', lines[i]))
        number = (next(of_key, begin) if key else begin) + 1
        return ContractError(f"{self.path}:{number}: {message}")


def read(directory: pathlib.Path) -> Contract:
    """The whole contract. Raises ContractError with the file and the line of the first mistake."""
    return _Reader(directory).contract()


class _Reader:
    def __init__(self, directory: pathlib.Path) -> None:
        self.words_file = _File(directory / "words.toml")
        self.tables_file = _File(directory / "tables.toml")
        self.served_file = _File(directory / "served.toml")
        others = (path for path in sorted(directory.glob("*.toml")) if path.stem not in ("words", "tables", "served"))
        self.files = [self.words_file, *map(_File, others)]
        self.questions = [_File(path) for path in sorted((directory / "questions").glob("*.toml"))]
        self.words: dict[str, list[str]] = self.words_file.table.get("words", {})
        self.enums: dict[str, tuple[str, ...]] = {}
        self.enum_headers: dict[str, str] = {}
        self.types: dict[str, Type] = {}
        self.places: dict[str, tuple[_File, str]] = {}

    def contract(self) -> Contract:
        self._check_words()
        shared = tuple(one for file in self.files for one in self._types(file))
        questions = tuple(self._question(file) for file in self.questions if "answer" in file.table)
        served = tuple(self._types(self.served_file))
        named = {file.path.name: file for file in self.files}
        options = OptionReader(named["options.toml"])
        settings = settings_of(named["settings.toml"])
        commands = tuple(options.command(file) for file in self.questions)
        self._check_types()
        privacy = {name: word[2] for name, word in self.words.items() if len(word) == 3}
        tables = tuple(self._table(name, table) for name, table in self.tables_file.table.items())
        return Contract(
            self.enums,
            self.enum_headers,
            self.types,
            shared,
            questions,
            served,
            commands,
            options.arguments,
            options.everywhere,
            settings,
            tables,
            privacy,
        )

    def _table(self, name: str, table: dict[str, Any]) -> Table:
        type = self._type(self.tables_file, name, table)
        facts = {fact: table[f"_{fact}"] for fact in ("table", "key", "served") if f"_{fact}" in table}
        found = Table(name, type.meaning, type.members, **facts, is_python=table.get("_python", False))
        if not (found.table or found.served or found.is_python):
            raise self.tables_file.error(f"{name} has no _table, _served or _python", name)
        known = TABLE_TYPES if found.table else (*ROW_TYPES, *self.enums)
        for member in type.members:
            if member.type not in known:
                raise self.tables_file.error(f"unknown type '{member.type}' of '{member.name}'", name, member.name)
        return found

    def _check_words(self) -> None:
        for name, word in self.words.items():
            if len(word) not in (2, 3) or not word[1]:
                raise self.words_file.error(f"'{name}' needs [type, meaning], and may have a privacy", "words", name)
            if len(word) == 3 and word[2] not in PRIVACY:
                known = ", ".join(PRIVACY)
                raise self.words_file.error(f"unknown privacy '{word[2]}'; known: {known}", "words", name)

    def _types(self, file: _File) -> list[Type]:
        for name, values in file.table.get("enums", {}).items():
            if name in self.enums:
                raise file.error(f"enum '{name}' is declared twice", "enums", name)
            self.enums[name] = tuple(values["values"] if isinstance(values, dict) else values)
            if isinstance(values, dict):
                self.enum_headers[name] = values["cpp"]
        found = []
        for name, table in file.table.items():
            if not name[0].isupper():
                continue
            if name in self.types:
                raise file.error(f"type '{name}' is declared twice", name)
            self.types[name] = self._type(file, name, table)
            self.places[name] = (file, name)
            found.append(self.types[name])
        return found

    def _type(self, file: _File, name: str, table: dict[str, Any]) -> Type:
        members = tuple(self._member(file, name, key, value) for key, value in table.items() if key[0] != "_")
        forms = tuple(map(tuple, table.get("_forms", ())))
        if "_any_of" in table:
            members, forms = self._any_of(file, name, table["_any_of"], members)
        names = [member.name for member in members]
        for key in names:
            if names.count(key) > 1:
                raise file.error(f"member '{key}' of {name} is declared twice", name, key)
        if not table.get("_meaning"):
            raise file.error(f"{name} has no _meaning", name)
        for key in (key for form in forms for key in form if key not in names):
            raise file.error(f"_forms names '{key}', and {name} has no such member", name, "_forms")
        cpp, _, header = table.get("_cpp", "").partition(" ")
        flags = (table.get("_tuple", False), table.get("_library", False))
        rest = table.get("_rest", "")
        no_trend = tuple(table.get("_no_trend", ()))
        return Type(name, table["_meaning"], members, forms, rest, cpp or name, header, *flags, no_trend)

    def _any_of(self, file: _File, section: str, names: list[str], own: tuple[Member, ...]) -> Any:
        """The members of all these types, and the forms that each of them gives. Its own take the place of theirs."""
        found: dict[str, Member] = {}
        forms = []
        for name in names:
            if name not in self.types:
                raise file.error(f"_any_of names '{name}': there is no such type before {section}", section, "_any_of")
            members = list(self._flat(self.types[name].members))
            forms.append(tuple(one.name for one in members if not one.left_out))
            for member in members:
                known = found.setdefault(member.name, member)
                found[member.name] = dataclasses.replace(known, left_out=known.left_out and member.left_out)
        for member in own:
            found[member.name] = member
        return tuple(found.values()), tuple(forms)

    def _flat(self, members: tuple[Member, ...]) -> Iterator[Member]:
        """With the members of merged types in their place; statistics stay as they are."""
        for member in members:
            if member.merged and member.type != "Statistics":
                for one in self._flat(self.types[member.type].members):
                    yield dataclasses.replace(one, left_out=one.left_out or member.left_out)
            else:
                yield member

    def _member(self, file: _File, section: str, key: str, value: str | list[str]) -> Member:
        name = key.strip("+?")
        if isinstance(value, str):
            if name not in self.words:
                raise file.error(f"'{name}' of {section} is not in words.toml: it needs [type, meaning]", section, key)
            value = [self.words[name][0], value or self.words[name][1]]
        if len(value) != 2 or not value[1]:
            raise file.error(f"'{name}' of {section} needs [type, meaning]", section, key)
        return Member(name, value[0], value[1], key.endswith("?"), key.startswith("+"))

    def _question(self, file: _File) -> Question:
        table = file.table
        for key in ("verb", "title", "answer"):
            if not isinstance(table.get(key), str):
                raise file.error(f"a question needs '{key}'")
        types = self._types(file)
        answer = next((one for one in types if one.name == table["answer"]), None)
        if answer is None:
            raise file.error(f"'answer' names {table['answer']}, which is not in this file", key="answer")
        own = tuple(one for one in types if one is not answer and not one.of_library)
        names = (tuple(table.get(key, ())) for key in ("cpp", "cpp_of_command", "python", "page"))
        others = (table.get(key, "") for key in ("library", "or_answer"))
        return Question(table["verb"], table["title"], answer, own, *names, *others)

    def _check_types(self) -> None:
        for name, type in self.types.items():
            file, section = self.places[name]
            for member in type.members:
                for part in parts(member.type):
                    if part not in (*BASIC, "JobArguments", *self.enums, *self.types):
                        raise file.error(f"unknown type '{part}' of '{member.name}'", section, member.name)
