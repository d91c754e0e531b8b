"""The code blocks of a document: how they are marked, run and compared.

A block is a session (its first line begins with `$ `), shell commands (```sh), Python (with or without `>>>`) or JSON.
Marks are HTML comments above a block, so that a reader of the document does not see them:

    <!-- first: COMMANDS -->      what is run before the block, in its language; may take several lines
    <!-- file: NAME -->           the block is the text of this file
    <!-- instead: COMMAND -->     what is run in place of the block's only command
    <!-- exits: 0 1 -->           the exit statuses of the commands, where one is not 0
    <!-- output -->               the block is what the Python block above it prints
    <!-- varies: REGEX -->        what it matches may be another text each time
    <!-- needs: .venv-NAME -->    the block runs where the checkout has this environment, whose commands come first
    <!-- not run: REASON -->
"""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from processes import _OURS, python_file

CHECKOUT = pathlib.Path(__file__).parents[2]
PROGRAMS = pathlib.Path(__file__).parent / "documents"
MARKS = ("first", "file", "instead", "exits", "output", "varies", "needs", "not run")
PLACES = re.compile(r"(?<![\w./$}-])/(data|abs)\b")  # folders of the documents, which lie below the test's own


@dataclasses.dataclass
class Block:
    """Lines `begin` to `end` of the document, without the fences."""

    begin: int
    end: int
    language: str
    lines: list
    marks: dict

    @property
    def kind(self):
        if "not run" in self.marks or "output" in self.marks:
            return "text"
        if not self.language and self.lines and self.lines[0].startswith("$ "):
            return "session"
        if self.language == "python":
            return "doctest" if self.lines[0].startswith(">>> ") else "python"
        return {"sh": "commands", "json": "json"}.get(self.language, "unknown")


def blocks_of(text):
    """The code blocks of a document, in order."""
    blocks, marks, lines, at = [], {}, text.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("<!--"):
            comment = [line.removeprefix("<!--")]
            while "-->" not in lines[at]:
                at += 1
                comment.append(lines[at])
            key, _, value = "\n".join(comment).rpartition("-->")[0].strip().partition(":")
            if key not in MARKS or key in marks:
                raise ValueError(f"line {at + 1}: '{key}' is not a mark, or is there twice")
            marks[key] = value.strip()
        elif line.startswith("```"):
            begin = at + 1
            while lines[at + 1] != "```":
                at += 1
            at += 1
            blocks.append(Block(begin, at, line[3:], lines[begin:at], marks))
            marks = {}
        elif line.strip() and marks:
            raise ValueError(f"line {at + 1}: the mark above belongs to no code block")
        at += 1
    return blocks


@dataclasses.dataclass
class Step:
    """A command of a block, the lines shown below it, and where these are in the block."""

    source: str
    begin: int
    shown: list


def environments_of(text):
    """The environments that the blocks of a document need; None is the one of the tests."""
    return [None, *sorted({block.marks["needs"] for block in blocks_of(text) if "needs" in block.marks})]


def session_steps(block):
    """The commands of a session: `$ ` begins one, a backslash at its end continues it."""
    steps, at = [], 0
    while at < len(block.lines):
        source = block.lines[at].removeprefix("$ ")
        while source.endswith("\\"):
            at += 1
            source += "\n" + block.lines[at]
        begin = at = at + 1
        while at < len(block.lines) and ("instead" in block.marks or not block.lines[at].startswith("$ ")):
            at += 1
        steps.append(Step(block.marks.get("instead", source), begin, block.lines[begin:at]))
    return steps


def doctest_steps(block):
    steps, at = [], 0
    while at < len(block.lines):
        source = [block.lines[at].removeprefix(">>> ")]
        at += 1
        while at < len(block.lines) and block.lines[at].startswith("..."):
            source.append(block.lines[at][4:])
            at += 1
        begin = at
        while at < len(block.lines) and not block.lines[at].startswith(">>> "):
            at += 1
        steps.append(Step("\n".join(source) + "\n", begin, block.lines[begin:at]))
    return steps


