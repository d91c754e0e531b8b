"""Runs recorded operators again and says which of them are wrong by more than rounding: `sonde replay`.

    for op in sonde.replay.replay(dump.ops.select(step=3)):
        print(op.op_name, op.verdict, op.why)

The recorded output is compared with that of the same operator in its own type, and in float64.
"""

import collections
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .answer import Answer, Answered, answered, opened
from .answer_base import document_of
from .answer_types import Replay, ReplayedOp
from .dump import Op
from .recorded_ops import all_ops, check_values, ops_named, place_of
from .recorded_runs import Again, run_again
from .recorded_values import CannotRun
from .rounding import Distance, Reference, distance, overflows, reference_of

VERDICTS = ("wrong", "within_rounding", "same_bits", "cannot_be_replayed")
_SAME_AGAIN = "this kernel gives the recorded bits again"
_OTHER_HERE = "here it gives another value: the kernel was wrong, or something else wrote the memory"


class _Compared(NamedTuple):
    kind: str
    found: Distance


def replay(ops: Iterable[Op]) -> list[ReplayedOp]:
    """A ReplayedOp for each, in their order."""
    return [replay_one(op) for op in ops]


def replay_one(op: Op) -> ReplayedOp:
    """Runs one operator again. An operator that cannot run is one of the results."""
    try:
        again = run_again(op)
        if again.random:
            raise CannotRun("it draws random numbers: another seed gives another output")
        if op.failed and not again.error:
            raise CannotRun("it threw in the program, and does not here")
        if op.failed:
            return _answer(op, "same_bits", f"it throws again: {again.error}", same=True)
        return _judged(again)
    except CannotRun as reason:
        return _answer(op, "cannot_be_replayed", str(reason))


def _judged(again: Again) -> ReplayedOp:
    if not again.recorded:
        raise CannotRun("the dump has no values of its outputs")
    reference = reference_of(again)
    found = distance(again, reference)
    verdict, why = _verdict(again, reference, found)
    return _answer(again.op, verdict, why, again.is_same, _Compared(reference.kind, found))


def _verdict(again: Again, reference: Reference, found: Distance) -> tuple[str, str]:
    """The verdict with its reason."""
    kind, same = reference.kind, again.is_same
    if same and kind == "own":
        return "same_bits", "no wider type to compare with"
    if found.is_rounding:
        return ("same_bits" if same else "within_rounding"), ""
    dtype = again.recorded[found.slot].dtype
    if same and overflows(again, reference):
        return "same_bits", f"finite in {kind}: beyond the range of {str(dtype).removeprefix('torch.')}"
    if same and not (dtype.is_floating_point or dtype.is_complex):
        return "same_bits", f"{kind} gives other integers; they hang on rounding"
    what = f"output.{found.slot} is {found.error:.3g} from {kind}, rounding explains {found.bound:.3g}"
    if found.lost:
        what = f"{found.lost} elements of output.{found.slot} are finite in {kind} and not in the dump, or the reverse"
    return "wrong", f"{what}; {_SAME_AGAIN if same else _OTHER_HERE}"


def _answer(op: Op, verdict: str, why: str, same: bool = False, compared: "_Compared | None" = None) -> ReplayedOp:
    found = compared.found if compared else Distance(0, 0.0, 0.0)
    return ReplayedOp(
        **place_of(op),
        verdict=verdict,
        why=why,
        same=same,
        reference=compared.kind if compared else "",
        slot=found.slot,
        error=found.error,
        bound=found.bound,
    )


# --- the command ------------------------------------------------------------------------------------------------------


def main(request_text: str) -> int:
    """The program of `sonde replay`; the request is its options, as JSON. Returns the exit status."""
    return answered(request_text, _replay, document_of(Replay(replayed=())))


def _replay(request: Mapping[str, Any], answer: Answer) -> Answered:
    name, part = request.get("op", ""), (request.get("step", ""), request.get("rank", ""))
    is_summary = bool(request.get("all"))
    if bool(name) == is_summary:
        raise ValueError("name an operator, or give --all")
    dump = opened(request, answer, incomplete=False)
    ops = ops_named(dump, name, *part) if name else all_ops(dump, *part)
    check_values(ops)
    found = replay(ops)
    document = _without_infinity(document_of(Replay(replayed=tuple(found))))
    return _status(found), document, _lines(found, is_summary)


def _status(found: Sequence[ReplayedOp]) -> int:
    verdicts = {op.verdict for op in found}
    return 1 if "wrong" in verdicts else 3 if verdicts == {"cannot_be_replayed"} else 0


def _without_infinity(document: Any) -> Any:
    """JSON has no infinity: the text that all verbs write for one."""
    if isinstance(document, dict):
        return {name: _without_infinity(value) for name, value in document.items()}
    if isinstance(document, list):
        return [_without_infinity(value) for value in document]
    return document if not isinstance(document, float) or math.isfinite(document) else str(document)


def _lines(found: Sequence[ReplayedOp], summary: bool) -> list[str]:
    """With `summary`, rows of wrong operators alone, and the reasons of those that cannot be replayed by number."""
    if not found:
        return []
    shown = [op for op in found if op.verdict == "wrong"] if summary else found
    rows = [("verdict", "step", "error", "bound", "op", "source")] + [_row(op) for op in shown]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = []
    for number, row in enumerate(rows if shown else []):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number and shown[number - 1].why:
            lines.append(f"  {shown[number - 1].why}")
    counts = collections.Counter(op.verdict for op in found)
    lines.append(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]))
    if summary:
        reasons = collections.Counter(op.why for op in found if op.verdict == "cannot_be_replayed")
        lines += [f"  {number} cannot be replayed: {why}" for why, number in reasons.most_common()]
    return lines


def _row(op: ReplayedOp) -> tuple[str, ...]:
    source = f"{op.source_file.rpartition('/')[2]}:{op.source_line}" if op.source_file else ""
    numbers = (f"{op.error:.3g}", f"{op.bound:.3g}") if op.reference else ("", "")
    return (op.verdict, str(op.step), *numbers, op.op_name, source)
