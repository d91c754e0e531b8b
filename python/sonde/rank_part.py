"""A part of the ranks of a dump, worked on by a verb on any machine (engines.py)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import remote
from .distribution import native_command

Part = dict[str, Any]
Outcome = dict[str, Any]


def do_part(part: Part, place: str) -> Outcome:
    """Does the work of the part's verb on its ranks, on this machine."""
    settings = None
    if part.get("url"):
        numbers = remote.rank_numbers(part["ranks"])
        try:
            mirror = remote.local_path(part["url"], numbers)
        except remote.RemoteError as error:
            return {"done": len(part["ranks"]), "failed": f"{place}: {error}"}
        if mirror != part["dump"]:  # its answers would have other paths
            different = f"{place} keeps files of URLs in '{mirror}', and the caller in '{part['dump']}'"
            return {
                "done": len(part["ranks"]),
                "failed": f"{different}: set SONDE_CACHE_DIR to one path on both",
            }
        settings = remote.environment(numbers)
    else:
        for rank in part["ranks"]:
            directory = os.path.join(part["dump"], rank)
            if not os.path.isdir(directory):
                return {
                    "done": 0,
                    "refused": f"rank directory '{directory}': {place} cannot see it; mount it there under this path, "
                    "or say --engine local",
                }
    return _worked(part, settings)


def _worked(part: Part, settings: dict[str, str] | None) -> Outcome:
    chosen = [word for rank in part["ranks"] for word in ("--dir", rank)]
    with tempfile.TemporaryDirectory() as scratch:
        out = part["out"] if os.path.exists(part["token"]) else scratch
        working = [native_command(), *part["verb"], part["dump"], *chosen, "--out", out]
        done = subprocess.run(working, capture_output=True, env=settings, text=True, check=False)
        files = {path.name: path.read_bytes() for path in Path(scratch).iterdir()}
    failed = done.stderr.strip().removeprefix("sonde: error: ") if done.returncode != 0 else ""
    return {"done": len(part["ranks"]), "files": files, "failed": failed}
