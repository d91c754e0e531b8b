"""The command `tensorsonde`: the same as `sonde`, under the name of the distribution.

It is outside of the package, so that it also works where another distribution has replaced `sonde/__init__.py`.
"""

import os
import sys
import sysconfig

_ELF = b"\x7fELF"


def main() -> int:
    """Becomes the native command with the arguments of this process. Returns the exit status if there is none."""
    command = native_command()
    if command is None:
        sys.stderr.write(
            "sonde: error: the native command 'sonde' is missing or another distribution has replaced it; "
            "run: pip uninstall sonde, then pip install --force-reinstall --no-deps tensorsonde\n"
        )
        return 2
    os.execv(command, [command, *sys.argv[1:]])


def native_command() -> str | None:
    """Its path: beside this command, among the scripts of this Python, or of the environment that has this module."""
    packages = os.path.dirname(os.path.abspath(__file__))
    for directory in (
        os.path.dirname(os.path.abspath(sys.argv[0])),
        sysconfig.get_path("scripts"),
        os.path.join(packages, *[os.pardir] * 3, "bin"),  # lib/python3.x/site-packages
        os.path.join(packages, "bin"),  # pip install --target
    ):
        path = os.path.join(directory, "sonde")
        try:
            with open(path, "rb") as file:
                if file.read(len(_ELF)) == _ELF:
                    return path
        except OSError:
            continue
    return None


if __name__ == "__main__":
    sys.exit(main())
