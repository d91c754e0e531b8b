"""The fault of this process: which one, and whether it is its turn.

A program asks `planted("forward")` where that fault would be. The line that then goes wrong ends with the mark
`# FAULT: forward`; a line may have the marks of several faults.
"""

import os

STEPS = 3
STEP = 1  # of the fault

_fault = ""
_step = 0
rank = 0


def begin(fault):
    global _fault, rank
    _fault = fault
    rank = int(os.environ.get("RANK", "0"))


def go_to(step):
    global _step
    _step = step


def planted(fault):
    return _fault == fault and _step == STEP


def rank_is(number):
    return rank == number


def has(fault):
    """Whether this run has the fault, in whatever step."""
    return _fault == fault
