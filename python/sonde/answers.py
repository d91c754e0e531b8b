"""The answers of sonde.analyses: objects made from the command's documents (docs/json/)."""

from __future__ import annotations

import dataclasses
import html
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _core, answer_card, answer_types
from .answer_base import Kind, made
from .html_table import html_table

if TYPE_CHECKING:
    import pandas


class Code(answer_types.Code):
    """As "train.py:12"; empty: not known."""

    def __str__(self) -> str:
        return f"{self.source_file}:{self.source_line}" if self.source_file else ""


class Problem(answer_types.Problem):
    """As one line."""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class FindingTensor(answer_types.FindingTensor):
    """As "op:output.0"."""

    def __str__(self) -> str:
        return f"{self.op_name}:{self.side}.{self.slot}" if self.op_name else self.parameter


class Finding(answer_types.Finding):
    """As one line, and as a card of a notebook."""

    def __str__(self) -> str:
        line = f" ({self.code})" if str(self.code) else ""
        return f"{self.op_name or self.tensor}{line}, step {self.step}{answer_card.certainty(self.tags)}: {self.why}"

    def _repr_html_(self) -> str:
        return answer_card.card("unsure" if "uncertain" in self.tags else "bad", [answer_card.finding(self)])


_POINTS_SHOWN = 8


class Growth(answer_types.Growth):
    """As one line."""

    def __str__(self) -> str:
        place = answer_card.short_line(self.code.source_file, self.code.source_line)
        line = f" ({place})" if place else ""
        kind = "norm" if self.of_norm else "largest"
        parameter = f"{self.tensor.parameter}, by " if self.tensor.op_name and self.tensor.parameter else ""
        times = f" ({self.now / self.before:.3g} times)" if self.before else ""
        points = ", ".join(f"{step}: {value:.4g}" for step, value in self.series[-_POINTS_SHOWN:])
        return (
            f"grew first: {parameter}{self.tensor} in step {self.step}{line}: {kind} {self.now:.4g} after "
            f"{self.before:.4g}{times}; by step: {points}"
        )


class FirstBad(answer_types.FirstBad):
    """The answer of `first_bad`. If there is no finding and `complete` is True, nothing is wrong in what was recorded;
    if `complete` is False, `problems` and `notes` name the parts that could not be examined."""

    def __repr__(self) -> str:
        return f"<sonde.FirstBad: {self.first or _nothing(self.complete, bool(self.unfinished))}>"

    def _repr_html_(self) -> str:
        return _first_bad_html(self)


class StompReport(answer_types.StompReport):
    """The answer of `stomp`. If there is no finding and `complete` is True, nothing is wrong."""

    def __repr__(self) -> str:
        return f"<sonde.StompReport: {self.findings[0] if self.findings else _nothing(self.complete)}>"

    def _repr_html_(self) -> str:
        parts = [answer_card.finding(one, "Memory changed") for one in self.findings[:1]]
        parts.append(answer_card.listed("others", list(map(str, self.findings[1:]))))
        return _verdict_html(parts, bool(self.findings), _nothing(self.complete), self.complete, self.problems)


class HeadroomReport(answer_types.HeadroomReport):
    """The answer of `headroom`: a row for each tensor, those that are nearest to their largest number first."""

    def __repr__(self) -> str:
        over = sum(row.infinite_count > 0 or any(as_.overflows for as_ in row.as_dtypes) for row in self.tensors)
        return f"<sonde.HeadroomReport: {len(self.tensors)} tensors, {over} of them overflow in a type>"

    def _repr_html_(self) -> str:
        if not self.tensors:
            return "<p>no tensor of a floating type</p>" + _problems_html(self.problems)
        names = [as_.dtype for as_ in self.tensors[0].as_dtypes]
        rows = [
            (row.op_name, f"{row.side}.{row.slot}", row.dtype, row.max_abs, row.headroom, *map(_lost, row.as_dtypes))
            for row in self.tensors
        ]
        columns = ("operator", "slot", "dtype", "largest", "headroom", *names)
        return html_table(columns, rows) + _problems_html(self.problems)


def _lost(tensor: answer_types.HeadroomOf) -> str:
    """The counts of elements that a type loses."""
    counts = {"over": tensor.overflow_count, "to 0": tensor.underflow_count, "subnormal": tensor.subnormal_count}
    lost = [f"{count} {what}" for what, count in counts.items() if count]
    if tensor.overflows and not tensor.overflow_count:
        lost.insert(0, "over")
    return ", ".join(lost) or ("fits" if tensor.underflow_count == 0 else "?")


