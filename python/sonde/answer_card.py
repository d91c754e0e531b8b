"""The answer card of a notebook: what the page's card says, from the same members of the answers (docs/json/)."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import answer_types

# Lines at the left say which kind of answer it is, in light and dark notebooks alike.
_COLOURS = {"bad": "#c0392b", "unsure": "#b8860b", "good": "#2e7d32"}
_MOST_LINES = 8


def plain(tag: str) -> str:
    """`one rank only` of `one_rank_only`."""
    return tag.replace("_", " ")


def certainty(tags: Sequence[str]) -> str:
    """ " (uncertain, one rank only)"; without tags nothing."""
    return f" ({', '.join(map(plain, tags))})" if tags else ""


def short_line(file: str, line: int) -> str:
    """ "train.py:12"; empty: not known."""
    return f"{os.path.basename(file)}:{line}" if file else ""


def card(kind: str, parts: Iterable[str]) -> str:
    """`kind`: bad, unsure or good. `parts` are HTML."""
    style = f"border-left:4px solid {_COLOURS[kind]};padding:2px 12px;margin:4px 0"
    return f'<div class="sonde-card sonde-{kind}" style="{style}">{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """Text as a paragraph; empty: none."""
    return f'<p style="margin:4px 0">{html.escape(text)}</p>' if text else ""


def headline(words: str, name: str, place: str, tags: Sequence[str]) -> str:
    """The verdict with its certainty, the operator and its line."""
    at = f" at {place}" if place else ""
    return (
        f'<p style="margin:4px 0"><strong>{html.escape(words + certainty(tags))}: '
        f"<code>{html.escape(name)}</code>{html.escape(at)}</strong></p>"
    )


def code(title: str, of: answer_types.Code | None) -> str:
    """The line and its neighbours."""
    if of is None or not of.lines:
        return ""
    rows = []
    for number, text in of.lines:
        row = html.escape(f"{'>' if number == of.source_line else ' '} {number:5} | {text}")
        rows.append(f"<strong>{row}</strong>" if number == of.source_line else row)
    where = f"{title} {of.source_file}:{of.source_line}".strip()
    return paragraph(where) + f'<pre style="margin:4px 0">{chr(10).join(rows)}</pre>'


def listed(title: str, lines: Sequence[str]) -> str:
    """A list under a title; empty: none."""
    if not lines:
        return ""
    shown = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:_MOST_LINES])
    more = f"<li>and {len(lines) - _MOST_LINES} more</li>" if len(lines) > _MOST_LINES else ""
    return paragraph(title) + f'<ul style="margin:0">{shown}{more}</ul>'


def commands(of: Sequence[answer_types.NextCommand]) -> str:
    """The next commands, each with its purpose."""
    if not of:
        return ""
    rows = "".join(f"<li>{html.escape(one.purpose)}: <code>{html.escape(one.command)}</code></li>" for one in of)
    return paragraph("next") + f'<ul style="margin:0">{rows}</ul>'


def finding(of: answer_types.Finding, words: str = "First bad value") -> str:
    """A finding in full, as the page shows its first one."""
    tensor = of.tensor
    where = f"rank {of.rank}, graph {of.graph}, step {of.step}, {of.phase}; {tensor.side}.{tensor.slot}"
    shape = f" {tensor.dtype} {tuple(tensor.shape)}" if tensor.shape is not None else ""
    holds = f": {tensor.counted}" if tensor.counted else ""
    way = [f"written by {earlier(one)}" for one in reversed(of.before or ())]
    return "".join(
        (
            headline(
                words, of.op_name or tensor.parameter, short_line(of.code.source_file, of.code.source_line), of.tags
            ),
            paragraph(of.why),
            paragraph(where + shape + holds),
            code("", of.code),
            listed("evidence", of.evidence),
            listed("before this step", way),
            listed("not known", of.limits),
        )
    )


def earlier(of: answer_types.EarlierOp) -> str:
    """ "copy_-op0 of step 2, train.py:30"."""
    place = short_line(of.source_file, of.source_line)
    return f"{of.op_name} of step {of.step}{f', {place}' if place else ''}"


def in_short(of: answer_types.Finding) -> str:
    """One line: operator, line, reason."""
    place = short_line(of.code.source_file, of.code.source_line)
    name = of.op_name or of.tensor.parameter
    return f"rank {of.rank}, step {of.step}: {name}{f' at {place}' if place else ''}{certainty(of.tags)}: {of.why}"
