"""Trains in every style of parallelism, asks Sonde about healthy runs and planted faults, and prints the table.

    python tests/parallel/run.py                                # all, some minutes on two cores
    python tests/parallel/run.py --short                        # a few cells, as the tests of every change do
    python tests/parallel/run.py --style fsdp2 --case forward --keep /tmp/dumps
    python tests/parallel/run.py --style tp --launcher torchrun # the same under `sonde run -- torchrun`
    python tests/parallel/run.py --write                        # and the table into docs/parallel.md

A case is a column of the table. Exit status: 0 all cells are right, 1 some are not, 2 bad usage.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "faults"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from cases import STATISTICS, TENSORS
from cells import COLUMNS, OTHER, OTHER_FAULTS, SHARDED, WHOLE, WHOLE_FAULTS, Cell, fault_of, has_column
from document import replace, table
from look import RIGHT, Runs, look, right
from record import forked, import_once
from styles import all_styles

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "parallel.md"
PARTS = {  # of the document
    "run.py --write": SHARDED,
    "run.py --write, one process": (WHOLE, *WHOLE_FAULTS),
    "run.py --write, another sharding": (OTHER, *OTHER_FAULTS),
}
SHORT = {  # styles with cells that the tests of every change look at
    "ddp": ("bits", "repeat", "forward", "whole", "whole_mean", "other"),
    "ddp_micro": ("whole_clipping",),
    "fsdp1": ("bits", "values", "stats", "optimizer", "whole_state"),
    "ep_idle": ("whole", "whole_missing"),
    "fsdp1_micro": ("stats", "whole"),
    "fsdp2_micro": ("whole",),
    "fsdp2": ("bits", "stats", "healthy", "repeat", "backward", "whole", "other_optimizer"),
    "fsdp2_compiled": ("forward",),
    "hsdp": ("forward",),
    "zero": ("state",),
    "tp": ("bits", "optimizer", "whole", "whole_one_rank"),
    "sp": ("bits", "values", "stats", "repeat", "whole_missing"),
    "fsdp2_tp": ("bits", "other", "other_one_rank"),
    "megatron": ("values", "clipping", "group", "whole_group"),
    "gpipe": ("bits", "values", "stats", "healthy", "whole", "whole_backward"),
    "interleaved": ("bits",),
    "cp": ("bits",),
    "ep": ("bits", "backward"),
}


def run_all(work, directory, options):
    """Each style in a process of its own."""
    waiting, running = list(reversed(work)), {}
    for _ in work:
        while waiting and len(running) < options.jobs:
            style, cells = waiting.pop()
            path = directory / f"{style.name}.jsonl"
            path.unlink(missing_ok=True)
            child = forked(run_style, style, cells, directory, path, options)
            running[child] = cells, path
        child, _status = os.wait()
        cells, path = running.pop(child)
        results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        lost = [{"style": c.style.name, "column": c.column, "outcome": "failed", "said": "it died"} for c in cells]
        yield from zip(cells, results + lost[len(results) :], strict=True)


def run_style(style, cells, directory, path, options):
    runs = Runs(directory / style.name, options.evidence, options.launcher == "torchrun")
    with path.open("w", buffering=1) as out:
        for cell in cells:
            out.write(json.dumps(look(cell, runs)) + "\n")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--style", action="append", help="only this one; repeatable: " + ", ".join(all_styles()))
    parser.add_argument("--case", action="append", help="only this one; repeatable: " + ", ".join(COLUMNS))
    parser.add_argument("--short", action="store_true", help="a few cells")
    parser.add_argument("--evidence", choices=(TENSORS, STATISTICS), default=TENSORS)
    parser.add_argument("--launcher", choices=("fork", "torchrun"), default="fork")
    parser.add_argument("--jobs", type=int, default=2, help="styles at a time (default: 2)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    parser.add_argument("--keep", metavar="DIR", help="keep the dumps there")
    parser.add_argument("--write", action="store_true", help="put the table into docs/parallel.md")
    return parser.parse_args()


def chosen(options):
    """Styles with their cells."""
    work = []
    for style in all_styles().values():
        columns = [
            column
            for column in COLUMNS
            if has_column(style, column)
            and (not options.case or column in options.case)
            and (not options.style or style.name in options.style)
            and (not options.short or column in SHORT.get(style.name, ()))
        ]
        if columns:
            work.append((style, [Cell(style, column) for column in columns]))
    return work


def shown(cell, result):
    """A cell in full."""
    lines = [f"{cell.style.name} {cell.column}: {result['outcome']}", f"  said   {result['said']}"]
    return "\n".join([*lines, f"  right  {right(cell)}"])


def table_of(results, of):
    """A table with these columns."""
    by_place = {(r["style"], r["column"]): r["outcome"] for r in results}
    columns = [column for column in of if any(r["column"] == column for r in results)]
    rows = []
    for style in all_styles().values():
        found = [by_place.get((style.name, column), "") for column in columns]
        if any(found):
            marks = ["✓" if outcome in RIGHT else outcome for outcome in found]
            if rows and style.title == f"{rows[-1][0]}, compiled" and marks == rows[-1][1:]:
                rows[-1][0] += ", also compiled"
            else:
                rows.append([style.title, *marks])
    names = [fault_of(column).replace("_", " ") for column in columns]
    return table(["style", *names], rows) if rows else ""


def main():
    options = parsed()
    work = chosen(options)
    if not work:
        print("run.py: no cell fits")
        return 2
    if options.write and (options.style or options.case or options.short):
        print("run.py: --write needs all cells")
        return 2
    import_once()
    with tempfile.TemporaryDirectory(prefix="sonde-parallel-") as scratch:
        directory = pathlib.Path(options.keep or scratch).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        results = []
        for cell, result in run_all(work, directory, options):
            results.append(result)
            if not options.json and (result["outcome"] not in RIGHT or len(work) == len(work[0][1]) == 1):
                print(shown(cell, result), flush=True)
    wrong = [result for result in results if result["outcome"] not in RIGHT]
    tables = {part: table_of(results, columns) for part, columns in PARTS.items()}
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print("", *filter(None, tables.values()), sep="\n\n")
        print(f"\n{len(results) - len(wrong)} of {len(results)} cells are right")
    if options.write:
        for part, text in tables.items():
            replace(DOCUMENT, part, text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
