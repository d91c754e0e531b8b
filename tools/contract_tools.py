"""The tools of `sonde mcp` (sonde/agents/tool_table.py): verbs with `tool`, and their options with `tool`."""

from __future__ import annotations

import json
import re

from contract_language import Contract, Question
from contract_options import Command, Option

_HEAD = '''"""The tools of `sonde mcp` and their arguments.

Made from contract/ by tools/contract.py: a change here is lost."""

from .tool_base import Argument, Tool

'''
_COMMANDS = "[NextCommand]"  # lines for a shell: an agent has tools
_SERVER = "mcp"  # the verb whose arguments all tools have
_MOST = {"index": 2**32 - 1, "count": 2**64 - 1}


def tools_text(contract: Contract) -> str:
    """Verbs with `tool`, in the order of their names."""
    questions = {question.verb: question for question in contract.questions}
    tensor = {member.name for member in contract.types["Tensor"].members}
    tools = [_tool(one, questions[one.verb], tensor) for one in contract.commands if one.tool]
    server = next(command for command in contract.commands if command.verb == _SERVER)
    own = [f"{option.name.upper()} = {_argument(option, server)}" for option in server.arguments()]
    return "\n".join([_HEAD + "TOOLS = (", *tools, ")", "", "# Arguments of the server itself.", *own, ""])


def _tool(command: Command, question: Question, tensor: set[str]) -> str:
    # The library's function gives the document, unless its answer has another form.
    from_library = command.asks is not None and not question.library
    # Members of a tensor have plain names.
    members = [one for one in question.answer.members if not question.answer.forms or one.name not in tensor]
    not_offered = {f"`{option.flag}`" for option in command.options if not option.tool}
    commands = [one.name for one in members if one.type == _COMMANDS]
    shown = [one for one in members if not one.merged and one.name not in commands]
    answer = [(one.name, _with_names(one.meaning, command)) for one in shown]
    lines = [
        "    Tool(",
        f"        {_text(command.verb.replace('-', '_'))},",
        f"        {_text(command.verb)},",
        f"        {_text(command.tool)},",
        f"        {from_library},",
        "        (",
        *(
            f"            ({_text(name)}, {_text(say)}),"
            for name, say in answer
            if not any(o in say for o in not_offered)
        ),
        "        ),",
        "        (",
        *(f"            {_argument(option, command)}," for option in command.arguments()),
        "        ),",
        *(f"        ({_text(name)},)," for name in commands),
        "    ),",
    ]
    return "\n".join(lines)


def _argument(option: Option, command: Command) -> str:
    facts: dict[str, object] = {"is_list": option.is_list, "is_required": option.required, "is_dump": option.dump}
    facts |= {"choices": option.choices, "separator": option.separator, "default": option.default}
    least, most = option.range or (0 if option.base in _MOST else None, _MOST.get(option.base))
    facts |= {"least": least, "most": most}
    given = [f"{name}={_value(value)}" for name, value in facts.items() if not _is_default(value)]
    help = option.tool_help or option.help
    help = f"{help} ({option.default_text})" if option.default_text else help
    texts = (option.name, option.flag, option.base, _with_names(help, command))
    return f"Argument({', '.join([*map(_text, texts), *given])})"


def _with_names(text: str, command: Command) -> str:
    """Options by the names of arguments: `golden_step` of --golden-step."""
    for option in command.arguments():
        end = r"(?![\w-])"
        text = re.sub(rf"(?<![\w-]){re.escape(option.flag)}{end}", option.name, text)
    return text


def _is_default(value: object) -> bool:
    return value is None or value is False or value in ("", ())


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return f"({''.join(f'{_text(str(one))}, ' for one in value).rstrip()})"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
