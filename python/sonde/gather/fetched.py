"""A source of ranks, and the outcome of copying from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol


@dataclasses.dataclass
class Fetched:
    """Of one source. `wrong`: files that are not there as in the source, with the reason."""

    files: int = 0
    bytes: int = 0
    compared: int = 0  # files whose contents are the source's, by checksum
    wrong: dict[str, str] = dataclasses.field(default_factory=dict)


class RankSource(Protocol):
    """Paths are those in the directory that is written, with `/`."""

    @property
    def shown(self) -> str:
        """For people: without credentials."""
        ...

    def files(self) -> Mapping[str, int | None]:
        """Its files with their sizes. Raises Error."""
        ...

    def fetch(self, to: Path, checksum: bool, progress: Callable[[int], None]) -> Fetched:
        """Copies what `to` lacks, and compares. Raises Error."""
        ...
