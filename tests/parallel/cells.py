"""The cells of the table: each style with each question, and the right answer.

The answers were written down before Sonde saw the programs. A line is found by its mark `# FAULT: name`.
"""

import dataclasses
import pathlib
import re

import program
from planted import STEP as FAULT_STEP
from styles import Style, all_styles

HERE = pathlib.Path(__file__).parent
# Columns. Of a healthy run:
BITS = "bits"  # the same with Sonde on and off
VALUES = "values"  # every operator has values, module and line
STATS = "stats"  # stats counts no NaN: there is none but in memory that nobody has written
HEALTHY = "healthy"  # first-bad: nothing wrong
REPEAT = "repeat"  # compared with a second run: no difference
# Before first-bad: NaN and infinities.
PLANTED = ("forward", "one_rank", "backward", "optimizer", "state", "clipping")
# Before compare, with the healthy run as golden: a mean for a sum, a collective left out, over another group.
WRONG = ("mean", "missing", "group")
# Before compare, with the run on one process as golden: the healthy run, and all faults.
WHOLE = "whole"
# A slice of a weight is another rank's, or ranks have each other's; every rank adds the bias to its part of a sum; a
# gradient is not added up; losses of micro-batches are not divided by their number.
OWN = ("exchanged", "misplaced", "bias", "unreduced", "undivided")
WHOLE_FAULTS = tuple(f"{WHOLE}_{fault}" for fault in (*PLANTED, *WRONG, *OWN))
# Before compare, with the healthy run of another sharding of the same training as golden.
OTHER = "other"
OTHER_FAULTS = tuple(f"{OTHER}_{fault}" for fault in (*PLANTED, *WRONG))
OTHERS = {"ddp": "fsdp2", "fsdp1": "fsdp2_tp", "fsdp2": "fsdp1", "fsdp2_tp": "ddp"}
SHARDED = (BITS, VALUES, STATS, HEALTHY, REPEAT, *PLANTED, *WRONG)
COLUMNS = (*SHARDED, WHOLE, *WHOLE_FAULTS, OTHER, *OTHER_FAULTS)
# Of comparisons with such runs: the first op that only the faulty run has; without a collective, the op that reads
# parts of a sum.
OPS_OF_WHOLE = {
    "forward": ("square", "pow", "log"),
    "one_rank": ("square", "pow", "log"),
    "clipping": ("mul",),
    "missing": ("div", "add", "sqrt"),
    "exchanged": ("t", "addmm", "linear"),
    "misplaced": ("t", "addmm", "linear"),
    "bias": ("add", "linear"),
    "unreduced": ("square", "add_"),  # the norm of the gradients may be within its bound
    "undivided": ("div",),
    "group": ("allreduce_", "div", "add", "sqrt"),
}


def fault_of(column):
    return column.removeprefix(WHOLE + "_").removeprefix(OTHER + "_")


def has_column(style, column):
    return style.can_have(fault_of(column)) and (not column.startswith(OTHER) or style.name in OTHERS)


@dataclasses.dataclass(frozen=True)
class Cell:
    """As a case of tests/faults."""

    style: Style
    column: str

    causes = verdicts = ()

    @property
    def name(self):
        return f"{self.style.name}-{self.column}"

    @property
    def ranks(self):
        return self.style.ranks

    @property
    def kind(self):
        if self.column in PLANTED:
            return "non_finite"
        return "differs" if self.column in (*WRONG, *WHOLE_FAULTS, *OTHER_FAULTS) else "healthy"

    @property
    def is_whole(self):
        """The golden run has one process."""
        return self.column in (WHOLE, *WHOLE_FAULTS)

    @property
    def is_other(self):
        """The golden run is sharded in another way."""
        return self.column in (OTHER, *OTHER_FAULTS)

    @property
    def other(self):
        """The healthy run of that sharding."""
        return Cell(all_styles()[OTHERS[self.style.name]], REPEAT)

    @property
    def fault(self):
        return "" if self.kind == "healthy" else fault_of(self.column)

    @property
    def has_golden(self):
        return self.column in (REPEAT, *WRONG) or self.is_whole or self.is_other

    @property
    def ops(self):
        joins = self.style.joins
        if (self.is_whole or self.is_other) and self.fault in OPS_OF_WHOLE:
            return OPS_OF_WHOLE[self.fault]
        return {
            "forward": ("log",),
            "one_rank": ("log",),
            "backward": ("div",),
            "optimizer": self.style.update,
            "state": ("div_",),
            "clipping": ("div",),
            "mean": ("div_", "div", *joins),
            "missing": joins,
            "group": joins,
        }.get(self.fault, ())

    @property
    def bad_ranks(self):
        """Those that may be named. Ranks that compute one after the other have a first and a last."""
        if self.fault in ("one_rank", "misplaced"):
            return {1}
        if self.style.in_order and self.fault == "forward":
            return {0}
        if self.style.in_order and self.fault == "backward":
            return {self.ranks - 1}
        return set(range(self.ranks))

    @property
    def steps(self):
        """For Sonde, operators between the optimizer and the next forward pass belong to the step before."""
        if self.fault in ("exchanged", "misplaced"):
            return (0,)
        return (FAULT_STEP - 1, FAULT_STEP) if self.fault in WRONG else (FAULT_STEP,)

    @property
    def places(self):
        if not self.fault:
            return set()
        of_whole = marks().get(f"{WHOLE}_{self.fault}", set()) if self.is_whole or self.is_other else set()
        return {place for place in marks()[self.fault] | of_whole if place[0] in self.style.files}

    def program(self, place, unwritten):
        program.main(self.style.name, self.fault, place, unwritten)


@dataclasses.dataclass(frozen=True)
class OneProcess:
    """The run of a style on one process, for record()."""

    style: Style
    ranks = 1

    @property
    def name(self):
        return f"{self.style.name}-{WHOLE}"

    def program(self, _place, unwritten):
        program.main_on_one_process(self.style.name, unwritten)


def marks():
    """Of each fault: names of files with numbers of lines."""
    found = {}
    for path in sorted(HERE.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if mark := re.search(r"# FAULT: ([\w, ]+)$", line):
                for fault in mark[1].split(", "):
                    found.setdefault(fault, set()).add((path.name, number))
    return found
