"""The directory that ranks are gathered into: which source each rank is from, so that those of two runs never mix."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import Error

_LIST = ".sonde_gathered.json"
_RANK = re.compile(r"rank_(\d+)")
OWN = ".dump_metadata/sonde"  # in the directory of a rank: what the recorder keeps for itself
JOURNAL = f"{OWN}/journal"


def is_journal(path: str) -> bool:
    """Whether the file names other files of its rank."""
    return path.endswith("sonde/journal")


def rank_directory(path: str) -> str:
    """The part of a path up to the directory of a rank; '' outside of ranks."""
    parts = path.split("/")
    at = next((i for i, part in enumerate(parts[:-1]) if _RANK.fullmatch(part)), None)
    return "" if at is None else "/".join(parts[: at + 1])


def ranks_of(paths: Iterable[str]) -> list[int]:
    """The numbers of the ranks that the files belong to."""
    directories = {rank_directory(path) for path in paths} - {""}
    return sorted({int(found[1]) for one in directories if (found := _RANK.fullmatch(one.rpartition("/")[2]))})


class Place:
    """`sources`: by the directory of a rank, without credentials."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        self._list = self.directory / _LIST
        self.sources: dict[str, str] = {}
        try:
            self.sources = dict(json.loads(self._list.read_text())["sources"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Error(f"cannot read '{self._list}': {error}; remove it to gather anew") from None

    def take(self, source: str, files: Mapping[str, int | None]) -> None:
        """Enters the ranks of a source. Raises ValueError if one of them is there from another."""
        directories = {rank_directory(path) for path in files} - {""}
        for directory in sorted(directories):
            known = self.sources.get(directory)
            if known is None and (self.directory / directory).exists():
                raise ValueError(
                    f"'{self.directory / directory}' is there, and was not gathered from '{source}'; gather into "
                    "another directory"
                )
            if known not in (None, source):
                raise ValueError(
                    f"'{directory}' is in '{known}' and in '{source}': they are two runs, or one twice; gather each "
                    "into a directory of its own"
                )
        self.sources |= dict.fromkeys(directories, source)

    def save(self) -> None:
        """Remembers the sources for later calls."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._list.with_name(f"{_LIST}.{os.getpid()}")
        aside.write_text(json.dumps({"sources": self.sources}, indent=1))
        aside.replace(self._list)


def check_common_files(sources: Mapping[str, Mapping[str, int | None]]) -> None:
    """Outside of ranks two sources may have a file only if it is the same. Raises ValueError."""
    seen: dict[str, str] = {}
    for source, files in sources.items():
        for path, size in files.items():
            first = seen.setdefault(path, source)
            if rank_directory(path) == "" and sources[first][path] != size:
                raise ValueError(f"'{path}' is another file in '{first}' than in '{source}': they are two runs")