class Verification(answer_types.Verification):
    """The answer of `verify`. If no issue has `is_finding`, and none is "unreadable", the dump is as its
    journal says."""

    def __repr__(self) -> str:
        wrong = sum(one.is_finding for one in self.issues)
        what = f"{wrong} thing{'s' if wrong > 1 else ''} wrong" if wrong else _nothing(self._is_complete)
        return f"<sonde.Verification: {what}>"

    @property
    def _is_complete(self) -> bool:
        return all(one.kind != "unreadable" for one in self.issues)


class Difference(answer_types.Difference):
    """As one line, and as a card of a notebook."""

    def __str__(self) -> str:
        return f"{', '.join(map(answer_card.plain, self.tags))}: {self.text}" if self.tags else self.text

    def _repr_html_(self) -> str:
        return answer_card.card("unsure" if "uncertain" in self.tags else "bad", [_difference_html(self)])


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(answer_types.Comparison):
    """The answer of `compare`. If there is no finding and `complete` is True, the two dumps agree; if `complete` is
    False, `problems` and `notes` name the parts that could not be compared, `left_out` those of both dumps alone."""

    left_out: tuple[str, ...] = ()
    _native: _core.Comparison

    def __repr__(self) -> str:
        return f"<sonde.Comparison: {self.findings[0] if self.findings else _no_difference(self.complete)}>"

    def _repr_html_(self) -> str:
        return _comparison_html(self)

    def details(self) -> str:
        """The page of `sonde compare --all`: every finding and every operator with its numbers."""
        return self._native.text(True)

    def to_csv(self) -> str:
        """The table of `sonde compare --csv`: a row for each output."""
        return self._native.csv()

    def to_junit(self) -> str:
        """The XML of `sonde compare --junit`: a test case for each operator."""
        return self._native.junit()

    def to_pandas(self) -> pandas.DataFrame:
        """The rows of `to_csv`."""
        import pandas

        return pandas.read_csv(io.StringIO(self.to_csv()))


class WatchFinding(answer_types.WatchFinding):
    """As one line."""

    def __str__(self) -> str:
        place = f"{self.condition}: {self.op_name}:{self.side}.{self.slot}, step {self.step}"
        return f"{place}: {self.detail}" if self.detail else place


class WatchReport(answer_types.WatchFindings):
    """The answer of `watch`. If there is no hit and `complete` is True, no condition is met."""

    def __repr__(self) -> str:
        return f"<sonde.WatchReport: {len(self.hits)} hits, {len(self.not_judged)} not judged>"

    def _repr_html_(self) -> str:
        if not self.hits:
            return f"<p>{_nothing(self.complete)}</p>" + _problems_html(self.problems)
        columns = ("condition", "rank", "step", "operator", "slot", "detail")
        rows = [
            (hit.condition, hit.rank, hit.step, hit.op_name, f"{hit.side}.{hit.slot}", hit.detail) for hit in self.hits
        ]
        return html_table(columns, rows) + _problems_html(self.problems)


class Conversion(answer_types.ConvertedFiles):
    """The answer of `convert`. Rows of `files` with `lost` are tensors, or files, that could not be converted."""

    def __repr__(self) -> str:
        lost = sum(one.lost is not None for one in self.files)
        return f"<sonde.Conversion: {len(self.files) - lost} tensors, {lost} lost>"


# --- from documents ---------------------------------------------------------------------------------------------------


def answer_of(kind: type[Kind], document: str, **others: object) -> Kind:
    """The answer in a document of the command, or of the engine."""
    found = json.loads(document)
    return made(kind, found, _CLASSES, document=found, **others)


def comparison_of(native: _core.Comparison) -> Comparison:
    """The answer of the engine's compare()."""
    left_out = tuple(native.left_out())
    return answer_of(Comparison, native.json(), text=native.text(False), left_out=left_out, _native=native)


# The classes above take the place of those that contract/ declares.
_CLASSES = {one.__name__: one for one in (Code, Problem, FindingTensor, Finding, Growth, Difference, WatchFinding)}


# --- notebooks --------------------------------------------------------------------------------------------------------

_PROBLEMS_SHOWN = 20


def _nothing(complete: bool, unfinished: bool = False) -> str:
    if unfinished:
        return "nothing found in what was recorded"
    return "nothing wrong" if complete else "nothing found in the part that could be examined"


