"""Messages to the user of this process, and the user's environment variables."""

import contextlib
import functools
import json
import os
import sys

_MOST_RANKS = 2**31 - 1


def report(kind: str, text: str) -> None:
    """Say `text` to the user: in the report of `sonde run` when it started this process, else on stderr.

    `kind` is "started", "refused", "summary", "warning", "notice", "failure", "observed" or "unobserved". Failures and
    notices go to stderr at once in either case. `sonde run` has printed the warnings itself, when it read the
    configuration.
    """
    path = os.environ.get("SONDE_RUN_REPORT")
    if path:
        entry = {"kind": kind, "text": text, "pid": os.getpid(), "rank": os.environ.get("RANK", "")}
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
    if kind in ("failure", "notice") or (kind in ("warning", "summary") and not path):
        lines = (line if line.startswith("sonde") else f"sonde: {line}" for line in text.splitlines())
        _write_to_stderr("".join(line + "\n" for line in lines))


@functools.cache
def say_once(text: str) -> None:
    """report() a failure, only once."""
    report("failure", text)


def number_from(variable: str, default: int) -> int:
    """The number in an environment variable: a rank, or a count; `default`, with a message, if it is not a number."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_RANKS)) and int(text) <= _MOST_RANKS:
        return int(text)
    say_once(f"sonde: {variable}={text!r} is not a number from 0 to {_MOST_RANKS}; using {default}")
    return default


def _write_to_stderr(text: str) -> None:
    """Bypasses the stream's own buffer if it has a file: text that cannot be written there fails again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        try:
            descriptor = sys.stderr.fileno()
        except (OSError, ValueError, AttributeError):  # as in a notebook or a test
            sys.stderr.write(text)
            sys.stderr.flush()
        else:
            sys.stderr.flush()
            os.write(descriptor, text.encode(errors="backslashreplace"))
