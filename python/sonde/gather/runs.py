"""Whether ranks are of one run, by the first entry of their journals (docs/format.md)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .place import JOURNAL

_MAGIC = b"\x89SONDEJ\n"
_HEADER, _ENTRY = 16, 9  # bytes
_OF_RUN = 1
_LONGEST = 1 << 24
_HOUR_US = 3_600_000_000


class RunFacts(NamedTuple):
    """Members of the first entry; empty, 0 or -1: it lacks them. `sonde`: the version that recorded."""

    command: str = ""
    layout: str = ""
    saved_data: str = ""
    sonde: str = ""
    started_us: int = 0
    rank: int = -1


_COMPARED = RunFacts._fields[:4]


def signs_of_two_runs(ranks: Iterable[tuple[str, Path]]) -> list[str]:
    """A sentence for each fact in which a rank differs from the first one, each fact once. `ranks`: names and
    directories."""
    known = [(name, facts) for name, path in ranks if (facts := run_facts(path))]
    signs: dict[str, str] = {}
    for name, facts in known:
        for fact, text in _differences(*known[0], name, facts):
            signs.setdefault(fact, text)
    return list(signs.values())


def _differences(first: str, its: RunFacts, name: str, facts: RunFacts) -> Iterable[tuple[str, str]]:
    for fact in _COMPARED:
        ours, theirs = getattr(its, fact), getattr(facts, fact)
        if ours and theirs and ours != theirs:
            yield fact, f"{name} was recorded with {fact} '{theirs}', {first} with '{ours}': are they of one run?"
    apart = abs(its.started_us - facts.started_us)
    if its.started_us and facts.started_us and apart > _HOUR_US:
        yield "began", f"{first} and {name} began {apart / _HOUR_US:.1f} h apart: are they of one run?"
    number = name.rpartition("_")[2]
    if facts.rank >= 0 and number.isdigit() and int(number) != facts.rank:
        yield "rank", f"the journal in {name} is that of rank {facts.rank}"


def run_facts(rank: Path) -> RunFacts | None:
    """Of the first run in a rank's journal; None if it cannot be read."""
    try:
        with (rank / JOURNAL).open("rb") as journal:
            head = journal.read(_HEADER + _ENTRY)
            if len(head) < _HEADER + _ENTRY or not head.startswith(_MAGIC) or head[-1] != _OF_RUN:
                return None
            (size,) = struct.unpack_from("<I", head, _HEADER + 4)
            found = json.loads(journal.read(min(size, _LONGEST)))
    except (OSError, ValueError):
        return None
    defaults = RunFacts()._asdict()
    if not isinstance(found, dict):
        return None
    return RunFacts(
        **{name: found[name] for name, value in defaults.items() if isinstance(found.get(name), type(value))}
    )