def _no_difference(complete: bool) -> str:
    return "no difference" if complete else "no difference found in the part that could be compared"


def _verdict_html(
    found: Sequence[str], is_bad: bool, healthy: str, complete: bool, problems: Sequence[answer_types.Problem]
) -> str:
    """A card: what was found, or that nothing was; then what could not be read."""
    kind = "bad" if is_bad else "good" if complete else "unsure"
    head = () if is_bad else (answer_card.paragraph(healthy),)
    return answer_card.card(kind, (*head, *found, _problems_html(problems)))


def _difference_html(one: answer_types.Difference) -> str:
    """The first difference, with the lines of both programs."""
    place = answer_card.short_line(one.source_file, one.source_line)
    parts = [
        answer_card.headline("First difference", one.op_name, place, one.tags),
        answer_card.paragraph(one.text),
        answer_card.paragraph(f"rank {one.rank}, graph {one.graph}, step {one.step}"),
        answer_card.listed("evidence", one.evidence),
        answer_card.code("golden" if one.in_golden else "target", one.code),
        answer_card.code("golden", one.golden_code),
    ]
    return "".join(parts)


def _comparison_html(answer: Comparison) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in answer.summary.items() if count)
    parts = [_difference_html(one) for one in answer.findings[:1]]
    parts += [
        answer_card.listed("others", list(map(str, answer.findings[1:]))),
        answer_card.paragraph(counts),
        answer_card.paragraph(answer.joined or ""),
        *map(answer_card.paragraph, answer.notes),
        answer_card.commands(answer.next_commands),
    ]
    return _verdict_html(
        parts, bool(answer.findings), _no_difference(answer.complete), answer.complete, answer.problems
    )


def _problems_html(problems: Sequence[answer_types.Problem]) -> str:
    if not problems:
        return ""
    shown = "".join(f"<li>{html.escape(str(problem))}</li>" for problem in problems[:_PROBLEMS_SHOWN])
    more = len(problems) - _PROBLEMS_SHOWN
    return f"<p>could not be read:</p><ul>{shown}{f'<li>and {more} more</li>' if more > 0 else ''}</ul>"


_STATIONS_SHOWN = 8


def _path_text(report: FirstBad) -> str:
    """The operators between the finding and what it reaches, without those in the middle of a long path."""
    later = report.goes_on
    stations = [
        name.rsplit("/", 1)[-1] + (f" of step {later.step}" if later is not None and later.first == i else "")
        for i, name in enumerate(report.path)
    ]
    left_out = len(stations) - _STATIONS_SHOWN
    if left_out > 0:
        stations[_STATIONS_SHOWN - 2 : -2] = [f"… {left_out} more …"]
    return " -> ".join(stations)


def _healthy_text(one: answer_types.HealthyInfinity) -> str:
    place = answer_card.short_line(one.code.source_file, one.code.source_line)
    absorbed = f", absorbed by {', '.join(one.absorbed_by)}" if one.absorbed_by else ""
    counted = f", {one.tensor.counted}" if one.tensor.counted else ""
    return f"{one.tensor}{f' at {place}' if place else ''}: {one.how}{counted}{absorbed}"


def _first_bad_html(report: FirstBad) -> str:
    """As much as the command prints: the findings, each rank's own, what grew first, what is expected or aside."""
    parts = []
    if report.first:
        parts.append(answer_card.finding(report.first))
        parts.append(answer_card.paragraph(f"reaches {report.reaches}: {_path_text(report)}" if report.reaches else ""))
    ranks = [one for one in report.by_rank[1:] if one not in report.findings]
    for title, findings in (
        ("also wrong in this step", report.findings[1:]),
        ("ranks that went wrong by themselves", ranks),
        ("expected: the loss scaler skipped the step", report.expected),
        ("aside: nothing bad reaches what is trained", report.asides),
    ):
        parts.append(answer_card.listed(title, [answer_card.in_short(one) for one in findings]))
    parts.append(answer_card.paragraph(str(report.growth) if report.growth else ""))
    parts.append(answer_card.listed("healthy", [_healthy_text(one) for one in report.healthy]))
    parts += map(answer_card.paragraph, report.notes)
    parts.append(answer_card.commands(report.next_commands))
    nothing = _nothing(report.complete, bool(report.unfinished))
    return _verdict_html(parts, report.first is not None, nothing, report.complete, report.problems)
