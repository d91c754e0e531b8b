"""Records the runs of a style, asks Sonde about them, and judges the answers."""

import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
import textwrap
import time

from cells import BITS, OTHER, REPEAT, STATS, VALUES, WHOLE, OneProcess
from judge import CLI, Answer, is_doubted, outcome, said
from program import NAN, THREE
from record import record, settings

import sonde

RIGHT = ("first", "clean", "same", "all", "none")
UNDEFINED = ("uninitialised memory", "only written", "of a trial run")  # have no values
WIDTH = 500  # of what an answer says
WITH_MODULES = ("forward", "backward", "recompute")
OUTSIDE = ("Default", "Gradients/Default")  # scopes of no module, and of no operator's gradient
HERE = pathlib.Path(__file__).parent
LONGEST = 120  # seconds, under torchrun


class Runs:
    """The runs of one style; each is recorded when it is first needed.

    Memory that nobody has written holds NaN in all of them but the repetition and the run without Sonde.
    """

    def __init__(self, place, evidence, torchrun):
        self.place, self.evidence, self.torchrun = place, evidence, torchrun
        self._done = {}

    def of(self, cell, number=1):
        """The dump of the cell's program."""
        return self._run(cell, f"{cell.fault or 'healthy'}-{number}", self.evidence) / "dump"

    def whole(self, cell):
        """The dump of the style's run on one process."""
        place = self.place / WHOLE
        if WHOLE not in self._done:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            record(OneProcess(cell.style), self.evidence, place / "dump", ("", NAN))
            self._done[WHOLE] = place
        return place / "dump"

    def other(self, cell):
        """The dump of the healthy run of another sharding."""
        return self._run(cell.other, OTHER, self.evidence) / "dump"

    def bits(self, cell, evidence):
        """Of each rank and step: hashes of loss, gradients and parameters."""
        place = self._run(cell, "healthy-1" if evidence else "bare", evidence)
        return [json.loads((place / f"bits-{rank}.json").read_text()) for rank in range(cell.ranks)]

    def _run(self, cell, name, evidence):
        unwritten = NAN if name.endswith("-1") or name == OTHER else THREE
        place = self.place / name
        if name not in self._done:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            (record_with_torchrun if self.torchrun else record)(cell, evidence, place / "dump", (str(place), unwritten))
            self._done[name] = place
        return place


