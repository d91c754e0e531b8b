"""The answers of the analyses as classes, and the arguments of their questions.

Made from contract/ by tools/contract.py: a change here is lost.

The members have the names that they have in JSON (docs/json/)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

from .answer_base import Answer, Record, Steps


class Statistics(NamedTuple):
    """The statistics of one tensor; None if the dump does not have them."""

    max: float | None
    min: float | None
    avg: float | None
    l2norm: float | None
    count: int | None  # type: ignore[assignment]  # replaces tuple.count
    nan_count: int | None
    positive_inf_count: int | None
    negative_inf_count: int | None
    positive_count: int | None
    negative_count: int | None
    zero_count: int | None


REALS, COUNTS = Statistics._fields[:4], Statistics._fields[4:]


@dataclasses.dataclass(frozen=True)
class TensorPair(Record):
    """A tensor of the target beside its counterpart, with the errors that were measured. A bound that does not apply is
    left out.
    side: whether the operator reads or writes it (`input`, `output`)
    slot: its number on its side
    parameter: the parameter, gradient, state or input data that the tensor is; empty: none
    dtype: the type of the elements; `?`: only a file has it
    shape: sizes in the target
    golden_shape: sizes in the golden dump
    compared_by: `values`, `statistics`, `hash`; empty: not at all
    equal: equal to the last bit, as far as was compared
    beyond: further apart than the bounds allow
    golden_slot: the number on the golden side, where it is another one
    problem: why it could not be compared
    note: what else is known of the pair
    relative_error: the norm of the difference over the golden norm
    rms_error: the root of the mean square of the difference
    max_error: the largest difference
    golden_rms: the root of the mean square of the golden values
    different_non_finite: elements that are NaN or infinite on one side, or differ in it
    cosine: the cosine of both as vectors
    elements: elements
    mismatches: elements beyond the bounds that were given
    worst_index: the flat index of the largest error
    worst_value: the value of the target at the largest error
    worst_golden: the golden value there
    rounding_rms: the error that rounding explains, as root of the mean square
    rounding_max: the largest error that rounding explains
    propagated_rms: the error that the errors of the inputs explain, as root of the mean square
    propagated_max: the largest error that they explain
    """

    side: str
    slot: int
    parameter: str
    dtype: str
    shape: tuple[int, ...]
    golden_shape: tuple[int, ...]
    compared_by: str
    equal: bool
    beyond: bool
    golden_slot: int | None = None
    problem: str | None = None
    note: str | None = None
    relative_error: float | None = None
    rms_error: float | None = None
    max_error: float | None = None
    golden_rms: float | None = None
    different_non_finite: int | None = None
    cosine: float | None = None
    elements: int | None = None
    mismatches: int | None = None
    worst_index: int | None = None
    worst_value: float | None = None
    worst_golden: float | None = None
    rounding_rms: float | None = None
    rounding_max: float | None = None
    propagated_rms: float | None = None
    propagated_max: float | None = None


@dataclasses.dataclass(frozen=True)
class Difference(Record):
    """A place where the target's run differs from the golden one.

    kind: `op`, `parameter`, `data`, `inserted`, …: docs/compare.md, "What is found"
    rank: the number of the process
    graph: 0 for training, 1 for evaluation
    step: the number of the step
    op_name: the operator to look at: of the golden dump if `in_golden`
    op_type: the type of the operator
    source_file: the file of the user's program; empty: unknown
    source_line: the line in it; 0: unknown
    in_golden: the operator is in the golden dump alone
    golden: the operators that it was compared with
    text: the difference in one line
    tags: `uncertain`: the text names the evidence that would settle it
    factor: the target's tensor is so many times the golden one; without it there is no one factor
    tensor: the tensor with the error
    attributes: arguments of the operators that differ
    """

    kind: str
    rank: int
    graph: int
    step: int
    op_name: str
    op_type: str
    source_file: str
    source_line: int
    in_golden: bool
    golden: str
    text: str
    tags: tuple[str, ...]
    attributes: tuple[str, ...]
    factor: float | None = None
    tensor: TensorPair | None = None


@dataclasses.dataclass(frozen=True)
class Layer(Record):
    """The error that a layer introduces.

    layer: the path of the module
    rank: the number of the process
    graph: 0 for training, 1 for evaluation
    step: the number of the step
    op_name: the operator whose output was compared
    compared_by: what was compared (`values`, `statistics`)
    introduced: the root of `error_out` squared less `error_in` squared
    error_in: the relative error of its inputs
    error_out: the relative error of its outputs
    signal_to_noise_db: 20 log10 of 1 / `error_out`
    """

    layer: str
    rank: int
    graph: int
    step: int
    op_name: str
    compared_by: str
    introduced: float
    error_in: float
    error_out: float
    signal_to_noise_db: float


@dataclasses.dataclass(frozen=True)
class OperatorPair(Record):
    """An operator of the target with its counterpart, or one of them alone.

    rank: the number of the process
    graph: 0 for training, 1 for evaluation
    step: the number of the step
    verdict: how the operator compares with its counterpart
    target: operators of the target, by full name
    golden: operators of the golden dump, by full name
    op_type: the type of the operator
    kind: the kind of operator, whose rounding is expected
    matched_by: how the counterpart was found
    source_file: the file of the user's program; empty: unknown
    source_line: the line in it; 0: unknown
    function: the function around the line
    inputs: tensors that it reads
    outputs: tensors that it writes
    moved: it runs at another place than its counterpart, among the pairs of the step
    reason: why it has this verdict, or no counterpart
    nearest: the operator on the other side that is most like it
    """

    rank: int
    graph: int
    step: int
    verdict: str
    target: tuple[str, ...]
    golden: tuple[str, ...]
    op_type: str
    kind: str
    matched_by: str
    source_file: str
    source_line: int
    function: str
    inputs: tuple[TensorPair, ...]
    outputs: tuple[TensorPair, ...]
    moved: bool = False
    reason: str | None = None
    nearest: str | None = None


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Answer):
    """The operators of two dumps, and the first that introduces an error beyond its rounding.

    complete: everything was looked at: without a finding, nothing is wrong
    findings: the earliest error first
    summary: the number of operators with each verdict
    rtol: the relative tolerance that was given; null: it is derived for each operator
    atol: the absolute tolerance that was given; null: it is derived
    notes: ranks and steps that only one dump has
    layers: with `--layers`: the largest first
    ops: every operator
    """

    complete: bool
    findings: tuple[Difference, ...]
    summary: Mapping[str, int]
    rtol: float | None
    atol: float | None
    notes: tuple[str, ...]
    ops: tuple[OperatorPair, ...]
    layers: tuple[Layer, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ConvertedTensor(Record):
    """A tensor that was written, or that could not be converted.

    from_: the file that it comes from
    to: the file that was written
    bytes: bytes of the tensor
    lost: the tensor that was not written; absent: the whole file
    why: why not
    """

    from_: str
    to: str | None = None
    bytes: int | None = None
    lost: str | None = None
    why: str | None = None


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class ConvertedFiles(Answer):
    """Tensors of binary files in another format.

    files: a row for each tensor
    """

    files: tuple[ConvertedTensor, ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class UnfinishedRun(Record):
    """A rank whose last run did not end the recording itself: nobody knows what came after.

    state: `stopped`: an error ended the recording, and the program went on
    rank: the number of the process
    dump: the dump of the rank, if the path holds several
    graph: 0 for training, 1 for evaluation
    step: the last one
    in_step: false: the step had ended
    reason: the error that stopped the recording; otherwise empty
    complete_step: the last step of this graph that ended; null: none did
    """

    state: str
    rank: int
    dump: str
    graph: int
    step: int
    in_step: bool
    reason: str
    complete_step: int | None


@dataclasses.dataclass(frozen=True)
class FindingTensor(Record):
    """A tensor that a finding is about, or points to.

    op_name: the operator; empty: nothing in the dump made the tensor
    op_type: the type of the operator
    side: whether the operator reads or writes it (`input`, `output`)
    slot: its number on its side
    parameter: the parameter, gradient, state or input data that the tensor is; empty: none
    dtype: the type of the elements; null: the dump does not have it
    shape: sizes; null: the dump does not have them
    statistics: those that the dump has
    tensor_file: the file with the values
    """

    op_name: str
    op_type: str
    side: str
    slot: int
    parameter: str
    dtype: str | None
    shape: tuple[int, ...] | None
    statistics: Mapping[str, float] = dataclasses.field(default_factory=dict, metadata={"members": Statistics._fields})
    tensor_file: str | None = None


class Line(NamedTuple):
    """A line of the user's program.

    number: from 1
    text: without its end
    """

    number: int
    text: str


@dataclasses.dataclass(frozen=True)
class Code(Record):
    """A line of the user's program, with its neighbours where the text is there.

    source_file: the file of the user's program; empty: unknown
    source_line: the line in it; 0: unknown
    function: the function around the line
    lines: the line and its neighbours
    """

    source_file: str
    source_line: int
    function: str
    lines: tuple[Line, ...]


@dataclasses.dataclass(frozen=True)
class Finding(Record):
    """Something wrong: its place, its numbers, the reason and the evidence.

    kind: what was found, in a word of the verb's list
    severity: `error` and `warning` give exit status 1, `note` none
    rank: the number of the process
    dump: the dump of the rank, if the path holds several
    graph: 0 for training, 1 for evaluation
    step: the number of the step
    phase: when the operator ran (`forward`, `backward`, `optimizer`, `outside`, `recompute`)
    op_name: the operator that is to blame
    op_type: the type of the operator
    tags: further properties: `backward_only`, `one_rank_only`, `uncertain`
    why: the reason, in a sentence
    tensor: the wrong tensor
    numbers: the numbers that the sentence rests on, by name
    evidence: the observed facts, a line each
    limits: the facts that this dump cannot show, a line each
    code: the line of the operator
    """

    kind: str
    severity: str
    rank: int
    dump: str
    graph: int
    step: int
    phase: str
    op_name: str
    op_type: str
    tags: tuple[str, ...]
    why: str
    tensor: FindingTensor
    numbers: Mapping[str, float]
    evidence: tuple[str, ...]
    limits: tuple[str, ...]
    code: Code


@dataclasses.dataclass(frozen=True)
class HealthyPlace(Record):
    """A rank and graph where a healthy infinity is.

    rank: the number of the process
    dump: the dump of the rank, if the path holds several
    graph: 0 for training, 1 for evaluation
    steps: steps, as `--step` takes them: `0-2|5`
    """

    rank: int
    dump: str
    graph: int
    steps: str


@dataclasses.dataclass(frozen=True)
class HealthyInfinity(Record):
    """An infinity that is intended, or does no harm: an operator removes it before it matters.

    tensor: where it is first
    rank: the rank where it is first
    graph: 0 for training, 1 for evaluation
    step: the number of the step
    places: all its places
    how: `placed`, `computed` or `from outside`
    absorbed_by: the operators that remove it, by full name; empty: no operator in the dump reads it
    code: the line of the operator
    """

    tensor: FindingTensor
    rank: int
    graph: int
    step: int
    places: tuple[HealthyPlace, ...]
    how: str
    absorbed_by: tuple[str, ...]
    code: Code


class GrowthPoint(NamedTuple):
    """The value of one step.

    step: the number of the step
    value: the norm, or the largest magnitude
    """

    step: int
    value: float


@dataclasses.dataclass(frozen=True)
class Growth(Record):
    """The first tensor that rose to ten times its earlier median and stayed there. No state of an optimizer is one.

    tensor: the tensor
    rank: the number of the process
    step: the number of the step
    before: the median of the steps before
    now: the value of this step
    of_norm: false: largest magnitudes, since the dump has no norm
    series: the value of each step
    code: the line of the operator
    """

    tensor: FindingTensor
    rank: int
    step: int
    before: float
    now: float
    of_norm: bool
    series: tuple[GrowthPoint, ...]
    code: Code


@dataclasses.dataclass(frozen=True)
class LookedAt(Record):
    """The scope of the analysis.

    ranks: ranks
    steps: steps
    ops: operators
    ops_not_recorded: of `ops`: only their place in the graph is known
    tensors: tensors
    files_read: files that were opened
    """

    ranks: int
    steps: int
    ops: int
    ops_not_recorded: int
    tensors: int
    files_read: int


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class FirstBad(Answer):
    """The first operator whose output holds a NaN or an infinity that matters.

    complete: all that was recorded was looked at: without a finding, nothing in it is wrong; false if the recording
        ended early
    unfinished: ranks whose last run has not ended the recording itself
    first: the answer; null: nothing was found
    findings: the answer, then others of its step that it does not cause
    by_rank: the first finding of each rank that its own operators caused, the answer's rank first
    reaches: where it matters: `the loss`, `a gradient`
    path: the operators from the answer to where it matters, by full name
    expected: findings of a loss scaler, which skipped the step
    asides: notes: metrics and numbers that are printed, which no training reads
    healthy: of the step of the answer, or of all steps where there is none
    healthy_left_out: healthy infinities that are not in the list
    growth: "grew first"; null: no tensor
    suspects: operators whose tensors would show more in another run
    notes: how the verb filled gaps of the dump, and what it left out
    looked_at: the scope of the analysis
    only_overflows: the dump holds nothing but operators that overflowed
    """

    complete: bool
    unfinished: tuple[UnfinishedRun, ...]
    first: Finding | None
    findings: tuple[Finding, ...]
    by_rank: tuple[Finding, ...]
    reaches: str
    path: tuple[str, ...]
    expected: tuple[Finding, ...]
    asides: tuple[Finding, ...]
    healthy: tuple[HealthyInfinity, ...]
    healthy_left_out: int
    growth: Growth | None
    suspects: tuple[str, ...]
    notes: tuple[str, ...]
    looked_at: LookedAt
    only_overflows: bool
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class StompReport(Answer):
    """Tensors whose memory changed although no operator wrote it.

    complete: everything was looked at: without a finding, nothing is wrong
    findings: of each tensor the first change and, of a watcher, each further one
    findings_left_out: changes that are not in the list
    compared: reads that were compared with the written values
    watched: of those, by the watcher
    not_observable: reads that were saved, since no operator had written the memory
    not_known: reads without values or statistics of both sides
    """

    complete: bool
    findings: tuple[Finding, ...]
    findings_left_out: int
    compared: int
    watched: int
    not_observable: int
    not_known: int
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class JudgedValue(Record):
    """A parameter of a condition, with the value of the tensor.

    name: its name
    value: the bound
    actual_value: the value of the tensor; null: there is nothing to compare with it
    is_hit: the bound is met
    at_least: a bound that decides it, where the value is not known
    at_most: a bound that decides it, where the value is not known
    """

    name: str
    value: float
    actual_value: float | None
    is_hit: bool
    at_least: float | None = None
    at_most: float | None = None


@dataclasses.dataclass(frozen=True)
class WatchFinding(Record):
    """A tensor that meets a condition, or one that could not be judged.

    condition: its id: `tensor_overflow`
    tensor: its number in the dump: `sonde.open(path).tensors[tensor]`
    rank: the number of the process
    graph: 0 for training, 1 for evaluation
    step: the number of the step
    op_name: the full name of the operator
    side: whether the operator reads or writes it (`input`, `output`)
    slot: its number on its side
    detail: the setting of the watchpoint and the values of the tensor, or why it could not be judged
    parameters: those of the condition
    previous_step: the step that it was compared with; null: none
    """

    condition: str
    tensor: int
    rank: int
    graph: int
    step: int
    op_name: str
    side: str
    slot: int
    detail: str
    parameters: tuple[JudgedValue, ...]
    previous_step: int | None


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class WatchFindings(Answer):
    """Tensors that meet a condition.

    hits: by the time at which tensors were written
    not_judged: in the order of the dump
    notes: conditions without a tensor to watch, and steps without the step before
    complete: every tensor was judged: without a hit, no condition is met
    """

    hits: tuple[WatchFinding, ...]
    not_judged: tuple[WatchFinding, ...]
    notes: tuple[str, ...]
    complete: bool
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Problem(Record):
    """A part of a dump, or a file, that could not be read.

    path: empty: the message names the place
    message: what was found, and what was expected
    """

    path: str
    message: str


class Part(TypedDict, total=False):
    """The part of a dump that a question is about.

    step: steps to include, as 3, 0-5 or 1|4 (default: all)
    graph: 0 training, 1 and 2 without gradients (default: all)
    rank: number of the process (default: all)
    """

    step: Steps
    graph: int | None
    rank: int | None


class CompareQuestion(Part, total=False):
    """The question of compare.

    step: steps to include, as 3, 0-5 or 1|4 (default: all)
    graph: 0 training, 1 and 2 without gradients (default: all)
    rank: number of the process (default: all)
    rtol: relative tolerance; replaces the derived tolerance of each operator
    atol: absolute tolerance; replaces the derived one too
    mapping: JSON or CSV that says which golden op belongs to which of TARGET
    golden_step: steps of GOLDEN, if others than --step: the first is compared with the first (one dump may be both)
    golden_graph: graph of GOLDEN, if another one than --graph
    threads: number of threads (default: one for each CPU); does not affect the result
    """

    rtol: float | None
    atol: float | None
    mapping: str | os.PathLike[str] | None
    golden_step: Steps
    golden_graph: int | None
    threads: int | None


class ConvertQuestion(TypedDict, total=False):
    """The question of convert.

    format: the format the tensors are put into: NCHW, NHWC, ND, FRACTAL_Z, …
    shape: their real shape, where the file's own is not to be used: 1,3,224,224
    input: only this input
    output: only this output
    type: npy, bin (the elements alone), msnpy (MindSpore's names) or pt (torch.load)
    """

    format: str | None
    shape: Sequence[int] | None
    input: int | None
    output: int | None
    type: str | None


class FirstBadQuestion(Part, total=False):
    """The question of first-bad.

    step: steps to include, as 3, 0-5 or 1|4 (default: all)
    graph: 0 training, 1 and 2 without gradients (default: all)
    rank: number of the process (default: all)
    no_trend: do not look for the norm that grew first
    threads: threads that read files; 0: one for each CPU
    """

    no_trend: bool | None
    threads: int | None


class WatchQuestion(Part, total=False):
    """The question of watch.

    step: steps to include, as 3, 0-5 or 1|4 (default: all)
    graph: 0 training, 1 and 2 without gradients (default: all)
    rank: number of the process (default: all)
    conditions: a condition and its parameters, as tensor_overflow or tensor_too_large:abs_mean_gt=10; repeatable
    recommended: the set that MindSpore's debugger recommends
    op: ops whose full name holds a match of this regular expression
    type: ops of this type, case ignored
    source: ops called from such a line, as train.py:49, or with this code in it
    side: which tensors of them: output, input or both (default: output)
    """

    conditions: str | Sequence[str] | None
    recommended: bool | None
    op: str | None
    type: str | None
    source: str | None
    side: str | None
