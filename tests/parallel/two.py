"""Compares trainings that are sharded in two ways: healthy ones, and the first of two with a planted fault.

    python tests/parallel/two.py                                       # all
    python tests/parallel/two.py --pair fsdp2:ddp --fault scaled --keep /tmp/dumps

The right answers were written down before the first run. Exit status: 0 all are right, 1 some are not, 2 bad usage.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "faults"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import program
from cases import TENSORS
from cells import OPS_OF_WHOLE, Cell, marks
from document import table
from judge import Answer, outcome, said
from look import RIGHT, WIDTH, Runs, place_in_run, right
from record import import_once
from styles import Style, all_styles
from styles.rows import ROWS

HEALTHY = "healthy"
FAULTS = ("scaled", "scaled_alone", "doubled", "rate")
OPS = {
    "scaled": ("mul",),
    "scaled_alone": ("mul",),
    "doubled": ("mul_",),
    "decayed": ("mul_",),
    "rate": ("add_", "mul_"),  # mul_: the weights decay by the rate, too
    "missing": OPS_OF_WHOLE["missing"],
    "exchanged": OPS_OF_WHOLE["exchanged"],
}
SHORT = {
    "tp:ddp_rows": ("exchanged",),
    "gpipe:ddp_rows_clipped": (),
    "attention_rows4:attention_rows": ("decayed",),
}  # with the healthy run, in the tests of every change


@dataclasses.dataclass(frozen=True)
class Pair:
    target: Style
    golden: Style
    faults: tuple = FAULTS

    @property
    def name(self):
        return f"{self.target.name}:{self.golden.name}"


@dataclasses.dataclass(frozen=True)
class TwoCell(Cell):
    """Its column is the fault."""

    @property
    def kind(self):
        return "differs" if self.fault else "healthy"

    @property
    def fault(self):
        return "" if self.column == HEALTHY else self.column

    @property
    def ops(self):
        return OPS.get(self.fault, ())

    @property
    def bad_ranks(self):
        if self.fault == "scaled_alone":
            return {1}
        return {0} if self.style.in_order and self.fault == "scaled" else set(range(self.ranks))

    @property
    def places(self):
        every = marks().get(self.fault, set())
        if self.fault in ("missing", "exchanged"):
            every = every | marks().get("whole_" + self.fault, set())
        return {place for place in every if place[0] in self.style.files}

    def program(self, place, unwritten):
        program.train(self.style, self.fault, place, unwritten)


def of_four(style):
    return dataclasses.replace(style, name=style.name + "4", ranks=4)


def all_pairs():
    known = {**all_styles(), **ROWS}
    fours = [of_four(known[name]) for name in ("ddp", "tp", "attention_rows")]
    known |= {style.name: style for style in fours}
    pairs = (
        ("fsdp2", "ddp", "missing"),
        ("ddp", "fsdp2", "missing"),
        ("fsdp1", "ddp"),
        ("fsdp2_tp", "ddp", "missing"),
        ("fsdp2_tp", "fsdp2"),
        ("hsdp", "ddp4"),
        ("ddp4", "ddp_of_two"),
        ("ddp_of_two", "ddp4", "decayed"),
        ("hsdp", "ddp_of_two"),
        ("tp4", "tp", "exchanged"),
        ("tp", "tp4"),
        ("tp", "ddp_rows", "exchanged"),
        ("tp", "fsdp2_rows", "decayed"),
        ("fsdp2_rows", "tp", "decayed"),
        ("gpipe", "ddp_rows_clipped"),
        ("attention_rows4", "attention_rows", "decayed"),
        ("attention_rows", "attention_rows4", "decayed"),
    )
    return [Pair(known[target], known[golden], (*FAULTS, *more)) for target, golden, *more in pairs]


def look(pair, fault, directory):
    """The outcome, and the answer in a line."""
    target, golden = TwoCell(pair.target, fault), TwoCell(pair.golden, HEALTHY)
    try:
        dumps = [Runs(directory / cell.style.name, TENSORS, False) for cell in (target, golden)]
        answer = Answer("compare", reused(dumps[0], target), reused(dumps[1], golden))
        found = outcome(target, answer)
    except (RuntimeError, OSError) as error:
        return "failed", f"{type(error).__name__}: {error}"
    if found == "first":
        found = place_in_run(target, answer.findings[0])
    if found == "clean" and "ranks are joined" not in answer.report.get("joined", ""):
        found = "not joined"
    where = f"rank {answer.findings[0]['rank']}, step {answer.findings[0]['step']}, " if answer.findings else ""
    return found, textwrap.shorten(where + said(answer), WIDTH, placeholder=" …")


def reused(runs, cell):
    """A run that is in the directory is not recorded again."""
    there = runs.place / f"{cell.fault or HEALTHY}-1" / "dump"
    return there if there.exists() else runs.of(cell)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", action="append", help="only this one; repeatable")
    parser.add_argument("--fault", action="append", help="only this one; repeatable")
    parser.add_argument("--short", action="store_true", help="a few answers, as the tests of every change do")
    parser.add_argument("--keep", metavar="DIR", help="keep the dumps there; those that are there are used")
    return parser.parse_args()


def main():
    options = parsed()
    pairs = [
        pair
        for pair in all_pairs()
        if (not options.pair or pair.name in options.pair) and (not options.short or pair.name in SHORT)
    ]
    if not pairs:
        print("two.py: no pair fits")
        return 2
    import_once()
    columns = (HEALTHY, *FAULTS, "missing", "exchanged", "decayed")
    rows, wrong, count = [], 0, 0
    with tempfile.TemporaryDirectory(prefix="sonde-two-") as scratch:
        directory = pathlib.Path(options.keep or scratch).absolute()
        for pair in pairs:
            found = {}
            for fault in (HEALTHY, *pair.faults):
                if options.fault and fault not in options.fault:
                    continue
                if options.short and fault not in (HEALTHY, *SHORT[pair.name]):
                    continue
                found[fault], text = look(pair, fault, directory)
                count += 1
                if found[fault] not in RIGHT:
                    wrong += 1
                    expected = right(TwoCell(pair.target, fault))
                    print(f"{pair.name} {fault}: {found[fault]}\n  said   {text}\n  right  {expected}", flush=True)
            rows.append([pair.name, *("✓" if found.get(c) in RIGHT else found.get(c, "") for c in columns)])
    print("", table(["pair", *columns], rows), f"\n{count - wrong} of {count} answers are right", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
