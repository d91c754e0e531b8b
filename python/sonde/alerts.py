"""Findings of a running training, handed to a function of its own: sonde.start(…, on_alert=…).

A program beside the training asks the growing dump (programs/alerts.py, as for `sonde run --alert`). A thread waits for
its findings and calls the function.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import IO, Any, TypeAlias

from .console import launched_rank, report
from .distribution import native_command
from .errors import Error

OnAlert: TypeAlias = Callable[[dict[str, Any]], object]  # gets the finding, as `--json` of first-bad or watch gives it

_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "alerts.py")
_FIRST_BAD = "bad"
_BAD_USAGE = 2  # exit status
_LAST_WORD = 60.0  # seconds for the last question to the dump, and the function


class Alerts:
    """The function is called once for each condition, in a thread; what it raises is one line on stderr."""

    def __init__(self, dump: str, conditions: list[str], on_alert: OnAlert) -> None:
        """Looks at `dump` from now on, until end()."""
        self._on_alert = on_alert
        self._program = _start(_settings(dump, conditions))
        self._thread = threading.Thread(target=self._listen, name="sonde-alerts", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The training has ended, its dump is complete: it is asked once more."""
        assert self._program.stdin is not None
        try:
            self._program.stdin.write(b"end\n")  # a forked child may have the pipe, too, so its end does not show
            self._program.stdin.close()
        except OSError:
            pass  # all is found: the program has ended
        if self._thread is threading.current_thread():
            return  # the function itself ends the session
        self._thread.join(_LAST_WORD)
        if self._thread.is_alive():
            _say(f"on_alert: nothing more is waited for after {_LAST_WORD:.0f} s")

    def _listen(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            self._call(json.loads(line)["finding"])
        self._program.wait()

    def _call(self, finding: dict[str, Any]) -> None:
        try:
            self._on_alert(finding)
        except BaseException as error:  # the training goes on
            text = " ".join(str(error).split())
            _say(f"on_alert: {type(error).__name__}{': ' if text else ''}{text}; the training goes on")


def checked(alert: str | Iterable[str], on_alert: OnAlert | None) -> list[str]:
    """The conditions. Raises Error where a session must not begin with them."""
    conditions = [alert] if isinstance(alert, str) else [str(one) for one in alert]
    if on_alert is None:
        return []
    if not callable(on_alert):
        raise Error(f"on_alert is a function that gets a finding, not {type(on_alert).__name__}")
    if not conditions:
        raise Error("on_alert needs a condition: alert='bad', or one of sonde watch")
    for condition in conditions:
        _check(condition)
    return conditions


def _check(condition: str) -> None:
    """The command knows the conditions, and says what is wrong with one before it opens the dump."""
    if condition == _FIRST_BAD:
        return
    asked = [native_command(), "watch", "--condition", condition, os.devnull]
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == _BAD_USAGE:
        text = done.stderr.decode(errors="replace").strip().removeprefix("sonde: error: ")
        raise Error(f"alert: {text}; or give 'bad' for the first bad value")


def begin(dump: str | None, conditions: list[str], on_alert: OnAlert) -> Alerts | None:
    """Looks for the conditions from now on; None, after a line on stderr, where that cannot be done."""
    try:
        if dump is None:
            raise Error("the directory of the dump is not known")
        return Alerts(dump, conditions, on_alert)
    except (Error, OSError) as error:
        _say(f"on_alert: {error}; nothing is looked for")
        return None


def _settings(dump: str, conditions: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"sonde": native_command(), "dump": dump, "conditions": conditions, "prints": True}
    launched = launched_rank()
    if launched.world_size > 1:
        settings["rank"] = launched.rank  # each looks at its own part
    return settings


def _start(settings: dict[str, Any]) -> "subprocess.Popen[bytes]":
    if not sys.executable:
        raise Error("this Python does not know its own executable")
    program = subprocess.Popen(
        [sys.executable, "-I", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "SONDE_OFF": "1"},
    )
    stdin: IO[bytes] | None = program.stdin
    assert stdin is not None
    stdin.write(json.dumps(settings).encode() + b"\n")
    stdin.flush()
    return program


def _say(text: str) -> None:
    report("failure", f"sonde: {text}")