def record_with_torchrun(cell, evidence, dump, arguments):
    """As record(), with the launcher of PyTorch and `sonde run`."""
    script = pathlib.Path(__file__).with_name("program.py")
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    command = [scripts / "torchrun", "--standalone", "--nproc-per-node", cell.ranks, script]
    command += [cell.style.name, cell.fault, *map(str, arguments)]
    if evidence:
        config = dump.with_suffix(".json")
        config.write_text(json.dumps(settings(dump, evidence)))
        command = [CLI, "run", "--config", config, "--", *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{scripts}:{os.environ['PATH']}"}
    with dump.with_name(dump.name + ".log").open("w") as log:
        done = subprocess.run(
            [str(part) for part in command], stdout=log, stderr=log, env=environment, timeout=LONGEST, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{cell.name} did not run to its end: {log.name}")


def look(cell, runs):
    """The outcome of a cell, and Sonde's answer in a line."""
    started = time.monotonic()
    try:
        found, answer = question(cell.column)(cell, runs)
    except (RuntimeError, OSError, KeyError, sonde.Error, subprocess.TimeoutExpired) as error:
        found, answer = "failed", f"{type(error).__name__}: {error}"
    seconds = round(time.monotonic() - started, 2)
    return {"style": cell.style.name, "column": cell.column, "outcome": found, "said": answer, "seconds": seconds}


def question(column):
    return {BITS: ask_bits, VALUES: ask_values, STATS: ask_stats}.get(column, ask_verb)


def ask_bits(cell, runs):
    recorded, bare = runs.bits(cell, runs.evidence), runs.bits(cell, None)
    if recorded == bare:
        return "same", f"{sum(len(step) for rank in bare for step in rank)} hashes are the same"
    where = [
        f"rank {rank}, step {step}"
        for rank, steps in enumerate(zip(recorded, bare, strict=True))
        for step, (one, other) in enumerate(zip(*steps, strict=True))
        if one != other
    ]
    return "differ", "first in " + where[0]


def ask_values(cell, runs):
    """Tensors without values; operators without a line of the program; operators of a network without a module;
    collectives whose caller has no name."""
    dump = sonde.open(str(runs.of(cell)))
    lacking = {"values": {}, "line": {}, "module": {}, "caller": {}}
    ops = [op for op in dump.ops if not op.is_parameter]
    for op in ops:
        for tensor in op.tensors:
            if tensor.skipped not in ("", "empty tensor", *UNDEFINED):
                add(lacking["values"], f"{op.op_type} {tensor.side} ({tensor.skipped})")
        if op.source is None or not pathlib.Path(op.source.file).is_relative_to(HERE):
            add(lacking["line"], f"{op.op_type} ({where(op.source)})")
        if op.phase in WITH_MODULES and op.op_name.rpartition("/")[0] in OUTSIDE:
            add(lacking["module"], op.op_type)
    callers = {op.attributes.get("called_by", "") for op in ops}
    for caller in cell.style.callers:
        if not any(found.startswith(caller) for found in callers):
            add(lacking["caller"], caller)
    if sorted(dump.ranks) != list(range(cell.ranks)):
        return "lacking", f"only ranks {sorted(dump.ranks)} are recorded"
    if not any(lacking.values()):
        return "all", f"{len(ops)} operators"
    parts = [f"{sum(kinds.values())} without {what}: {most(kinds)}" for what, kinds in lacking.items() if kinds]
    return "lacking", f"of {len(ops)} operators, " + "; ".join(parts)


def ask_stats(cell, runs):
    done = subprocess.run([CLI, "stats", runs.of(cell), "--json"], capture_output=True, text=True, check=False)
    counted = {}
    for tensor in json.loads(done.stdout)["tensors"]:
        if tensor.get("nan_count"):
            add(counted, f"{tensor['op_type']} {tensor['side']}")
    if not counted:
        return "none", "no NaN"
    return "counted", f"{sum(counted.values())} tensors with NaN: {most(counted)}"


def where(source):
    return f"{pathlib.Path(source.file).name}:{source.line}" if source else "none"


def add(counts, key):
    counts[key] = counts.get(key, 0) + 1


def most(counts):
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {key}" for key, count in ordered[:6]) + (", …" if len(ordered) > 6 else "")


def ask_verb(cell, runs):
    dump = runs.of(cell)
    if cell.has_golden:
        golden = runs.whole(cell) if cell.is_whole else runs.other(cell) if cell.is_other else runs.of(healthy(cell))
        answer = Answer("compare", runs.of(cell, 2) if cell.column == REPEAT else dump, golden)
    else:
        answer = Answer("first-bad", dump)
    found = outcome(cell, answer)
    if found == "first":
        found = place_in_run(cell, answer.findings[0])
    text = said(answer)
    if answer.findings:
        first = answer.findings[0]
        doubt = " (uncertain)" if is_doubted(first) else ""
        text = f"{len(answer.findings)} findings; rank {first['rank']}, step {first['step']}, {text}{doubt}"
    return found, textwrap.shorten(text, WIDTH, placeholder=" …")


def healthy(cell):
    return type(cell)(cell.style, REPEAT)


def place_in_run(cell, finding):
    if finding["step"] not in cell.steps:
        return "other step"
    return "first" if finding["rank"] in cell.bad_ranks else "other rank"


def right(cell):
    """The right answer, in a line."""
    if cell.kind == "healthy":
        return {BITS: "the same bits", VALUES: "nothing is lacking", STATS: "no NaN"}.get(cell.column, "nothing")
    ranks = sorted(cell.bad_ranks)
    which = "any rank" if len(ranks) == cell.ranks else f"rank {ranks[0]}"
    places = ", ".join(f"{file}:{line}" for file, line in sorted(cell.places))
    return f"{which}, step {' or '.join(map(str, cell.steps))}, {' or '.join(cell.ops)} at {places}"
