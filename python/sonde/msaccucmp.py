"""CANN's msaccucmp.py by name: hands its arguments to `sonde msaccucmp`, whose status becomes its own.

For scripts that look for a file of this name, and for people who type `python msaccucmp.py convert -d …`. Needs nothing
but an interpreter.
"""

import os
import sys


def _sonde():
    """The program that was installed with this file, or the one on the path."""
    place = os.path.dirname(os.path.realpath(__file__))
    # prefix/lib/python3.11/site-packages/sonde, or prefix/lib/python3/dist-packages/sonde
    for _ in range(5):
        place = os.path.dirname(place)
        program = os.path.join(place, "bin", "sonde")
        if os.access(program, os.X_OK) and os.path.isfile(program):
            return program
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        program = os.path.join(directory, "sonde")
        if directory and os.access(program, os.X_OK) and os.path.isfile(program):
            return program
    return None


def main():
    program = _sonde()
    if program is None:
        sys.stderr.write("msaccucmp.py: the program 'sonde' is neither beside this file nor on PATH\n")
        return 1
    os.execv(program, [program, "msaccucmp", *sys.argv[1:]])
    return 1  # not reached


if __name__ == "__main__":
    sys.exit(main())
