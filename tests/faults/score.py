"""Runs the programs with planted faults, asks `sonde first-bad` or `sonde compare` about each, and prints the score.

    python tests/faults/score.py                            # all, two at a time
    python tests/faults/score.py --short                    # one or two of each family
    python tests/faults/score.py --family losses --jobs 1
    python tests/faults/score.py --case log_of_zero --keep /tmp/dumps
    python tests/faults/score.py --write                    # and the tables into docs/accuracy.md
    python tests/faults/score.py --family reports --write   # and the table of the public reports

Exit status: 0 the targets are met, 1 they are not, 2 bad usage.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cases import STATISTICS, TENSORS, all_cases
from document import REPORTS, tables, write
from judge import ask, outcome, said
from record import forked, import_once, record

# Of the faults, named first; of the public reports, with the cause too.
TARGETS = {TENSORS: 0.95, STATISTICS: 0.85}
TARGETS_OF_REPORTS = {TENSORS: 0.85, STATISTICS: 0.75}


def look(case, evidence, directory):
    """A recorded program and the answer about it."""
    place = pathlib.Path(directory) / f"{case.name}-{evidence}"
    place.mkdir(parents=True)
    result = {"case": case.name, "family": case.family, "kind": case.kind, "evidence": evidence}
    result["places"] = sorted(case.places)
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
            child = forked(_one, case, evidence, directory, path, keep)
            running[child] = (case, evidence, path)
        child, _status = os.wait()
        case, evidence, path = running.pop(child)
        lost = {"case": case.name, "family": case.family, "kind": case.kind, "evidence": evidence, "outcome": "failed"}
        result = json.loads(path.read_text()) if path.exists() else lost | {"said": "it died", "seconds": 0}
        path.unlink(missing_ok=True)
        results[case.name, evidence] = result
        yield result


def _one(case, evidence, directory, path, keep):
    result = look(case, evidence, directory)
    if not keep:
        shutil.rmtree(pathlib.Path(directory) / f"{case.name}-{evidence}")
    path.write_text(json.dumps(result))


def too_few(results, name, targets):
    """A line for each evidence with which fewer faults than the target are named first."""
    for evidence, target in targets.items():
        found = [r["outcome"] for r in results if r["evidence"] == evidence]
        first = found.count("first")
        if found and first < target * len(found):
            yield f"{name}, {evidence}: {first} of {len(found)} named first, less than {target:.0%}"


def misses(results):
    """One line for each target that is missed."""
    faults = [r for r in results if r["kind"] in ("non_finite", "differs")]
    reported = [r for r in faults if r["family"] == REPORTS]
    lines = list(too_few(reported, REPORTS, TARGETS_OF_REPORTS))
    for kind in ("non_finite", "differs"):
        planted = [r for r in faults if r["kind"] == kind and r["family"] != REPORTS]
        lines += too_few(planted, kind, TARGETS)
    silent = [r for r in reported if r["outcome"] == "silent"]
    for bad, those in (("silent", silent), *((bad, results) for bad in ("wrong", "blamed", "failed"))):
        names = [f"{r['case']} ({r['evidence']})" for r in those if r["outcome"] == bad]
        if names:
            lines.append(f"{bad}: " + ", ".join(names))
    return lines


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
    parser.add_argument("--write", action="store_true", help="put the tables of what ran into docs/accuracy.md")
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
    if options.write and not write(results, all_cases()):
        print("score.py: --write needs all programs, or all of the family reports, with every evidence")
        return 2
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
