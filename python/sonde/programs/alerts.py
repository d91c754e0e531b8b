"""Beside a training that is recorded: asks the growing dump, and passes the first finding of each condition on.

`sonde run --alert` and sonde.start(on_alert=…) start it. The first line of standard input is JSON with `sonde` (the
command), `dump`, `conditions`, and where given `rank`, `command`, `url`, `stop`, the process that gets SIGTERM, and
`prints`: findings go to standard output, each a line of JSON with `condition` and `finding`. More on standard input, or
its end, is the end of the training: the dump is asked once more.
"""

import base64
import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, List, Optional

Settings = Dict[str, Any]

FIRST_BAD = "bad"
REST = 19  # it asks for at most one of 20 seconds
COMMAND_SECONDS = 60
URL_SECONDS = 10
FOUND = 1  # exit status of first-bad and watch


def say(text: str) -> None:
    """A line beside those of the training."""
    print(f"sonde: alert: {text}", file=sys.stderr, flush=True)


def has_ended(seconds: float) -> bool:
    """Whether standard input has ended after that time."""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def question(condition: str) -> List[str]:
    """The verb that asks for a condition."""
    return ["first-bad"] if condition == FIRST_BAD else ["watch", "--condition", condition]


def ask(settings: Settings, condition: str, *options: str) -> Optional[str]:
    """The answer's text; None: there is no finding, or the dump cannot be read yet."""
    of_rank = ["--rank", str(settings["rank"])] if "rank" in settings else []
    asked = [settings["sonde"], *question(condition), *of_rank, *options, settings["dump"]]
    pipe = subprocess.PIPE
    try:
        done = subprocess.run(asked, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, check=False)
    except OSError:  # `sonde run` was killed, and its program is not there any more
        return None
    return done.stdout.decode() if done.returncode == FOUND else None


def in_a_line(condition: str, text: str) -> str:
    """The operator and its line of `first-bad`, the first row of `watch`."""
    lines = [" ".join(line.split()) for line in text.splitlines()[:2]]
    return ", ".join(lines).replace("first bad: ", "", 1) if condition == FIRST_BAD else "".join(lines[1:])


def run_command(settings: Settings, condition: str, document: str) -> None:
    """The user's command, with the finding on its standard input."""
    variables = {"SONDE_ALERT": condition, "SONDE_ALERT_DUMP": settings["dump"]}
    try:
        done = subprocess.run(
            settings["command"],
            shell=True,
            input=document.encode(),
            stdout=sys.stderr,
            env={**os.environ, **variables},
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        say(f"the command of --alert-command was ended after {COMMAND_SECONDS} s")
        return
    if done.returncode != 0:
        say(f"the command of --alert-command ended with status {done.returncode}")


def post(url: str, document: str) -> None:
    """Posts the finding. An address may hold a password: only its host is printed."""
    parts = urllib.parse.urlsplit(url)
    host, headers = parts.hostname, {"Content-Type": "application/json"}
    account, _, place = parts.netloc.rpartition("@")
    if account:
        token = base64.b64encode(urllib.parse.unquote_to_bytes(account)).decode()
        headers["Authorization"] = f"Basic {token}"
    request = urllib.request.Request(parts._replace(netloc=place).geturl(), document.encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=URL_SECONDS):
            pass
    except urllib.error.HTTPError as error:
        say(f"{host} answered with status {error.code}")
    except (OSError, ValueError) as error:
        say(f"nothing was posted to {host}: {getattr(error, 'reason', error)}")


def alert(settings: Settings, condition: str, document: str) -> None:
    """Passes a finding on."""
    if "prints" in settings:
        print(json.dumps({"condition": condition, "finding": json.loads(document)}), flush=True)
        return
    say(f"{condition}: {in_a_line(condition, ask(settings, condition) or '')}")
    if "command" in settings:
        run_command(settings, condition, document)
    if "url" in settings:
        post(settings["url"], document)
    if "stop" in settings:
        say("the command is ended")
        with contextlib.suppress(ProcessLookupError):
            os.kill(settings["stop"], signal.SIGTERM)


def main(settings: Settings) -> None:
    """Until all conditions are found, or the training has ended."""
    os.nice(10)
    waiting, pause = list(settings["conditions"]), 1.0
    while waiting:
        is_last = has_ended(pause)
        if is_last and pause > REST:  # a second or more
            say("the dump is asked once more")
        started = time.monotonic()
        for condition in waiting[:] if pathlib.Path(settings["dump"]).is_dir() else ():
            document = ask(settings, condition, "--json")
            if document is not None:
                waiting.remove(condition)
                alert(settings, condition, document)
        if is_last or ("stop" in settings and len(waiting) < len(settings["conditions"])):
            return
        pause = max(1.0, REST * (time.monotonic() - started))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, for the training: its end comes by standard input
    with contextlib.suppress(BrokenPipeError):  # who started it is gone
        main(json.loads(sys.stdin.buffer.readline()))
