"""Where does a port begin to compute something else? Compares two dumps operator by operator, without a mapping file.

    python compare_dumps.py TARGET GOLDEN [--json]

TARGET is the dump of the port, GOLDEN that of the original, both with .npy files. What belongs together is found by
what operators compute, the order in which they ran, and the shape of what came out: forward, then backward, then the
updates of the parameters, in every step that both dumps hold. Rounding differs between frameworks: how much may come
of it follows from the data types and from how much was added up on the way.

Exit status: 0 no difference, 1 a difference, 2 bad usage, 3 a dump cannot be read.
"""

import argparse
import difflib
import itertools
import json
import linecache
import math
import pathlib
import signal
import sys

import numpy as np
from dump_values import OVERWRITTEN, PHASES, Unreadable, read_steps, run_sonde, tensor, values_of

ALLOWANCE = 4  # both sides round, and more often than once in an operator


def pair(target, golden, phase):
    """[(target, golden), ...] in the target's order, None where a value stands alone; then golden ones that do."""
    keys = [[value.key for value in side] for side in (target, golden)]
    blocks = difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    anchors = [(block.a + i, block.b + i) for block in blocks for i in range(block.size)]
    if phase == "optimizer":
        anchors = []  # parameters are updated in any order
    gaps = [[sum(anchor[side] < i for anchor in anchors) for i in range(len(keys[side]))] for side in (0, 1)]
    matched = dict(anchors)
    left = set(range(len(golden))).difference(matched.values())

    def fill(fits, rank):
        for a in (a for a in range(len(target)) if a not in matched):
            if fitting := [b for b in sorted(left) if fits(a, b)]:
                matched[a] = min(fitting, key=lambda b: rank(a, b))
                left.remove(matched[a])

    def apart(a, b):
        return abs(gaps[0][a] - gaps[1][b])

    # What is left ran in another order, or reads something padded: the nearest in order, of parameters in value.
    # What is then left of one kind at one place has got another shape.
    if phase == "optimizer":
        fill(lambda a, b: keys[0][a] == keys[1][b], lambda a, b: differences(target[a], golden[b]).max(initial=0))
    else:
        fill(lambda a, b: keys[0][a] == keys[1][b], apart)
        fill(lambda a, b: keys[0][a][:2] == keys[1][b][:2], apart)
        fill(lambda a, b: keys[0][a][0] == keys[1][b][0] and apart(a, b) == 0, lambda a, b: b)
    pairs = [(value, golden[matched[a]] if a in matched else None) for a, value in enumerate(target)]
    return pairs + [(None, golden[b]) for b in sorted(left)]


def differences(target, golden):
    """Of two values, element by element; equal infinities and NaN on both sides are no difference."""
    if target.shape != golden.shape:
        return np.array([math.inf])
    return array_differences(tensor(target.row), tensor(golden.row))


def array_differences(a, b):
    a, b = (side.astype(np.float64).ravel() for side in (a, b))
    with np.errstate(invalid="ignore"):
        errors = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.nan_to_num(errors, nan=math.inf)


def finite(values):
    values = values.astype(np.float64).ravel()
    return values[np.isfinite(values)]


def largest(values):
    return float(np.abs(finite(values)).max(initial=0))


def root_mean_square(values):
    kept = finite(values)
    return float(np.sqrt(np.mean(np.square(kept)))) if kept.size else 0.0


def cosine(a, b):
    a, b = (side.astype(np.float64).ravel() for side in (a, b))
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / length) if length else 1.0


def epsilon(row):
    """Of the type that was computed in: a file holds bfloat16 as float32."""
    if row["dtype"] == "bfloat16":
        return 2.0**-7
    kind = tensor(row).dtype
    return float(np.finfo(kind).eps) if kind.kind == "f" else 0.0


