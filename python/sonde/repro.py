"""Writes a program that runs one recorded operator alone: `sonde repro`.

    found = sonde.repro.repro(op, "issue")
    print(found.outcome, found.files)

The directory has repro.py, which needs PyTorch and safetensors alone, and inputs.safetensors with the recorded inputs
and outputs.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from . import safetensors
from .answer import Answer, Answered, answered, opened
from .answer_base import document_of
from .answer_types import Repro, ReproArgument, ReproOutput
from .dump import Op
from .errors import Error
from .recorded_calls import slots_in
from .recorded_ops import check_values, one_name, ops_named, place_of
from .recorded_runs import Again, run_again
from .recorded_values import Bits, CannotRun, is_fault, not_finite, outputs_of, same_bits
from .repro_text import program_of
from .rounding import distance, reference_of

PROGRAM, INPUTS = "repro.py", "inputs.safetensors"
_WORDS = {
    "same_bits": "the same bits",
    "within_rounding": "the same up to rounding",
    "same_faults": "NaN and infinity in the same places, other values",
    "throws": "it throws again",
    "random": "it is random, so other values",
    "different": "other values",
}


def repro(op: Op, directory: str | os.PathLike[str]) -> Repro:
    """Runs an operator again and writes the program that does so. Raises Error if it cannot run again, ValueError if
    the directory exists and is not empty, OSError."""
    place = Path(directory)
    _check_free(place)
    try:
        again = run_again(op)
    except CannotRun as reason:
        raise Error(f"{op.op_name} of step {op.step} cannot run alone: {reason}") from None
    files = _write(again, place)
    outcome = _outcome(again)
    return Repro(
        directory=os.fspath(directory),
        files=tuple(map(str, files)),
        **place_of(op),
        call=again.call.name,
        outcome=outcome,
        reproduces=outcome in ("same_bits", "within_rounding", "same_faults", "throws"),
        thrown=again.error or None,
        arguments=_arguments(again),
        outputs=tuple(_output(again, slot) for slot in sorted(again.recorded)),
        notes=tuple(_notes(again, outcome)),
    )


def chosen(ops: Sequence[Op]) -> Op:
    """The first of these that threw, or whose output has a NaN or infinity; without one, the first."""
    return next((op for op in ops if op.failed or _has_fault(op)), ops[0])


def _has_fault(op: Op) -> bool:
    try:
        return any(map(is_fault, outputs_of(op).values()))
    except CannotRun:
        return False


def _check_free(directory: Path) -> None:
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ValueError(f"'{directory}' exists and is not an empty directory; choose another one: --to")


def _write(again: Again, directory: Path) -> list[Path]:
    sides = (("input", again.inputs), ("output", again.recorded))
    entries: list[safetensors.Entry] = []
    for side, tensors in sides:
        for slot, values in tensors.items():
            source = Bits(values)
            code, shape, _elements = safetensors.bits_of(source)
            entries.append((f"{side}.{slot}", code, shape, source))
    directory.mkdir(parents=True, exist_ok=True)
    files = [directory / PROGRAM, directory / INPUTS]
    files[0].write_text(program_of(again), encoding="utf-8")
    with open(files[1], "wb") as file:
        safetensors.write(file, entries)
    return files


def _outcome(again: Again) -> str:
    if again.op.failed:
        return "throws" if again.error else "different"
    if again.is_same:
        return "same_bits"
    if again.random:
        return "random"
    if distance(again, reference_of(again)).is_rounding:
        return "within_rounding"
    same_faults = all(
        slot in again.outputs
        and again.outputs[slot].shape == values.shape
        and torch.equal(not_finite(again.outputs[slot]), not_finite(values))
        for slot, values in again.recorded.items()
    )
    faults = any(map(is_fault, again.recorded.values()))
    return "same_faults" if same_faults and faults else "different"


def _arguments(again: Again) -> tuple[ReproArgument, ...]:
    return tuple(
        ReproArgument(argument.name, repr(argument.value), argument.origin)
        for argument in again.call.arguments
        if not slots_in(argument.value) and argument.name in _plain_names(again)
    )


def _plain_names(again: Again) -> set[str]:
    schema = again.call.overload._schema
    return {argument.name for argument in schema.arguments if "Tensor" not in str(argument.type)}


def _output(again: Again, slot: int) -> ReproOutput:
    recorded, now = again.recorded[slot], again.outputs.get(slot)
    wide = recorded.to(torch.complex128 if recorded.dtype.is_complex else torch.float64)
    return ReproOutput(
        slot=slot,
        dtype=str(recorded.dtype).removeprefix("torch."),
        shape=tuple(recorded.shape),
        nan_count=int(torch.isnan(wide).sum()),
        infinity_count=int(torch.isinf(wide).sum()),
        same=now is not None and same_bits(recorded, now),
        largest_difference=_largest_difference(wide, now),
    )


def _largest_difference(recorded: torch.Tensor, now: torch.Tensor | None) -> float:
    if now is None or now.shape != recorded.shape:
        return math.nan
    apart = (recorded - now.to(recorded.dtype)).abs()
    apart = apart[torch.isfinite(apart)]
    return float(apart.max()) if apart.numel() else 0.0


def _notes(again: Again, outcome: str) -> list[str]:
    notes = []
    for origin, what in (("default", "the default of the operator"), ("found", "found: it gives the recorded output")):
        names = [f"{one.name}={one.value!r}" for one in again.call.arguments if one.origin == origin]
        if names:
            notes.append(f"not recorded, {what}: {', '.join(names)}")
    if outcome == "random":
        notes.append("it draws random numbers, and the dump does not have the state of the generator")
    if any(tensor.skipped == "only written" for tensor in again.op.inputs):
        notes.append("an argument that the operator only writes is zeros")
    if outcome not in ("same_bits", "throws") and any(tensor.dim() > 1 for tensor in again.inputs.values()):
        notes.append("inputs are contiguous, which may select another kernel: the dump has no strides")
    if again.call.grad:
        notes.append("inputs require gradients, as in the program: the same kernel runs")
    return notes


# --- the command ------------------------------------------------------------------------------------------------------


def main(request_text: str) -> int:
    """The program of `sonde repro`; the request is its options, as JSON. Returns the exit status."""
    return answered(request_text, _repro, {})


def _repro(request: Mapping[str, Any], answer: Answer) -> Answered:
    if request.get("to"):
        _check_free(Path(request["to"]))
    dump = opened(request, answer, incomplete=False)
    ops = one_name(ops_named(dump, request["op"], request.get("step", ""), request.get("rank", "")), request["op"])
    check_values(ops)
    op = chosen(ops)
    found = repro(op, request.get("to") or _directory_for(op))
    return 0 if found.reproduces else 1, document_of(found), _lines(found)


def _directory_for(op: Op) -> str:
    last = re.sub(r"[^\w.-]", "_", op.op_name.rpartition("/")[2]).lstrip(".")
    return f"repro-{last}-{op.step}"


def _lines(found: Repro) -> list[str]:
    source = f", {found.source_file}:{found.source_line}" if found.source_file else ""
    lines = [f"{found.op_name}, rank {found.rank}, step {found.step}{source}"]
    arguments = ", ".join(f"{one.name}={one.value}" for one in found.arguments)
    lines.append(f"  call      {found.call}{f' with {arguments}' if arguments else ''}")
    for output in found.outputs:
        shape = ",".join(map(str, output.shape or ()))
        same = "the same bits again" if output.same else f"largest difference {output.largest_difference:.3g}"
        counts = f"{output.nan_count} NaN, {output.infinity_count} infinite"
        lines.append(f"  output.{output.slot}  {output.dtype} ({shape}), {counts}, {same}")
    if found.thrown:
        lines.append(f"  throws    {found.thrown}")
    lines += [f"  note      {note}" for note in found.notes]
    verdict = "reproduces" if found.reproduces else "does not reproduce"
    lines.append(f"  outcome   {verdict}: {_WORDS[str(found.outcome)]}")
    lines.append(f"{found.directory}/{PROGRAM}: python {PROGRAM} runs it")
    return lines
