"""Answers of the verbs: from the library's function where it gives the same document, or else from the command."""

import json
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.to_thread

from .. import analyses, remote
from ..errors import Error
from ..msaccucmp import sonde_program
from .dumps import Dumps, NamedDump, directory_of
from .tool_base import Tool

_MOST_BYTES = 64 << 20  # of an answer
_MOST_SECONDS = 600
_SMALLER = "ask about a part of the dump: a step, a rank, a selection of ops"


async def answer(tool: Tool, values: Mapping[str, Any], dumps: Dumps) -> dict[str, Any]:
    """The document of docs/json. Raises ValueError or Error with a message for the agent."""
    try:
        with anyio.fail_after(_MOST_SECONDS):
            return await (_of_library if tool.from_library else _of_command)(tool, values, dumps)
    except TimeoutError:
        raise Error(f"no answer within {_MOST_SECONDS} s; {_SMALLER}") from None


async def _of_library(tool: Tool, values: Mapping[str, Any], dumps: Dumps) -> dict[str, Any]:
    function: Callable[..., Any] = getattr(analyses, tool.name)
    paths = [value.path for value in _dumps_of(tool, values)]
    others = {name: value for name, value in values.items() if not isinstance(value, NamedDump)}

    def ask() -> dict[str, Any]:
        return dict(function(*paths, **others).document)

    found: dict[str, Any] = await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    return found


async def _of_command(tool: Tool, values: Mapping[str, Any], dumps: Dumps) -> dict[str, Any]:
    program = sonde_program()
    if program is None:
        raise Error("the program 'sonde' is neither beside this package nor on PATH")
    dump = next(iter(_dumps_of(tool, values)), dumps.all[0])
    output = await _output_of([program, tool.verb, *words_of(tool, values)], directory_of(dump))
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError:
        raise Error(f"`sonde {tool.verb}` ended without an answer; {_SMALLER}") from None
    if "error" in found:
        raise Error(found["error"]["message"])
    return found


def words_of(tool: Tool, values: Mapping[str, Any]) -> list[str]:
    """The arguments of the command; after `--` no value is an option."""
    words, places = ["--json"], []
    for argument in tool.arguments:
        value = values.get(argument.name)
        if value is None or value is False:
            continue
        if argument.separator:
            value = argument.separator.join(value)
        for one in value if isinstance(value, list) else [value]:
            text = one.path if isinstance(one, NamedDump) else str(one)
            if not argument.is_named:
                places.append(text)
            else:
                words.append(argument.flag if value is True else f"{argument.flag}={text}")
    return [*words, "--", *places]


def _dumps_of(tool: Tool, values: Mapping[str, Any]) -> list[NamedDump]:
    """In the order of the verb's arguments."""
    return [values[one.name] for one in tool.arguments if one.is_dump and one.name in values]


async def _output_of(command: list[str], directory: str) -> bytes:
    """Standard output. The process ends with the question, also if the agent takes it back."""
    nothing = subprocess.DEVNULL
    output = bytearray()
    environment = remote.environment()
    async with await anyio.open_process(
        command, cwd=directory, stdin=nothing, stderr=nothing, env=environment
    ) as process:
        assert process.stdout is not None
        async for part in process.stdout:
            output += part
            if len(output) > _MOST_BYTES:
                process.kill()
                raise Error(f"the answer is larger than {_MOST_BYTES >> 20} MiB; {_SMALLER}")
    return bytes(output)
