"""The tables of results, on the terminal and in docs/accuracy.md."""

import collections
import pathlib
import re
import textwrap

from cases import OVERFLOW, STATISTICS, TENSORS
from judge import OF_FAULTS, OF_HEALTHY

WIDTH = 120
WIDEST = 160  # of a line of a document
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"
PLANTED = "score.py --write"  # the names of the document's two parts
REPORTED = "score.py --write, reports"
REPORTS = "reports"  # the family
SECTIONS = (
    ("NaN and infinities (`sonde first-bad`)", ["non_finite"], OF_FAULTS),
    ("Finite faults (`sonde compare`)", ["differs"], OF_FAULTS),
    ("Nothing wrong: masks and guarded infinities", ["healthy"], OF_HEALTHY),
    ("Nothing wrong: rounding", ["rounding"], OF_HEALTHY),
)


def table(head, rows):
    """A Markdown table that also reads as a table on a terminal."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def counts_of(results, kinds, outcomes):
    """Rows of (family, evidence, programs, a count per outcome), and of each evidence all together."""
    groups = collections.defaultdict(collections.Counter)
    for result in results:
        if result["kind"] not in kinds:
            continue
        for family in (result["family"], "all"):
            groups[family, result["evidence"]][result["outcome"]] += 1
    order = [*dict.fromkeys(r["family"] for r in results), "all"]
    evidences = [TENSORS, STATISTICS, OVERFLOW]
    keys = sorted(groups, key=lambda key: (order.index(key[0]), evidences.index(key[1])))
    return [[*key, groups[key].total(), *(groups[key][o] or "" for o in outcomes)] for key in keys]


def columns_of(results, outcomes):
    found = {result["outcome"] for result in results}
    return [o for o in outcomes if o != "unexplained" or o in found]  # only reports have causes


def tables(results):
    """The results of each family, for the terminal."""
    parts = []
    for title, kinds, outcomes in SECTIONS:
        columns = columns_of(results, outcomes)
        rows = counts_of(results, kinds, columns)
        if rows:
            parts.append(f"**{title}**\n\n" + table(["family", "evidence", "programs", *columns], rows))
    return "\n\n".join(parts)


def summary(results):
    """A row for each kind of program, a column for each evidence; families have their rows on the terminal."""
    evidences = [TENSORS, STATISTICS, OVERFLOW]
    rows = []
    for title, kinds, outcomes in SECTIONS:
        cells = dict.fromkeys(evidences, "")
        for family, evidence, _, *counts in counts_of(results, kinds, outcomes):
            if family == "all":
                named = zip(counts, outcomes, strict=True)
                cells[evidence] = ", ".join(f"{count} {o}" for count, o in named if count)
        if any(cells.values()):
            rows.append([title, *cells.values()])
    return table(["programs", *evidences], rows)


def rest(results, cases):
    """The answers that are not right yet: a line for each program."""
    reported = {case.name: case.report for case in cases if case.report}
    missed = collections.defaultdict(lambda: collections.defaultdict(list))
    for r in results:
        if r["outcome"] not in ("first", "clean"):
            missed[r["case"], r["family"]][r["outcome"]].append(r["evidence"])
    if not missed:
        return "Every program has the right answer."
    lines = []
    for (name, family), outcomes in missed.items():
        said = ", ".join(f"{outcome} with {' and '.join(evidence)}" for outcome, evidence in outcomes.items())
        lines.append(_wrapped(f"* `{name}` ({reported.get(name, family)}): {said}", "  "))
    return "\n".join(["Not named first, or blamed:", "", *lines])


def _wrapped(text, indent=""):
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def write(results, cases):
    """Each part of the document whose programs were all run, with every evidence. True if there is one."""
    reported = [case for case in cases if case.family == REPORTS]
    planted = [case for case in cases if case.family != REPORTS]
    for name, part in ((PLANTED, planted), (REPORTED, reported)):
        if some := _of(results, part):
            replace(DOCUMENT, name, f"{summary(some)}\n\n{rest(some, part)}")
    return bool(_of(results, planted) or _of(results, reported))


def _of(results, cases):
    """The results of these programs; none if one is missing."""
    wanted = {(case.name, evidence) for case in cases for evidence in case.evidence}
    some = [result for result in results if (result["case"], result["evidence"]) in wanted]
    return some if len(some) == len(wanted) else []


def replace(document, name, content):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = document.read_text()
    before, after = text.split(begin)[0], text.split(end)[1]
    document.write_text(f"{before}{begin}\n{narrow(content)}\n{end}{after}")


def narrow(content):
    """A table that is too wide for a document keeps its words and loses its padding."""
    if max(map(len, content.splitlines()), default=0) <= WIDEST:
        return content
    return re.sub(r" {2,}\|", " |", re.sub(r"-{4,}", "---", content))
