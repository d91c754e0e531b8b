"""Runs the programs with planted faults, asks `sonde first-bad` or `sonde compare` about each, and prints the score.

    python tests/faults/score.py                            # all, two at a time
    python tests/faults/score.py --short                    # one or two of each family
    python tests/faults/score.py --family losses --jobs 1
    python tests/faults/score.py --case log_of_zero --keep /tmp/dumps
    python tests/faults/score.py --write                    # and the tables into docs/accuracy.md

Exit status: 0 the targets are met, 1 they are not, 2 bad usage.
"""

import argparse
import collections
import importlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cases import OVERFLOW, STATISTICS, TENSORS, all_cases
from judge import OF_FAULTS, OF_HEALTHY, ask, outcome, said
from record import record

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- score.py --write: begin -->", "<!-- score.py --write: end -->"
TARGETS = {TENSORS: 0.95, STATISTICS: 0.85}  # of the faults named first


def look(case, evidence, directory):
    """A recorded program and the answer about it."""
    place = pathlib.Path(directory) / f"{case.name}-{evidence}"
    place.mkdir(parents=True)
    result = {"case": case.name, "family": case.family, "kind": case.kind, "evidence": evidence}
    started = time.monotonic()
    try:
        record(case, evidence, place / "target", (True,) if case.has_golden else ())
        if case.has_golden:
            record(case, evidence, place / "golden", (False,))
        answer = ask(case, place / "target", place / "golden")
        result |= {"outcome": outcome(case, answer), "said": said(answer)}
    except (RuntimeError, OSError, KeyError) as error:
        result |= {"outcome": "failed", "said": f"{type(error).__name__}: {error}"}
    return result | {"seconds": round(time.monotonic() - started, 2)}


def run_all(work, directory, jobs, keep):
    """Runs each piece of work in a separate process, because a program may change its process."""
    waiting, running, results = list(reversed(work)), {}, {}
    for _ in work:
        while waiting and len(running) < jobs:
            case, evidence = waiting.pop()
            path = pathlib.Path(directory) / f"{case.name}-{evidence}.json"
            child = os.fork()
            if child == 0:
                _one(case, evidence, directory, path, keep)
            running[child] = (case, evidence, path)
        child, _status = os.wait()
        case, evidence, path = running.pop(child)
        lost = {"case": case.name, "family": case.family, "kind": case.kind, "evidence": evidence, "outcome": "failed"}
        result = json.loads(path.read_text()) if path.exists() else lost | {"said": "it died", "seconds": 0}
        path.unlink(missing_ok=True)
        results[case.name, evidence] = result
        yield result


def _one(case, evidence, directory, path, keep):
    try:
        result = look(case, evidence, directory)
        if not keep:
            shutil.rmtree(pathlib.Path(directory) / f"{case.name}-{evidence}")
        path.write_text(json.dumps(result))
    finally:
        os._exit(0)


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
    for title, kinds, outcomes in (
        ("NaN and infinities (`sonde first-bad`)", ["non_finite"], OF_FAULTS),
        ("Finite faults (`sonde compare`)", ["differs"], OF_FAULTS),
        ("Nothing wrong: masks and guarded infinities", ["healthy"], OF_HEALTHY),
        ("Nothing wrong: rounding", ["rounding"], OF_HEALTHY),
    ):
        rows = counts_of(results, kinds, outcomes)
        if rows:
            parts.append(f"**{title}**\n\n" + table(["family", "evidence", "programs", *outcomes], rows))
    return "\n\n".join(parts)


def not_right(results):
    return [r for r in results if r["outcome"] not in ("first", "clean")]


def misses(results):
    """One line for each target that is missed."""
    lines = []
    for evidence, target in TARGETS.items():
        for kind in ("non_finite", "differs"):
            of_kind = [r for r in results if r["kind"] == kind and r["evidence"] == evidence]
            first = sum(r["outcome"] == "first" for r in of_kind)
            if of_kind and first < target * len(of_kind):
                lines.append(f"{kind}, {evidence}: {first} of {len(of_kind)} named first, less than {target:.0%}")
    for bad in ("wrong", "blamed", "failed"):
        names = [f"{r['case']} ({r['evidence']})" for r in results if r["outcome"] == bad]
        if names:
            lines.append(f"{bad}: " + ", ".join(names))
    return lines


def write(results):
    rows = [[r["case"], r["family"], r["evidence"], r["outcome"]] for r in not_right(results)]
    rest = "Every program has the right answer." if not rows else (
        "Not named first, or blamed:\n\n" + table(["program", "family", "evidence", "outcome"], rows)
    )  # fmt: skip
    text = DOCUMENT.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{tables(results)}\n\n{rest}\n{END}{after}")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="one or two programs of each family")
    parser.add_argument("--family", action="append", help="only this one; repeatable")
    parser.add_argument("--case", action="append", help="only this program; repeatable")
    parser.add_argument("--kind", action="append", help="only non_finite, differs, healthy or rounding; repeatable")
    parser.add_argument("--evidence", action="append", help="only tensors, statistics or overflow; repeatable")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time (default: 2)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--keep", metavar="DIR", help="keep the dumps there")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/accuracy.md")
    return parser.parse_args()


def chosen(options):
    def takes(value, wanted):
        return not wanted or value in wanted

    cases = [
        case
        for case in all_cases()
        if takes(case.family, options.family)
        and takes(case.name, options.case)
        and takes(case.kind, options.kind)
        and (case.short or not options.short)
    ]
    return [(case, e) for case in cases for e in case.evidence if takes(e, options.evidence)]


def import_once():
    """Imports the programs' modules before the forks: they take seconds each. The first optimizer imports
    torch._dynamo."""
    importlib.import_module("torch._dynamo")
    importlib.import_module("sonde.torch")


def main():
    options = parsed()
    work = chosen(options)
    if not work:
        print("score.py: no program fits; families: " + ", ".join(dict.fromkeys(c.family for c in all_cases())))
        return 2
    import_once()
    with tempfile.TemporaryDirectory(prefix="sonde-faults-") as scratch:
        directory = pathlib.Path(options.keep or scratch).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        results = []
        for result in run_all(work, directory, options.jobs, bool(options.keep)):
            results.append(result)
            if result["outcome"] not in ("first", "clean") and not options.json:
                print(f"{result['outcome']:8} {result['case']} ({result['evidence']}): {result['said']}", flush=True)
    order = {(case.name, evidence): i for i, (case, evidence) in enumerate(work)}
    results.sort(key=lambda result: order[result["case"], result["evidence"]])
    missed = misses(results)
    if options.json:
        print(json.dumps({"results": results, "missed": missed}, indent=1))
    else:
        print("\n" + tables(results) + "\n")
        print("\n".join(f"missed: {line}" for line in missed) or "all targets are met")
    if options.write:
        write(results)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
