"""Records pairs of implementations, plants faults in the target, asks `sonde compare`, and prints the score.

    .venv-frameworks/bin/python tests/relations/run.py
    .venv-frameworks/bin/python tests/relations/run.py --pair llama --fault scale --keep /tmp/dumps
    .venv-frameworks/bin/python tests/relations/run.py --asked /tmp/dumps    # asks again about kept dumps
    .venv-frameworks/bin/python tests/relations/run.py --from members        # other faults of the same kinds

Exit status: 0 the targets are met, 1 they are not, 2 bad usage.
"""

import argparse
import contextlib
import importlib
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "faults"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
if not pathlib.Path(sys.executable).with_name("sonde").exists():  # in .venv-frameworks
    os.environ.setdefault("SONDE_CLI", str(pathlib.Path(__file__).parents[2] / ".venv/bin/sonde"))

from cases import STATISTICS, TENSORS
from judge import Answer, is_doubted, place_of
from planted import all_pairs, plant
from record import forked, import_once, settings

TARGETS = {TENSORS: 0.90, STATISTICS: 0.75}
FOLDERS = ("pairs", "members", "strangers", "newcomers", "latecomers", "visitors", "travellers", "nomads", "settlers",
           "arrivals", "wayfarers", "sojourners", "boarders", "lodgers", "pilgrims", "ramblers",
           "drifters", "emigrants", "commuters")  # fmt: skip
RIGHT = ("first", "clean", "nothing claimed", "said")


def record(pair, fault, side, evidence, dump):
    """One side of the pair; what is prepared before the recording is not in the dump."""

    def work():
        import torch

        import sonde

        log = os.open(dump.with_name(dump.name + ".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        plant(fault)
        program = pair.both()[side]
        sonde.start(settings(dump, evidence))
        program()
        sonde.stop()

    if os.waitpid(forked(work), 0)[1] != 0:
        raise RuntimeError(dump.with_name(dump.name + ".log").read_text())


def is_right(fault, finding):
    if fault.weight:
        return finding["kind"] == "parameter" and fault.weight in finding["text"]
    op_type, file, line, kind = place_of(finding)
    if kind == "parameter":
        return False
    is_in_file = pathlib.Path(file).name == pathlib.Path(fault.pair.file).name
    return op_type in fault.ops and is_in_file and line in fault.lines


def names_a_group_with(fault, finding):
    """It is one of the operators that the finding names as a group."""
    if fault.weight or finding["kind"] == "parameter":
        return False
    places = {f"{pathlib.Path(fault.pair.file).name}:{line}" for line in fault.lines}
    return any(place in finding["text"] for place in places)


def outcome(pair, fault, answer):
    if answer.report is None or answer.status not in (0, 1, 3):
        return "failed"
    return outcome_of_fault(fault, answer) if fault else outcome_without_fault(pair, answer)


def outcome_without_fault(pair, answer):
    if pair.kind == "unrelated":
        return "nothing claimed" if not answer.findings and answer.status == 3 else "blamed"
    if pair.kind == "other_weights":
        said = " ".join([*answer.report["notes"], *(f["text"] for f in answer.findings[:1])])
        return "said" if "weights are not the same" in said else "silent"
    if answer.findings:
        return "blamed"
    return "clean" if answer.status == 0 else "not compared"


def outcome_of_fault(fault, answer):
    if not answer.findings:
        return "silent" if answer.status == 0 else "not compared"
    first = answer.findings[0]
    if is_right(fault, first):
        return "first"
    if names_a_group_with(fault, first):
        return "in group"
    if any(is_right(fault, finding) for finding in answer.findings):
        return "listed"
    return "doubted" if is_doubted(first) else "wrong"


def said(answer):
    if answer.report is None:
        return answer.error
    if not answer.findings:
        return f"nothing (exit status {answer.status})"
    return answer.findings[0]["text"]


def looks(pairs, options):
    for pair in pairs:
        faults = [fault for fault in pair.faults if not options.fault or fault.name in options.fault]
        for evidence in options.evidence:
            if not options.fault or "healthy" in options.fault or not pair.faults:
                yield pair, None, evidence
            for fault in faults:
                yield pair, fault, evidence


def look(pair, fault, evidence, directory, asked):
    place = directory / pair.name / evidence
    golden, target = place / "golden", place / (fault.name if fault else "healthy")
    try:
        if not asked:
            place.mkdir(parents=True, exist_ok=True)
            if not golden.exists():
                record(pair, "", 0, evidence, golden)
            record(pair, fault.name if fault else "", 1, evidence, target)
    except RuntimeError as error:
        return {"outcome": "failed", "said": str(error)}
    answer = Answer("compare", target, golden)
    return {"outcome": outcome(pair, fault, answer), "said": said(answer)}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pair", action="append", help="only this one; repeatable")
    parser.add_argument("--fault", action="append", help="only this one, or `healthy`; repeatable")
    parser.add_argument("--evidence", action="append", choices=(TENSORS, STATISTICS), help="default: tensors")
    parser.add_argument("--keep", metavar="DIR", help="keep the dumps there")
    parser.add_argument("--from", dest="folder", default="pairs", choices=FOLDERS,
                        help="members: other faults of these kinds; the others: no rule is theirs")  # fmt: skip
    parser.add_argument("--asked", metavar="DIR", help="ask about the dumps that --keep left there")
    parser.add_argument("--verbose", action="store_true", help="what was said in every case")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    options.evidence = options.evidence or [TENSORS]
    return options


def share(results, right):
    return f"{sum(result['outcome'] in right for result in results)} of {len(results)}"


def main():
    options = parsed()
    pairs = [pair for pair in all_pairs(options.folder) if not options.pair or pair.name in options.pair]
    if not options.asked:
        import_once()
        with contextlib.suppress(ImportError):  # some pairs need it, and the forks share it
            importlib.import_module("transformers.models.auto")

    results = []
    with tempfile.TemporaryDirectory(prefix="sonde-relations-") as scratch:
        directory = pathlib.Path(options.keep or options.asked or scratch).absolute()
        for pair, fault, evidence in looks(pairs, options):
            result = look(pair, fault, evidence, directory, bool(options.asked))
            result |= {"pair": pair.name, "fault": fault.name if fault else "", "evidence": evidence}
            result |= {"kind": pair.kind}
            results.append(result)
            if not options.json and (options.verbose or result["outcome"] not in RIGHT):
                print(f"{result['outcome']:9} {pair.name} {result['fault']} ({evidence}): {result['said']}", flush=True)
    return report(results, options)


def report(results, options):
    missed = []
    if options.json:
        print(json.dumps(results, indent=1))
    for evidence in options.evidence:
        of = [result for result in results if result["evidence"] == evidence]
        healthy = [result for result in of if not result["fault"]]
        faults = [result for result in of if result["fault"]]
        first = sum(result["outcome"] == "first" for result in faults)
        if not options.json:
            print(f"{evidence}: healthy right {share(healthy, RIGHT)}; faults named first {share(faults, ('first',))}, "
                  f"or in a group {share(faults, ('first', 'in group'))}")  # fmt: skip
        if any(result["outcome"] not in RIGHT for result in healthy) or first < TARGETS[evidence] * len(faults):
            missed.append(evidence)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
