"""Arguments of tools: their JSON schema, and the check of what an agent sent."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .dumps import Dumps, NamedDump
from .tool_base import Argument

_LONGEST_TEXT = 4096
_LONGEST_LIST = 256
_SCHEMAS = {"flag": "boolean", "index": "integer", "count": "integer", "integer": "integer", "finite": "number"}


def schema_of(arguments: Sequence[Argument], dumps: Dumps) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {argument.name: _schema(argument, dumps) for argument in arguments},
        "required": [argument.name for argument in arguments if _is_required(argument, arguments, dumps)],
        "additionalProperties": False,
    }


def _is_required(argument: Argument, arguments: Sequence[Argument], dumps: Dumps) -> bool:
    """Of a single dump nobody needs to say the name."""
    return len(dumps.all) > 1 if _is_asked_dump(argument, arguments) else argument.is_required


def _is_asked_dump(argument: Argument, arguments: Sequence[Argument]) -> bool:
    """The dump that the question is about; another one is compared with it."""
    return argument.is_dump and argument is next(one for one in arguments if one.is_dump)


def _schema(argument: Argument, dumps: Dumps) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _SCHEMAS.get(argument.type, "string")}
    if choices := dumps.names() if argument.is_dump else list(argument.choices):
        schema["enum"] = choices
    if argument.least is not None and argument.type != "flag":
        schema["minimum"] = argument.least
    if argument.most is not None:
        schema["maximum"] = argument.most
    if argument.is_list:
        schema = {"type": "array", "items": schema, "maxItems": _LONGEST_LIST}
    return {**schema, "description": argument.help}


def checked(arguments: Sequence[Argument], given: Mapping[str, Any], dumps: Dumps) -> dict[str, Any]:
    """The values by name, with dumps in place of their names. Raises ValueError, which says what is expected."""
    known = {argument.name: argument for argument in arguments}
    for name in given:
        if name not in known:
            raise ValueError(f"no argument {_short(name)}; there are {', '.join(known)}")
    found = {name: _value(known[name], value, dumps) for name, value in given.items() if value is not None}
    for argument in arguments:
        if argument.name in found:
            continue
        if _is_required(argument, arguments, dumps):
            there_are = f"; there are {dumps.listed()}" if argument.is_dump else ""
            raise ValueError(f"argument '{argument.name}' is missing: {argument.help}{there_are}")
        if _is_asked_dump(argument, arguments):
            found[argument.name] = dumps.all[0]
    _refuse_other_files(found, dumps)
    return found


def _refuse_other_files(values: Mapping[str, Any], dumps: Dumps) -> None:
    dump = next((value for value in values.values() if isinstance(value, NamedDump)), dumps.all[0])
    for value in values.values():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                dumps.refuse_other_files(text, dump)


def _value(argument: Argument, value: Any, dumps: Dumps) -> Any:
    if argument.is_dump:
        return dumps.find(value)
    if not argument.is_list:
        return _one(argument, value)
    values = value if isinstance(value, list) else [value]
    if len(values) > _LONGEST_LIST:
        raise ValueError(f"argument '{argument.name}': expected at most {_LONGEST_LIST} values, found {len(values)}")
    return [_one(argument, one) for one in values]


def _one(argument: Argument, value: Any) -> Any:
    if argument.type == "flag":
        expected, good = "true or false", isinstance(value, bool)
    elif argument.type in ("index", "count", "integer"):
        expected, good = _whole_number(argument), _is_whole(value) and _is_in_range(argument, value)
    elif argument.type == "finite":
        expected, good = "a number", _is_number(value) and math.isfinite(value)
    elif argument.type == "numbers":
        value = _numbers_text(value)
        expected, good = "a text such as '3', '0-5' or '1|4'", isinstance(value, str) and len(value) <= _LONGEST_TEXT
    elif argument.choices:
        expected, good = f"one of {', '.join(argument.choices)}", value in argument.choices
    else:
        expected = f"a text of at most {_LONGEST_TEXT} characters"
        good = isinstance(value, str) and len(value) <= _LONGEST_TEXT and "\0" not in value
    if not good:
        raise ValueError(f"argument '{argument.name}': expected {expected}, found {_short(value)}")
    return value


def _whole_number(argument: Argument) -> str:
    if argument.least is None or argument.most is None:
        return "a whole number"
    return f"a whole number from {argument.least} to {argument.most}"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_in_range(argument: Argument, value: int) -> bool:
    return (argument.least is None or argument.least <= value) and (argument.most is None or value <= argument.most)


def _numbers_text(value: Any) -> Any:
    """`1|4` of [1, 4], which agents write too."""
    numbers = value if isinstance(value, list) else [value]
    return "|".join(map(str, numbers)) if numbers and all(map(_is_whole, numbers)) else value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"