class World:
    """A folder in which a document's blocks run, one after the other: /home/user, with the examples, and /data.

    `environment`: the name of one of the checkout, beside that of the tests."""

    def __init__(self, root, environment=None):
        self.root = pathlib.Path(root).resolve()
        self.home = self.root / "home" / "user"
        self.home.mkdir(parents=True)
        (self.root / "data").mkdir()
        (self.root / "abs").mkdir()
        shutil.copytree(CHECKOUT / "examples", self.home / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        (self.home / ".venv").symlink_to(sys.prefix)
        self.interpreter = python_file(self.root)
        (self.root / "torchrun").write_text(f'#!/bin/sh\nexec {self.interpreter} -m torch.distributed.run "$@"\n')
        (self.root / "torchrun").chmod(0o755)
        scripts = [os.path.join(sys.prefix, "bin")]
        if environment is None:
            scripts.insert(0, str(self.root))
        else:
            (self.home / environment).symlink_to(CHECKOUT / environment)
            scripts.insert(0, str(CHECKOUT / environment / "bin"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith((*_OURS, "XDG_"))}
        self.environment = kept | {
            "PATH": ":".join([*scripts, kept.get("PATH", "")]),
            "HOME": str(self.home),
            "PROGRAMS": str(PROGRAMS),
            "CHECKOUT": str(CHECKOUT),
            "PYTHONUNBUFFERED": "1",  # keeps the order of the output
            "PYTHON_EXEC": str(self.interpreter),  # for torchrun's processes
        }

    def inside(self, text):
        """Replaces the document's places by those of this folder."""
        return PLACES.sub(rf"{self.root}/\1", text)

    def outside(self, text):
        """Printed text as the document would show it."""
        return text.replace(f"{CHECKOUT}/", "").replace(str(self.root), "")

    def shell(self, commands, first=""):
        """Runs them in one shell; for each its exit status and what it printed."""
        mark = "---- status of the command: "
        script = ["exec 2>&1 </dev/null", "set -e", self.inside(first), "set +e"]
        for command in ["true", *commands]:
            script += [self.inside(command), f'printf "\\n{mark}%d\\n" $?']
        done = self._run(["bash", "-c", "\n".join(script)])
        parts = re.split(rf"\n{mark}(\d+)\n", done.stdout)
        if len(parts) < 3:
            raise AssertionError(f"what comes before the block failed:\n{first}\n{done.stdout}")
        return [(int(parts[i + 1]), self.lines(parts[i])) for i in range(2, len(parts) - 1, 2)]

    def python(self, sources, first="", single=False):
        """Runs them in one interpreter; for each its exit status and what it printed."""
        runner = [self.interpreter, "-c", _RUN_PYTHON]
        done = self._run(runner, json.dumps([self.inside(first), [self.inside(source) for source in sources], single]))
        results = re.findall(r"^---- results: (.*)$", done.stdout, re.M)  # sonde prints its last line after them
        if done.returncode != 0 or not results:
            raise AssertionError(f"what comes before the block failed:\n{first}\n{done.stdout}")
        return [(status, self.lines(text)) for status, text in json.loads(results[0])]

    def lines(self, text):
        lines = [line.rstrip() for line in self.outside(text).split("\n")]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _run(self, command, standard_input=None):
        return subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            input=standard_input,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )


_RUN_PYTHON = """
import contextlib, io, json, sys, traceback
first, sources, single = json.loads(sys.stdin.read())
scope = {"__name__": "__main__"}
sys.path.insert(0, "")
exec(compile(first, "first", "exec"), scope)
results = []
for source in sources:
    printed, status = io.StringIO(), 0
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, "document", "single" if single else "exec"), scope)
        except BaseException:
            status = 1
            printed.write(traceback.format_exc())
    results.append((status, printed.getvalue()))
print("\\n---- results:", json.dumps(results))
"""
