"""The tables of results, on the terminal and in docs/accuracy.md."""

import collections
import pathlib

from cases import OVERFLOW, STATISTICS, TENSORS
from judge import OF_FAULTS, OF_HEALTHY

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


def tables(results):
    parts = []
    found = {result["outcome"] for result in results}
    for title, kinds, outcomes in SECTIONS:
        columns = [o for o in outcomes if o != "unexplained" or o in found]  # only reports have causes
        rows = counts_of(results, kinds, columns)
        if rows:
            parts.append(f"**{title}**\n\n" + table(["family", "evidence", "programs", *columns], rows))
    return "\n\n".join(parts)


def not_right(results):
    return [r for r in results if r["outcome"] not in ("first", "clean")]


def rest(results):
    """The answers that are not right yet, by name."""
    rows = [[r["case"], r["family"], r["evidence"], r["outcome"]] for r in not_right(results)]
    if not rows:
        return "Every program has the right answer."
    return "Not named first, or blamed:\n\n" + table(["program", "family", "evidence", "outcome"], rows)


def reports(results, cases):
    """A row for each public report, with its outcomes."""
    outcome = {(r["case"], r["evidence"]): r["outcome"] for r in results}
    rows = [
        [
            case.report,
            case.what,
            f"`{case.name}`",
            *(outcome.get((case.name, evidence), "") for evidence in (TENSORS, STATISTICS)),
        ]
        for case in sorted(cases, key=lambda case: case.report.lower())
        if case.report
    ]
    return table(["report", "what happened", "program", TENSORS, STATISTICS], rows)


def tally(results):
    """The reports in numbers."""
    rows = []
    for kinds, outcomes in ((("non_finite", "differs"), OF_FAULTS), (("healthy", "rounding"), OF_HEALTHY)):
        for evidence in (TENSORS, STATISTICS, OVERFLOW):
            found = [r["outcome"] for r in results if r["kind"] in kinds and r["evidence"] == evidence]
            counts = ", ".join(f"{found.count(o)} {o}" for o in outcomes if o in found)
            if found:
                rows.append(["a fault" if "differs" in kinds else "nothing wrong", evidence, len(found), counts])
    return table(["programs with", "evidence", "programs", "outcomes"], rows)


def write(results, cases):
    """Each part of the document whose programs were all run, with every evidence. True if there is one."""
    reported = [case for case in cases if case.family == REPORTS]
    planted = [case for case in cases if case.family != REPORTS]
    some = _of(results, planted)
    if some:
        _replace(PLANTED, f"{tables(some)}\n\n{rest(some)}")
    of_reports = _of(results, reported)
    if of_reports:
        _replace(REPORTED, f"{tally(of_reports)}\n\n{rest(of_reports)}\n\n{reports(of_reports, reported)}")
    return bool(some or of_reports)


def _of(results, cases):
    """The results of these programs; none if one is missing."""
    wanted = {(case.name, evidence) for case in cases for evidence in case.evidence}
    some = [result for result in results if (result["case"], result["evidence"]) in wanted]
    return some if len(some) == len(wanted) else []


def _replace(name, content):
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = DOCUMENT.read_text()
    before, after = text.split(begin)[0], text.split(end)[1]
    DOCUMENT.write_text(f"{before}{begin}\n{content}\n{end}{after}")
