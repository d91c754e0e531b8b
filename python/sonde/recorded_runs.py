"""Runs recorded operators again, and finds the call that gives the recorded output."""

import contextlib
import dataclasses
import functools
import itertools
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .dump import Op, Ops
from .dump.tables import Tables
from .recorded_calls import Call, bound, calls_of, missing, slots_in
from .recorded_values import CannotRun, Values, has_values, inputs_of, outputs_of, same_bits

# Operators whose result is memory that nobody has written.
_UNWRITTEN = ("empty", "new_empty", "resize_", "_empty_affine")

# Seeds that programs do not use, so that random numbers are not those of the program by chance.
_SEEDS = (0x50DE01, 0x50DE02)


@dataclasses.dataclass(frozen=True)
class Again:
    """An operator that ran again. `recorded`: its outputs in the dump; `error`: of an operator that throws."""

    op: Op
    call: Call
    inputs: Values
    recorded: Values
    outputs: Values
    error: str = ""
    random: bool = False

    @property
    def is_same(self) -> bool:
        """Whether all recorded outputs have the same bits, or the recorded operator threw and this one does."""
        return _is_same(self.op, self.recorded, self.outputs, self.error)


def run_again(op: Op) -> Again:
    """Raises CannotRun with the reason."""
    recorded = _expected(op)
    inputs = inputs_of(op)
    best: Again | None = None
    problem = ""
    for call in _calls_of(op, inputs, recorded):
        try:
            outputs, error = run(call, inputs), ""
        except Exception as failure:
            outputs, error = {}, _first_line(failure)
            problem = problem or error
        if error and not op.failed:
            continue
        again = Again(op, call, inputs, recorded, outputs, error)
        if again.is_same:
            best = again
            break
        if best is None or (_fits(again) and not _fits(best)):
            best = again
    if best is None:
        raise CannotRun(f"PyTorch refuses the recorded inputs: {problem}")
    _check(best)
    return dataclasses.replace(best, random=_is_random(best))


@functools.lru_cache(maxsize=4)
def _has_arguments(tables: Tables) -> bool:
    """Whether the dump has arguments of operators; one without journal and graphs has none."""
    return any(op.attributes for op in itertools.islice(Ops.all_of(tables), 10_000))


def _check(again: Again) -> None:
    """Raises CannotRun if the call is not the recorded one: that says nothing of the operator."""
    if again.is_same:
        return
    if "as_strided" in again.op.op_type:
        raise CannotRun("it reads memory around its input, of which the dump has no strides")
    if not _has_arguments(again.op.tables):
        raise CannotRun("the dump has no arguments that are not tensors, and no tried values give the recorded output")
    guessed = [argument.name for argument in again.call.arguments if argument.origin != "recorded"]
    if guessed:
        what = "argument" if len(guessed) == 1 else "arguments"
        raise CannotRun(
            f"the dump does not have its {what} {', '.join(guessed)}, and no tried values give the recorded output"
        )
    if not _fits(again):
        raise CannotRun("its outputs have other types or shapes here")


def _is_same(op: Op, recorded: Values, outputs: Values, error: str) -> bool:
    if op.failed:
        return bool(error)
    return not error and all(slot in outputs and same_bits(outputs[slot], recorded[slot]) for slot in recorded)


def _calls_of(op: Op, inputs: Values, outputs: Values) -> list[Call]:
    try:
        return calls_of(op, inputs, outputs)
    except CannotRun as reason:
        absent = missing(op)
        if "takes the recorded" in str(reason) and absent:
            raise CannotRun(f"{reason}; the dump does not have {', '.join(absent)}") from None
        raise


def _expected(op: Op) -> Values:
    if op.op_type.startswith(_UNWRITTEN):
        raise CannotRun("its result is memory that nobody has written")
    if op.failed:
        return {}
    if not len(op.outputs):
        raise CannotRun("it returns no tensor")
    if not has_values(op.outputs):
        skipped = next((tensor.skipped for tensor in op.outputs if tensor.skipped), "")
        raise CannotRun(f"the dump has no values of its outputs{f': {skipped}' if skipped else ''}")
    return outputs_of(op)


def _fits(again: Again) -> bool:
    return all(
        slot in again.outputs
        and again.outputs[slot].dtype == tensor.dtype
        and again.outputs[slot].shape == tensor.shape
        for slot, tensor in again.recorded.items()
    )


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def run(call: Call, inputs: Mapping[int, torch.Tensor], seed: int = _SEEDS[0]) -> Values:
    """The outputs by slot. The inputs stay as they are."""
    own = {slot: tensor.clone() for slot, tensor in inputs.items()}
    if call.grad:
        own = {slot: tensor.requires_grad_() if _can_learn(tensor) else tensor for slot, tensor in own.items()}
    positional = [bound(argument.value, own) for argument in call.arguments if not argument.keyword_only]
    keywords = {argument.name: bound(argument.value, own) for argument in call.arguments if argument.keyword_only}
    with warnings.catch_warnings(), torch.set_grad_enabled(call.grad), _seeded(seed):
        warnings.simplefilter("ignore")
        result = call.overload(*positional, **keywords)
    if not call.overload._schema.returns:
        return dict(enumerate(_written(call, own)))
    return {slot: tensor.detach() for slot, tensor in enumerate(_flat(result)) if tensor is not None}


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """PyTorch's generator of the CPU has this seed inside, and its own state after."""
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def _can_learn(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _written(call: Call, inputs: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
    """The arguments that the schema marks as written, which are the result of an operator that returns nothing."""
    schema = {argument.name: argument.alias_info for argument in call.overload._schema.arguments}
    return [
        inputs[slot.number]
        for argument in call.arguments
        if (alias := schema[argument.name]) is not None and alias.is_write
        for slot in slots_in(argument.value)
    ]


def _flat(result: Any) -> list[torch.Tensor | None]:
    """Tensors by slot: an output that is None has one too, a number has none."""
    if result is None or isinstance(result, torch.Tensor):
        return [result]
    return [tensor for part in result for tensor in _flat(part)] if isinstance(result, (tuple, list)) else []


def _is_random(again: Again) -> bool:
    """Whether another seed gives another result; only then the operator draws numbers."""
    if again.error or again.is_same:
        return False
    try:
        others = run(again.call, again.inputs, seed=_SEEDS[1])
    except Exception:
        return False
    return not all(same_bits(others[slot], again.outputs[slot]) for slot in again.outputs if slot in others)
