"""Files of a device's dump, converted for the host."""

import os
import re
from pathlib import Path

from .. import _core
from ..dump import Dump

# {type}.{op}.{task}[.{stream}].{time}, or the number that replaces a longer one.
_NAME = re.compile(r"[^.]+\..+\.\d+\.\d{10,}|\d+")
_FAILED = "convert_failed_file_list.txt"
_ALL_FAILED = "convert_failed_files_summary.txt"


def convert_all(dump: Dump, root: Path) -> list[str]:
    """Converts every CANN file in a dump; returns, and lists, the files that could not be converted."""
    failed: dict[Path, list[str]] = {}
    for file in _containers(dump):
        written, problems = _core.convert_to_host(os.fspath(file))
        if problems or not written:
            failed.setdefault(file.parent, []).append(str(file))
    for directory, files in failed.items():
        (directory / _FAILED).write_text("".join(f"{file}\n" for file in files))
    every = [file for files in failed.values() for file in files]
    if every:
        (root / _ALL_FAILED).write_text("".join(f"{file}\n" for file in every))
    return every


def _containers(dump: Dump) -> list[Path]:
    """Files with all tensors of an operator each. A `.bin` of MindSpore 1.2 is a file of the host."""
    files: dict[Path, None] = {}
    for tensor in dump.tensors:
        file = tensor.tensor_file
        if file is not None and file.suffix not in (".npy", ".bin"):
            files[file] = None
    for problem in dump.problems:  # the tensors of a file that cannot be read are unknown
        if _NAME.fullmatch(Path(problem.path).name):
            files[Path(problem.path)] = None
    return list(files)
