"""The output of verbs that the package answers, in the same form as the other verbs' (cli/answer.h).

Text from a dump never controls a terminal; with --json the answer is one document with its problems.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from . import dump as dumps
from .dump import Dump
from .errors import Error

# Controls, marks of direction, ends of lines, and replacements of bytes that are not UTF-8.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(match: "re.Match[str]") -> str:
    character = match[0]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name
        return f"\\x{code - 0xDC00:02x}"
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable(text: object) -> str:
    """One line of text without terminal commands: `\\x1b`, `\\n`, `\\u202e` in place of control characters."""
    return _UNSAFE.sub(_escape, str(text))


class Answer:
    """The answer of one call."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._problems: list[dict[str, str]] = []
        self._warnings: list[str] = []
        self._error: dict[str, object] | None = None
        self._incomplete = False

    def problem(self, path: object, message: object, *, incomplete: bool = True) -> None:
        """Adds a file that could not be read; the rest is still processed. `incomplete`: the exit status is 3."""
        self._incomplete |= incomplete
        self._problems.append({"path": str(path), "message": str(message)})
        if len(self._problems) <= 10:
            print(f"sonde: warning: {printable(f'{path}: {message}' if path else message)}", file=sys.stderr)

    def warning(self, message: str) -> None:
        """Adds another fact that the user should know."""
        self._warnings.append(message)
        print(f"sonde: warning: {printable(message)}", file=sys.stderr)

    def error(self, message: object, status: int) -> int:
        """Reports the reason why there is no answer. Returns the status."""
        self._error = {"message": str(message), "status": status}
        print(f"sonde: error: {printable(message)}", file=sys.stderr)
        return status

    def finish(self, status: int, document: dict[str, Any], lines: Iterable[str]) -> int:
        """Prints the document, or the lines. Returns the exit status."""
        if len(self._problems) > 10:
            print(f"sonde: warning: {len(self._problems) - 10} more problems (--json lists all)", file=sys.stderr)
        if self._as_json:
            document |= {"problems": self._problems, "warnings": self._warnings}
            if self._error is not None:
                document["error"] = self._error
            lines = [json.dumps(document, indent=2)]
        else:
            lines = map(printable, lines)
        try:
            for line in lines:
                print(line)
            sys.stdout.flush()
        except OSError as error:
            print(f"sonde: error: cannot write to standard output: {error.strerror}", file=sys.stderr)
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # buffered text must not fail again at the end
            return 3
        return 3 if self._incomplete and status == 0 else status


Answered: TypeAlias = tuple[int, dict[str, Any], Iterable[str]]  # exit status, document, lines


def answered(request_text: str, ask: Callable[[Mapping[str, Any], Answer], Answered], nothing: dict[str, Any]) -> int:
    """The program of a verb: asks with the request, which is its options as JSON, and prints the answer. `nothing`: the
    document of an error. Returns the exit status."""
    request = json.loads(request_text)
    answer = Answer(request.get("json", False))
    try:
        status, document, lines = ask(request, answer)
    except (ValueError, ImportError) as error:
        status, document, lines = answer.error(error, 2), nothing, []
    except (Error, OSError) as error:
        status, document, lines = answer.error(error, 3), nothing, []
    return answer.finish(status, document, lines)


def opened(request: Mapping[str, Any], answer: Answer, *, incomplete: bool = True) -> Dump:
    """The dump of a request; files in it that cannot be read are problems of the answer. Raises Error."""
    dump = dumps.open(request["dump"])
    for problem in dump.problems:
        answer.problem(problem.path, problem.message, incomplete=incomplete)
    return dump
