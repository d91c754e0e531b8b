"""Options: of the command, of Python's functions, of the server's jobs, and their tables in the documents.

    [options]                                       of a question
    rtol = ["finite?", "help", { unit = "X" }]      type, help, and what else is known of it (the members of Option)
    step = ""                                       as options.toml declares it
    DUMP = "another help"                           the same with another help; a capital: an argument without a name
    json = { needs = ["prove"] }                    the same with other facts
    rank = { tool = true }                          an argument of the verb's tool (contract_tools.py)

`asks` names the struct of the library's question, which has the options with `asked` and those of its sets; `sets` are
the structs that the command's options begin with. Sets are declared in options.toml: `[sets.Part]`."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

from contract_text import MADE, cpp_file, each_of

_WIDTH = 92  # of the help in the right column of --help
TYPES = {
    "text": "std::string",
    "path": "std::filesystem::path",
    "numbers": "std::string",  # a list of numbers: 3, 0-5 or 1|4
    "count": "std::uint64_t",
    "index": "std::uint32_t",
    "integer": "std::int64_t",
    "finite": "double",
    "flag": "bool",
}


@dataclasses.dataclass(frozen=True)
class Option:
    key: str
    type: str
    help: str
    unit: str = ""
    default: str | int | None = None
    short: str = ""  # a letter
    required: bool = False
    choices: tuple[str, ...] = ()
    range: tuple[int, ...] = ()
    most: int = 0  # words of a list; 0: any number
    separator: str = ""  # between the values of a list that are one word
    excludes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    member: str = ""  # the name in C++ and Python, if it is another one
    command: bool = True  # an option of the command
    asked: bool = False  # of the library's question, too
    job: bool = False  # of a job of the server
    job_name: str = ""  # the name there, if it is another one
    job_help: str = ""
    job_value: str = ""  # a job says only whether: the value then
    tool: bool = False  # an argument of a tool of `sonde mcp`: it writes nothing, and names no path
    tool_help: str = ""
    dump: bool = False  # the value is a dump
    output: bool = False  # the value is a file or directory to write

    @property
    def is_named(self) -> bool:
        return not self.key[0].isupper()

    @property
    def name(self) -> str:
        return self.member or self.key.lower()

    @property
    def flag(self) -> str:
        return f"--{self.key.replace('_', '-')}" if self.is_named else self.key

    @property
    def is_list(self) -> bool:
        return self.type.startswith("[")

    @property
    def base(self) -> str:
        return self.type.strip("[]?")

    @property
    def default_text(self) -> str:
        """What a reader must learn of the default; empty where the help says it."""
        return f"default: {self.default}" if self.default is not None and "default" not in self.help else ""

    @property
    def argument(self) -> str:
        return self.job_name or self.name


@dataclasses.dataclass(frozen=True)
class OptionSet:
    """Options that are a struct of C++."""

    name: str
    meaning: str
    sets: tuple[OptionSet, ...]
    own: tuple[Option, ...]
    header: str = ""  # of a struct that is written by hand

    def all(self) -> Iterator[Option]:
        for one in self.sets:
            yield from one.all()
        yield from self.own


@dataclasses.dataclass(frozen=True)
class Command:
    """The options of a verb."""

    verb: str
    help: str
    footer: str
    options: tuple[Option, ...]
    struct: OptionSet
    asks: OptionSet | None
    tool: str  # the help of its tool of `sonde mcp`; empty: it has none

    def jobs(self) -> list[Option]:
        return [option for option in self.options if option.job]

    def arguments(self) -> list[Option]:
        """Those of the tool."""
        return [option for option in self.options if option.tool]


class OptionReader:
    """Reads `[options]`. A file has `table` and `error(message, section, key)`."""

    def __init__(self, file: Any) -> None:
        self.sets: dict[str, OptionSet] = {}
        self.shared: dict[str, Option] = {}
        self.shared = self._options(file)
        self.arguments = tuple(self._options(file, "arguments").values())
        self.everywhere = tuple(self._options(file, "everywhere").values())
        for option in self.everywhere:
            if not option.choices:
                raise file.error(f"option '{option.key}' needs 'choices'", "everywhere", option.key)
        for name, table in file.table.get("sets", {}).items():
            own = tuple(self._shared(file, key, f"sets.{name}") for key in table["options"])
            parents = self._sets(file, table.get("sets", ()))
            self.sets[name] = OptionSet(name, table["meaning"], parents, own, table.get("header", ""))

    def command(self, file: Any) -> Command:
        table = file.table
        for key in ("help", "footer"):
            if not table.get(key):
                raise file.error(f"a verb needs '{key}'")
        options = tuple(self._options(file).values())
        asks = self._asks(file, table["asks"], options) if "asks" in table else None
        sets = self._sets(file, table.get("sets", ()), asks)
        known = {option.name for one in sets for option in one.all()}
        own = {option.name: option for option in options if option.command and option.name not in known}
        name = "".join(word.capitalize() for word in table["verb"].split("-")) + "Command"
        meaning = f"The options of sonde {table['verb']}."
        struct = OptionSet(name, meaning, sets, tuple(own.values()))
        tool = table.get("tool", "")  # true: the same help
        tool = table["help"] if tool is True else tool
        return Command(table["verb"], table["help"], table["footer"], options, struct, asks, tool)

    def _asks(self, file: Any, table: dict[str, Any], options: tuple[Option, ...]) -> OptionSet:
        if table["name"] in self.sets:
            return self.sets[table["name"]]
        asked = tuple(option for option in options if option.asked)
        return OptionSet(
            table["name"], f"The question of {file.table['verb']}.", self._sets(file, table["sets"]), asked
        )

    def _sets(self, file: Any, names: list[str], asks: OptionSet | None = None) -> tuple[OptionSet, ...]:
        for name in names:
            if name not in self.sets and (asks is None or asks.name != name):
                raise file.error(f"unknown set '{name}'; options.toml has {', '.join(self.sets)}", key="sets")
        return tuple(asks if asks is not None and asks.name == name else self.sets[name] for name in names)

    def _shared(self, file: Any, key: str, section: str) -> Option:
        if key not in self.shared:
            raise file.error(f"option '{key}' is not in options.toml: it needs [type, help]", section, key)
        return self.shared[key]

    def _options(self, file: Any, section: str = "options") -> dict[str, Option]:
        options = {key: self._option(file, key, value) for key, value in file.table.get(section, {}).items()}
        names: dict[str, Option] = {}
        for option in options.values():
            for name in {option.flag, f"-{option.short}"} - {"-"}:
                if name in names:
                    raise file.error(f"option '{name}' is declared twice", "options", option.key)
                names[name] = option
            for other in (*option.excludes, *option.needs):
                if other not in options:
                    raise file.error(f"option '{option.key}' names '{other}', which is none", "options", option.key)
        return options

    def _option(self, file: Any, key: str, value: str | list[Any] | dict[str, Any]) -> Option:
        where = ("options", key)
        if isinstance(value, str):
            shared = self._shared(file, key, "options")
            return dataclasses.replace(shared, help=value or shared.help)
        facts = value if isinstance(value, dict) else value[2] if len(value) == 3 else {}
        facts = {name: tuple(fact) if isinstance(fact, list) else fact for name, fact in facts.items()}
        known = {field.name for field in dataclasses.fields(Option)} - {"key"}
        for name in facts:
            if name not in known:
                raise file.error(f"unknown fact '{name}' of option '{key}'", *where)
        if isinstance(value, dict):
            return dataclasses.replace(self._shared(file, key, "options"), **facts)
        if len(value) not in (2, 3) or not isinstance(value[1], str) or not value[1].strip():
            raise file.error(f"option '{key}' needs [type, help]", *where)
        option = Option(key, value[0], value[1].strip(), **facts)
        if option.base not in TYPES:
            raise file.error(f"unknown type '{option.type}' of option '{key}'; known: {', '.join(TYPES)}", *where)
        if option.tool and (option.base == "path" or option.unit == "FILE"):
            raise file.error(f"option '{key}' names a file: it cannot be an argument of a tool", *where)
        return option


# --- C++ --------------------------------------------------------------------------------------------------------------


def class_of(option: Option) -> str:
    plain = TYPES[option.base]
    if option.is_list:
        return f"std::vector<{plain}>"
    return f"std::optional<{plain}>" if option.type.endswith("?") else plain


def _initial(option: Option) -> str:
    if option.default is not None:
        return f" = {_quoted(option.default) if isinstance(option.default, str) else option.default}"
    if option.is_list or option.type.endswith("?"):
        return ""
    return {"flag": " = false", "count": " = 0", "index": " = 0", "integer": " = 0", "finite": " = 0"}.get(
        option.base, ""
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def struct_lines(one: OptionSet, with_help: bool) -> list[str]:
    bases = ", ".join(base.name for base in one.sets)
    lines = [f"// {one.meaning}", f"struct {one.name}{f' : {bases}' if bases else ''} {{"]
    for option in one.own:
        lines += [f"  // {line}" for line in textwrap.wrap(option.help, 115)] if with_help else []
        lines.append(f"  {class_of(option)} {option.name}{_initial(option)};")
    return [*lines, "};", ""]


def questions(commands: list[Command]) -> list[OptionSet]:
    """Those of the library, each after its sets."""
    found: dict[str, OptionSet] = {}
    for command in commands:
        for one in (*command.asks.sets, command.asks) if command.asks else ():
            found[one.name] = one
    return list(found.values())


def questions_text(commands: list[Command]) -> str:
    """sonde/questions.h."""
    found = questions(commands)
    headers = " ".join(f'"{name}"' for name in sorted(one.header for one in found if one.header))
    about = f"The questions of the analyses (sonde/findings.h).\n{MADE}: a change here is lost."
    lines = [line for one in found if not one.header for line in struct_lines(one, with_help=True)]
    return cpp_file(about, f"<cstdint> <filesystem> <optional> <string> <vector> {headers}", lines)


def fields_text(commands: list[Command]) -> str:
    """contract/question_fields.h: the options of each question by their names in Python."""
    lines = []
    for one in questions(commands):
        lines += ["template <typename Visit>", f"void for_each_option({one.name}& question, const Visit& visit) {{"]
        lines += [f'  visit("{option.name}", question.{option.name});' for option in one.all()]
        lines += ["}", ""]
    return cpp_file(f"{MADE}.", '"sonde/questions.h"', lines)


def _facts(option: Option, command: Command) -> str:
    others = {other.key: other.flag for other in command.options}
    excludes = [others[key] for key in option.excludes if key in others]
    name = f"-{option.short},{option.flag}" if option.short else option.flag
    help = f"{option.help} ({option.default_text})" if option.default_text else option.help
    help = "\n".join(textwrap.wrap(help, _WIDTH, break_on_hyphens=False))
    unit = option.unit or ("WORD" if option.choices and option.is_named else "")
    facts: dict[str, Any] = {"name": name, "help": help, "unit": unit}
    facts |= {"choices": "|".join(option.choices), "excludes": "|".join(excludes)}
    facts["needs"] = "|".join(others[key] for key in option.needs)
    facts["numbers"] = f"{option.key.split('_')[-1]}s" if option.base == "numbers" else ""
    parts = [f".{key} = {_quoted(value)}" for key, value in facts.items() if value]
    parts += [f".least = {option.range[0]}", f".most = {option.range[1]}"] if option.range else []
    parts += [f".words = {option.most}"] if option.most else []
    separator = option.separator or ("," if option.is_list and option.base == "integer" else "")
    parts += [f".separator = '{separator}'"] if separator else []
    parts += [".is_required = true"] if option.required else []
    parts += [".is_dump = true"] if option.dump else []
    parts += [".is_output = true"] if option.output else []
    return "{" + ", ".join(parts) + "}"


def _everywhere_lines(options: tuple[Option, ...]) -> list[str]:
    """Options of the command itself: each takes one of its choices."""
    lines = []
    for option in options:
        name = "k" + option.name.replace("_", " ").title().replace(" ", "")
        choices = ", ".join(f"std::string_view({_quoted(choice)})" for choice in option.choices)
        lines += [f"inline constexpr std::string_view {name}Flag = {_quoted(option.flag)};"]
        lines += [f"inline constexpr std::string_view {name}Help = {_quoted(option.help)};"]
        lines += [f"inline constexpr std::array {name}Choices{{{choices}}};", ""]
    return lines


def commands_text(commands: list[Command], everywhere: tuple[Option, ...]) -> str:
    """contract/commands.h: the options of each verb, with all that the command line needs."""
    lines = _everywhere_lines(everywhere)
    public = {one.name for one in questions(commands)}
    made = set(public)
    for command in commands:
        for one in (*command.struct.sets, command.struct):
            if one.name not in made:
                lines += struct_lines(one, with_help=False)
                made.add(one.name)
        name = command.struct.name
        lines += ["template <>", f"struct Options<{name}> {{"]
        lines += [f"  static constexpr const char* verb = {_quoted(command.verb)};"]
        lines += [f"  static constexpr const char* help = {_quoted(command.help)};"]
        lines += ["  static constexpr const char* footer ="]
        *rows, last = command.footer.strip("\n").splitlines()
        lines += [f"      {_quoted(row + chr(10))}" for row in rows] + [f"      {_quoted(last)};"]
        shown = [option for option in command.options if option.command]
        lines += each_of([f"Option{{&{name}::{option.name}, {_facts(option, command)}}}" for option in shown])
        lines += ["};", ""]
    headers = '<array> <string_view> "ground/contract/option.h" "sonde/questions.h"'
    return cpp_file(f"The options of the verbs. {MADE}.", headers, lines)


def jobs_text(commands: list[Command]) -> str:
    """contract/jobs.h: the arguments of jobs, with the options of the command that they become."""
    lines = ["enum class JobType : std::uint8_t { text, texts, count, number, flag };", ""]
    lines += ["struct JobOption {", "  std::string_view verb, argument, option;", "  JobType type;", "};", ""]
    lines += ["inline constexpr JobOption kJobOptions[] = {"]
    types = {"index": "count", "count": "count", "finite": "number", "flag": "flag"}
    for command in commands:
        for option in command.jobs():
            type = "flag" if option.job_value else "texts" if option.is_list else types.get(option.base, "text")
            flag = f"{option.flag}={option.job_value}" if option.job_value else option.flag
            lines.append(f'    {{"{command.verb}", "{option.argument}", "{flag}", JobType::{type}}},')
    about = f"The arguments of the server's jobs. {MADE}."
    return cpp_file(about, "<cstdint> <string_view>", [*lines, "};"], "sonde::server")


# --- other faces ------------------------------------------------------------------------------------------------------

_SCHEMAS: dict[str, dict[str, Any]] = {
    "index": {"type": "integer", "minimum": 0},
    "count": {"type": "integer", "minimum": 0},
    "finite": {"type": "number"},
    "flag": {"type": "boolean"},
}
_PYTHON = {"count": "int", "index": "int", "integer": "int", "finite": "float", "flag": "bool", "numbers": "Steps"}
_PYTHON |= {"path": "str | os.PathLike[str]"}
_WEB = {"index": "number", "count": "number", "finite": "number", "flag": "boolean"}


def _job_arguments(contract: Any) -> dict[str, tuple[Option, str]]:
    """Each with its meaning: of the first verb that has it, and the verbs."""
    found = {option.argument: (option, option.help) for option in contract.arguments}
    for command in contract.commands:
        for option in command.jobs():
            verbs = [one.verb for one in contract.commands if option.argument in {job.argument for job in one.jobs()}]
            meaning = f"{', '.join(verbs)}: {option.job_help or option.help}"
            found.setdefault(option.argument, (option, meaning))
    return found


def job_schema(contract: Any) -> dict[str, Any]:
    """The arguments of jobs, as a JSON schema."""
    schema = {}
    for name, (option, meaning) in _job_arguments(contract).items():
        type = {"type": "boolean"} if option.job_value else _SCHEMAS.get(option.base, {"type": "string"})
        type = {"enum": list(option.choices)} if option.choices else type
        type = {"type": "array", "items": type} if option.is_list else type
        schema[name] = {**type, "description": meaning}
    return {
        "description": "The arguments of jobs.",
        "type": "object",
        "properties": schema,
        "required": [],
        "additionalProperties": False,
    }


def job_interface(contract: Any) -> str:
    """The same in TypeScript."""
    lines = ["// The arguments of jobs.", "export interface JobArguments {"]
    for name, (option, meaning) in _job_arguments(contract).items():
        type = "boolean" if option.job_value else _WEB.get(option.base, "string")
        type = " | ".join(f'"{choice}"' for choice in option.choices) or type
        type = f"readonly {type}[]" if option.is_list else type
        lines.append(f"  readonly {name}?: {type}; // {meaning}")
    return "\n".join([*lines, "}", ""])


def python_classes(commands: list[Command]) -> list[str]:
    """The keyword arguments of Python's functions."""
    classes = []
    for one in questions(commands):
        if one.header:
            continue
        bases = [base for base in one.sets if not base.header]
        own = [*(option for base in one.sets if base.header for option in base.own), *one.own]
        lines = [f"class {one.name}({', '.join(base.name for base in bases) or 'TypedDict'}, total=False):"]
        lines += [f'    """{one.meaning}', ""]
        lines += [f"    {option.name}: {option.help}" for option in one.all()]
        lines += ['    """', ""]
        lines += [f"    {option.name}: {_annotation(option)}" for option in own]
        classes.append("\n".join([*lines, ""]))
    return classes


def _annotation(option: Option) -> str:
    type = _PYTHON.get(option.base, "str")
    if option.is_list:
        type = f"{type} | Sequence[{type}]" if type == "str" else f"Sequence[{type}]"
    return type if type == "Steps" else f"{type} | None"


def table(options: tuple[Option, ...]) -> list[str]:
    """Options as a table of a document."""
    lines = ["| option | |", "| --- | --- |"]
    for option in options:
        value = f" {option.unit or option.base.upper()}" if option.base != "flag" and option.is_named else ""
        names = f"-{option.short}, {option.flag}" if option.short else option.flag
        help = option.help.replace("|", "\\|")
        where = [] if option.command else ["tools alone" if option.tool else "Python alone"]
        where += ["required"] if option.required else []
        where += [option.default_text] if option.default_text else []
        more = f" ({'; '.join(where)})" if where else ""
        lines.append(f"| `{names}{value}` | {help}{more} |")
    return lines
