"""The name of this distribution, and another one that has a module and a command of the same names.

The package index has a distribution `sonde` of other people, with a module `sonde`. This one is `tensorsonde`. If both
are installed, files of one have replaced files of the other.
"""

from typing import TYPE_CHECKING

import sonde_command

from .errors import Error

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NAME = "tensorsonde"
_OTHER = "sonde"
_AGAIN = f"pip install --force-reinstall --no-deps {NAME}"


def native_command() -> str:
    """The path of this installation's native command. Raises Error where it is missing."""
    path = sonde_command.native_command()
    if path is None:
        raise Error(f"the native command 'sonde' is missing: {_AGAIN}")
    return path


def complaint_about_another() -> str:
    """One line with the cure if the other distribution is installed beside this one; empty if it is not."""
    from importlib import metadata  # programs that only read a dump need not wait for it

    try:
        other = metadata.distribution(_OTHER)
        owned = _owned_by(other)
        version = other.version
    except (metadata.PackageNotFoundError, OSError, ValueError, KeyError):
        return ""
    if not owned:
        return ""
    return (
        f"the distribution {_OTHER} {version}, which is not {NAME}, is installed too and owns the same "
        f"{' and '.join(owned)} '{_OTHER}'; "
        f"run: pip uninstall {_OTHER}, then {_AGAIN}"
    )


def _owned_by(other: "Distribution") -> list[str]:
    """Those of "module" and "command" that it has installed under our name."""
    files = [str(file) for file in other.files or ()]
    owned = ["module"] if any(file in ("sonde.py", "sonde/__init__.py") for file in files) else []
    of_scripts = any(entry.name == _OTHER and entry.group == "console_scripts" for entry in other.entry_points)
    if of_scripts or any(file.endswith("/bin/sonde") for file in files):
        owned.append("command")
    return owned
