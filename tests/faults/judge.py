"""Judges the answer of `sonde first-bad` or `sonde compare` to one recorded program."""

import json
import os
import pathlib
import subprocess
import sysconfig

CLI = os.environ.get("SONDE_CLI") or os.path.join(sysconfig.get_path("scripts"), "sonde")

# With a fault: `first`: the true operator and line come first, with the true cause. `listed`: another one first, marked
# as uncertain, and the true one among the others. `doubted`: another one first, marked as uncertain. `unexplained`: the
# true operator and line come first, without the cause. `wrong`: another one first, not marked. `silent`: nothing.
# Without a fault: `clean` or `blamed`. `failed`: no answer.
OF_FAULTS = ("first", "listed", "doubted", "unexplained", "wrong", "silent", "failed")
OF_HEALTHY = ("clean", "blamed", "failed")


class Answer:
    """One call of a verb on a dump."""

    def __init__(self, *command):
        done = subprocess.run([CLI, *map(str, command), "--json"], capture_output=True, text=True, check=False)
        self.status = done.returncode
        try:
            self.report = json.loads(done.stdout)
            self.findings = self.report["findings"]
        except (json.JSONDecodeError, KeyError):
            self.report, self.findings = None, []
            self.error = done.stderr.strip() or f"exit status {done.returncode}"


def ask(case, dump, golden=None):
    return Answer("compare", dump, golden) if case.has_golden else Answer("first-bad", dump)


def place_of(finding):
    """Type, file, line and verdict of a finding, for both verbs."""
    code = finding.get("code", {})
    file = finding.get("source_file", code.get("source_file", ""))
    line = finding.get("source_line", code.get("source_line", 0))
    return finding["op_type"], file, line, finding["kind"]


def names_the_cause(case, finding):
    """True if the answer has one of the causes: its verdict is one, or its sentences contain one."""
    said = " ".join([finding.get("why", ""), finding.get("text", ""), *finding.get("attributes", ())])
    return not case.causes or any(cause == finding["kind"] or cause in said for cause in case.causes)


def is_there(case, finding):
    op_type, file, line, verdict = place_of(finding)
    of_line = (pathlib.Path(file).name, line) in case.places
    return op_type in case.ops and of_line and (not case.verdicts or verdict in case.verdicts)


def is_true(case, finding):
    return is_there(case, finding) and names_the_cause(case, finding)


def is_doubted(finding):
    return "uncertain" in finding.get("tags", ())


def outcome(case, answer):
    # Two ways to compute the same may not be comparable in all parts (other batches); that does not count as blame.
    not_all = answer.status == 3 and case.kind == "rounding" and not answer.findings
    if answer.report is None or (answer.status not in (0, 1) and not not_all):
        return "failed"
    if case.kind in ("healthy", "rounding"):
        return "blamed" if answer.status == 1 or answer.findings else "clean"
    if answer.status == 0 or not answer.findings:
        return "silent"
    return _outcome_of_fault(case, answer.findings)


def _outcome_of_fault(case, findings):
    first, *others = findings
    if is_there(case, first):
        return "first" if names_the_cause(case, first) else "unexplained"
    if not is_doubted(first):
        return "wrong"
    return "listed" if any(is_true(case, other) for other in others) else "doubted"


def _where(finding):
    op_type, file, line, _verdict = place_of(finding)
    return f"{op_type} at {pathlib.Path(file).name}:{line}"


def said(answer):
    """The answer in one line."""
    if answer.report is None:
        return answer.error.splitlines()[-1]
    if not answer.findings:
        return f"nothing (exit status {answer.status})"
    first = answer.findings[0]
    others = ", ".join(_where(other) for other in answer.findings[1:])
    text = f"{_where(first)}: {first['kind']}: {first.get('why') or first.get('text', '')}"
    return text + (f"; also {others}" if others else "")
