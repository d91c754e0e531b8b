"""Runs each pair of rewrites without Sonde, and prints the pairs whose losses differ by more than rounding.

    python tests/faults/rewrites_check.py [NAME …]

A pair that this prints is a mistake of the bench. A twin with a planted fault is printed if its losses are the same.
Exit status: 0 all pairs are right, 1 some are not.
"""

import importlib
import json
import os
import pathlib
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import rewrites_training
import torch
from cases import all_cases
from record import forked

FAMILIES = ("rewrites", "rewrites with a fault", "weights in another layout")


def run(case, flag, directory):
    """The losses of one program, which runs in a process of its own; None if it fails."""
    path = pathlib.Path(directory) / "losses.json"
    path.unlink(missing_ok=True)

    def work():
        signal.alarm(60)  # ends a program that hangs
        torch.manual_seed(0)
        torch.set_num_threads(1)
        case.program(flag)
        path.write_text(json.dumps(rewrites_training.LOSSES))

    os.waitpid(forked(work), 0)
    return json.loads(path.read_text()) if path.exists() else None


def are_equal(one, other):
    return len(one) == len(other) > 0 and all(
        abs(a - b) <= within * max(abs(a), abs(b)) for (a, within), (b, _within) in zip(one, other, strict=True)
    )


def main():
    names, wrong = sys.argv[1:], 0
    importlib.import_module("torch._dynamo")  # once, before the forks: the first optimizer imports it
    with tempfile.TemporaryDirectory(prefix="sonde-rewrites-") as directory:
        for case in all_cases():
            if case.family not in FAMILIES or case.ranks > 1 or (names and case.name not in names):
                continue
            one, other = run(case, True, directory), run(case, False, directory)
            is_right = one and other and (are_equal(one, other) if case.kind == "rounding" else one != other)
            if not is_right:
                wrong += 1
                print(f"{case.name} ({case.kind}): {one} and {other}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
