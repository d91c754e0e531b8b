"""CANN's msaccucmp.py by name: passes its arguments to `sonde msaccucmp`, and returns its status.

For scripts that look for a file of this name, and for people who type `python msaccucmp.py convert -d …`. Needs nothing
but an interpreter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator


def sonde_program() -> str | None:
    """The program that was installed with this file, or the one on the path."""
    for directory in [*_beside(), *os.environ.get("PATH", "").split(os.pathsep)]:
        program = os.path.join(directory, "sonde")
        # Skips entries of PATH that mean the current directory, which may belong to anyone.
        if os.path.isabs(directory) and os.access(program, os.X_OK) and os.path.isfile(program):
            return program
    return None


def _beside() -> Iterator[str]:
    """The directory of programs that belongs to this installation. Directories further up may belong to anybody."""
    packages, name = os.path.split(os.path.dirname(os.path.realpath(__file__)))
    if name != "sonde":
        return
    python, kind = os.path.split(packages)
    prefix, library = os.path.split(os.path.dirname(python))
    if kind in ("site-packages", "dist-packages") and library.startswith("lib"):
        yield os.path.join(prefix, "bin")  # prefix/lib/python3.11/site-packages/sonde
    else:
        yield os.path.join(packages, "bin")  # the place of pip install --target


def main() -> int:
    """Replaces this process by `sonde msaccucmp`. Returns the status if the program does not exist."""
    program = sonde_program()
    if program is None:
        sys.stderr.write("msaccucmp.py: the program 'sonde' is neither beside this file nor on PATH\n")
        return 1
    os.execv(program, [program, "msaccucmp", *sys.argv[1:]])
    return 1  # never reached


if __name__ == "__main__":
    sys.exit(main())