def judge(target, golden, roundings):
    """The numbers of a pair, `roundings` of which came before and in it.

    Errors of independent roundings grow with the square root of their number. They are as large as what was added up,
    which may be far above the sum: the gradient of a bias before a batch norm is 0, and rounding is all there is."""
    a, b = tensor(target.row), tensor(golden.row)
    factors = [tensor(row) for row in golden.added_up or target.added_up]
    added_up = math.prod(f.size for f in factors) / max(b.size, 1)
    if len(factors) > 1:  # of two factors: each dimension stands in two of the three tensors
        added_up = math.sqrt(added_up)
    roundings += max(added_up, 1)
    precision = max(epsilon(target.row), epsilon(golden.row))
    rounding = ALLOWANCE * precision * math.sqrt(roundings)  # of a number near 1
    summed = math.sqrt(added_up) * math.prod(map(root_mean_square, factors)) if factors else 0.0
    allowed = rounding * max(largest(b), summed)
    numbers = {"allowed": allowed, "rounding": rounding, "roundings": roundings}
    if target.shape != golden.shape:
        return numbers | {"verdict": "shape"}
    errors = differences(target, golden)
    error, beyond = float(errors.max(initial=0)), int((errors > allowed).sum())
    return numbers | {
        "verdict": "different" if beyond else "same",
        "error": error,
        "relative": error / largest(b) if largest(b) else float(error > 0),
        "cosine": cosine(a, b),
        "beyond": beyond,
        "elements": a.size,
    }


def compare(target, golden):
    """A dictionary for each value of each step that both dumps hold, in the target's order."""
    roundings = 0
    for step in sorted(target.keys() & golden.keys()):
        values = values_of(target[step]), values_of(golden[step])
        for phase in PHASES:
            for a, b in pair(values[0][phase], values[1][phase], phase):
                numbers = judge(a, b, roundings) if a and b else {"verdict": "alone"}
                roundings = numbers.get("roundings", roundings)
                result = {"step": step, "phase": phase, "target": a, "golden": b, **numbers}
                if decided_by_rounding(result):
                    yield result | {"verdict": "undecided"}
                    return
                yield result


