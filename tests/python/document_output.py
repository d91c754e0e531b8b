"""Compares the text in a document with the output of a command, and updates it.

A line `…` stands for any number of lines, `…` inside a line for any text. Times, sizes, dates and digests may differ;
numbers with a point or an exponent may differ by 1 %; the number of blanks does not matter.
"""

import difflib
import re

VARIABLE = [
    re.compile(r"\d+(\.\d+)? ?(ns|µs|us|ms|s|min|h|B|kB|MB|GB|KiB|MiB|GiB|K|M|G)\b(/s)?"),
    re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?"),
    re.compile(r"\b[0-9a-f]{16,64}\b"),  # a digest; a time in microseconds
]
NUMBER = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+")


def same(shown, printed, varies=None):
    """Whether the shown lines are those printed, as far as they are shown."""
    return _same(shown, printed, _variable(varies))


def _variable(varies):
    return [re.compile(varies), *VARIABLE] if varies else VARIABLE


def _same(shown, printed, variable):
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(_same(shown[1:], printed[skipped:], variable) for skipped in range(len(printed) + 1))
    if not printed or not _same_line(shown[0], printed[0], variable):
        return False
    return _same(shown[1:], printed[1:], variable)


def _same_line(shown, printed, variable):
    shown, printed = (_without_what_varies(line, variable) for line in (shown, printed))
    if "…" in shown:
        return re.fullmatch(".*".join(_pattern(part) for part in re.split(" ?… ?", shown)), printed) is not None
    texts, numbers = zip(*((NUMBER.split(line), NUMBER.findall(line)) for line in (shown, printed)), strict=True)
    return texts[0] == texts[1] and all(
        abs(float(a) - float(b)) <= 0.01 * max(float(a), float(b)) for a, b in zip(*numbers, strict=True)
    )


def _pattern(text):
    return r"[\d.e+-]+".join(re.escape(part) for part in NUMBER.split(text))


def _without_what_varies(line, variable):
    for pattern in variable:
        line = pattern.sub("<varies>", line)
    return " ".join(line.split())


def renewed(shown, printed, varies=None):
    """`shown` with the present output; omitted parts stay omitted if possible."""
    variable = _variable(varies)
    if _same(shown, printed, variable):
        return shown
    runs = [[]]
    for line in shown:
        if line.strip() == "…":
            runs.append([])
        else:
            runs[-1].append(line)
    if len(runs) == 1 or not printed:
        return printed
    at, lines = len(runs[0]), printed[: len(runs[0])]
    tail = len(runs[-1])
    for run in runs[1:-1]:
        found = _most_like(run, printed, at, len(printed) - tail)
        lines += ["…", *printed[found : found + len(run)]]
        at = found + len(run)
    rest = printed[max(at, len(printed) - tail) :] if tail else []
    return lines + (["…"] if at < len(printed) - tail or not tail else []) + rest


def _most_like(run, printed, begin, end):
    def likeness(at):
        return sum(difflib.SequenceMatcher(None, a, b).ratio() for a, b in zip(run, printed[at:], strict=False))

    return max(range(begin, max(begin, end - len(run)) + 1), key=likeness)