def decided_by_rounding(result):
    """Whether the same went in, and a few elements went the other way: a ReLU is open or closed, where its input is 0
    but for rounding. After that, both sides are right and compute something else."""
    if result["verdict"] != "different" or result["target"].kind not in ("relu gradient", "maxpool2d gradient"):
        return False
    same = all(found == "the same" for row, found in inputs(result) if row["dtype"].startswith(("float", "bfloat")))
    return same and result["beyond"] <= max(1, result["elements"] // 1000)


def inputs(result):
    """(row, what is to say of it) of all that went into a pair; where it is the same, the operator is to blame."""
    golden = [row for row in result["golden"].inputs() if row["shape"]]
    for row in (row for row in result["target"].inputs() if row["shape"]):
        values = tensor(row)
        limit = result["rounding"] * largest(values)
        fitting = [other for other in map(tensor, golden) if other.size == values.size]
        errors = [array_differences(values, other).max(initial=0) for other in fitting]
        if not fitting:
            found = " and ".join(shape_text(other["shape"]) for other in golden)
            yield row, f"nothing of this size goes into the golden one, but {found}"
        elif min(errors) <= limit:
            yield row, "the same"
        elif any(o.T.shape == values.shape and array_differences(values, o.T).max() <= limit for o in fitting):
            yield row, "the golden one TRANSPOSED"
        elif row["slot"] in OVERWRITTEN.get(row["op_type"], ()):
            yield row, "not compared, MindSpore shows what the operator has made of it"
        else:
            yield row, f"differs by {min(errors):.3g}"


def attributes(dump, operator, step):
    """How the operator was called: what `sonde graph` tells of it, and the numbers among its inputs."""
    shown = run_sonde("graph", dump, operator.full_name, "--step", step, "--json")
    operators = json.loads(shown.stdout)["ops"] if shown.returncode == 0 else []
    called = [op["attributes"] for op in operators if op["full_name"] == operator.full_name and "attributes" in op]
    numbers = {slot: tensor(row).item() for slot, row in operator.tensors(True).items() if not row["shape"]}
    words = [f"{key}={value}" for key, value in (called[0] if called else {}).items()]
    return "  ".join(words + [f"input.{slot}={number:g}" for slot, number in numbers.items()])


def shape_text(shape):
    return f"({','.join(map(str, shape))})"


def place(operator):
    return f", {pathlib.Path(operator.source_file).name}:{operator.line}" if operator.source_file else ""


def short(value):
    return " + ".join("/".join(op.full_name.split("/")[-2:]) for op in value.operators) if value else "-"


def explain(result, results, dumps):
    """Lines about the first difference: first its operator, line and numbers, then what may be the cause."""
    operator = result["target"].operators[-1]
    if result["verdict"] == "shape":
        found = "shape {}, golden {}".format(*(shape_text(result[side].row["shape"]) for side in ("target", "golden")))
    else:
        found = (
            f"max error {result['error']:.3g}, relative {result['relative']:.3g}, cosine {result['cosine']:.6f}, "
            f"{result['beyond']} of {result['elements']} elements beyond the {result['allowed']:.2g} of rounding"
        )
    where = f"step {result['step']}, {operator.op_type} {operator.full_name}{place(operator)}"
    yield f"first difference: {where}: {found}"
    if source := linecache.getline(operator.source_file, operator.line).strip():
        yield f"  source  {source}"
    yield f"  golden  {short(result['golden'])}{place(result['golden'].operators[0])}"
    for row, said in inputs(result):
        name = " ".join(filter(None, (f"input.{row['slot']}", row["tensor_name"], shape_text(row["shape"]))))
        yield f"  {name}: {said}"
    here = [r for r in results if (r["step"], r["phase"]) == (result["step"], result["phase"])]
    alone = itertools.takewhile(lambda r: r["verdict"] == "alone", reversed(here[: here.index(result)]))
    for other in reversed(list(alone)):
        before = other["target"].operators[0]
        yield f"  before it, without a counterpart: {before.op_type} {before.full_name}{place(before)}"
        yield f"    called with    {attributes(dumps[0], before, result['step'])}"
    yield f"  called with        {attributes(dumps[0], operator, result['step'])}"
    yield f"  golden called with {attributes(dumps[1], result['golden'].operators[0], result['step'])}"


def table(results):
    heads = ("step", "phase", "target", "golden", "shape", "error", "relative", "cosine", "verdict")
    rows = [heads]
    for r in results:
        shape = shape_text((r["target"] or r["golden"]).row["shape"])
        figures = [f"{r[key]:.3g}" if r.get(key) is not None else "" for key in ("error", "relative", "cosine")]
        rows.append((str(r["step"]), r["phase"], short(r["target"]), short(r["golden"]), shape, *figures, r["verdict"]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def as_json(result):
    sides = {}
    for side in ("target", "golden"):
        operator = result[side] and result[side].operators[-1]
        sides[side] = operator and {
            "full_name": operator.full_name,
            "op_type": operator.op_type,
            "shape": result[side].row["shape"],
            "source_file": operator.source_file,
            "line": operator.line,
        }
    numbers = {key: value for key, value in result.items() if key not in ("rounding", "roundings")}
    infinite = {key: None for key, value in numbers.items() if isinstance(value, float) and not math.isfinite(value)}
    return json.dumps(numbers | infinite | sides)


def report(results, dumps):
    first = next((result for result in results if result["verdict"] in ("different", "shape")), None)
    matched = [result for result in results if result["verdict"] != "alone"]
    if first:
        yield from (line for line in explain(first, results, dumps) if not line.endswith(" "))
    elif matched[-1]["verdict"] == "undecided":
        last = matched[-1]["target"].operators[-1]
        yield (
            f"no difference up to step {matched[-1]['step']}, {last.full_name}{place(last)}: {matched[-1]['beyond']} "
            f"of {matched[-1]['elements']} elements are decided by rounding there, and what comes after is not compared"
        )
    else:
        share = max((result["error"] / result["allowed"] for result in matched if result["allowed"]), default=0)
        yield f"no difference: errors are at most {share:.2g} of what rounding explains"
    golden = sum(1 for result in results if result["golden"])
    alike = sum(1 for result in matched if result["verdict"] == "same")
    yield f"{len(matched)} of {golden} values of the golden dump have a counterpart, {alike} are the same\n"
    yield from table(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("golden")
    parser.add_argument("--json", action="store_true", help="one JSON object per value instead of report and table")
    options = parser.parse_args()
    dumps = options.target, options.golden
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    try:
        steps = [read_steps(dump) for dump in dumps]
        results = list(compare(*steps))
        if all(result["verdict"] == "alone" for result in results):
            shown = (f"'{dump}' (steps {sorted(held)})" for dump, held in zip(dumps, steps, strict=True))
            raise Unreadable("nothing in {} has a counterpart in {}".format(*shown))
        print("\n".join(map(as_json, results) if options.json else report(results, dumps)))
    except Unreadable as error:
        print(f"compare_dumps: error: {error}", file=sys.stderr)
        return 3
    return 1 if any(result["verdict"] in ("different", "shape") for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
