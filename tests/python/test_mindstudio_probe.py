"""`sonde msaccucmp` beside the original, the package mindstudio-probe, on random tensors and dumps.

What may differ, and by how much, is in `agree`: the original computes its sums and quotients in float32. Intended
differences are in `test_what_differs_on_purpose`, with the original's results, and in src/guests/msaccucmp/README.md.
"""

import csv
import io
import json
import math
import re

import cann_files as cann
import numpy as np
import pytest
from probe import needs_probe, original, ours

pytestmark = needs_probe

SEED = 20261122
TIME = 1700000000000000
TYPES = ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]
NUMBERS = {"f2": 2, "f4": 1, "f8": 12, "i1": 3, "u1": 4, "i2": 5, "u2": 6, "i4": 7, "u4": 9, "i8": 8, "u8": 10, "?": 11}
ALGORITHMS = [
    "CosineSimilarity", "MaxAbsoluteError", "AccumulatedRelativeError", "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence", "StandardDeviation", "MeanAbsoluteError", "RootMeanSquareError", "MaxRelativeError",
    "MeanRelativeError",
]  # fmt: skip


def agree(algorithm, theirs, mine, elements):
    """Whether two cells say the same: equal texts, or finite numbers as near as sums in float32 let them be.

    A last digit may be rounded otherwise; beyond that 1e-6 of the value (StandardDeviation, whose sums are in double
    there too: 1e-12). |x/y - 1| of nearly equal x and y is off by half a unit of float32 at 1, so
    AccumulatedRelativeError by as many of these as there are elements.
    """
    if theirs == mine:
        return True
    digit, relative = (1e-3, 1e-12) if algorithm == "StandardDeviation" else (1e-6, 1e-6)
    slack = elements * 2**-24 if algorithm == "AccumulatedRelativeError" else 0
    pairs = list(zip(re.split("[(),;]+", theirs), re.split("[(),;]+", mine), strict=True))
    for a, b in pairs:
        if a == b:
            continue
        if not (math.isfinite(float(a)) and math.isfinite(float(b))):
            return False
        if abs(float(a) - float(b)) > digit * 1.001 + relative * abs(float(b)) + slack:
            return False
    return True


# --- two files -------------------------------------------------------------------------------------------------------


def values_in(log):
    """{algorithm: cell} of the two lines that `compare` of two files logs."""
    lines = [line.partition("[INFO] ")[2].split() for line in log.splitlines()]
    at = next(i for i, line in enumerate(lines) if line[:1] == ["CosineSimilarity"])
    return dict(zip(lines[at], lines[at + 1], strict=True))


def result_in(directory):
    """The lines of the one file_result_<time>.txt."""
    (path,) = directory.glob("file_result_*.txt")
    return [tuple(line.split(": ")) for line in path.read_text().splitlines()]


def random_shape(random):
    if random.random() < 0.3:
        return [(), (1,), (1, 1), (0,), (2, 0, 3), (3000,), (61, 67)][random.integers(7)]
    return tuple(int(size) for size in random.integers(1, 9, random.integers(1, 5)))


def random_tensor(random, dtype, shape):
    """Values whose squares fit a float32; in some cases all equal, all zero, or none below zero."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        limit = [100, 1000, 2**24][random.integers(3)]
        low, high = max(np.iinfo(dtype).min, -limit), min(np.iinfo(dtype).max, limit)
        return random.integers(low, high, shape).astype(dtype)
    values = np.asarray(random.standard_normal(shape) * 10.0 ** random.integers(-4, 5))
    values = [values, values, values, np.abs(values), np.full(shape, 0.1), np.zeros(shape)][random.integers(6)]
    return np.clip(values, -60000, 60000).astype(dtype)


def random_pair(random, dtype):
    shape = random_shape(random)
    left = random_tensor(random, dtype, shape)
    kind = random.integers(4)
    if kind == 0:
        right = random_tensor(random, dtype, shape)
    elif kind == 1 and dtype != "?":
        right = random_tensor(random, TYPES[random.integers(11)], shape)
    elif kind == 2 and left.dtype.kind == "f":
        right = (left * (1 + random.standard_normal(shape) * 10.0 ** random.integers(-6, 0))).astype(left.dtype)
    else:
        right = left.copy()
    left, right = np.array(left), np.array(right)
    for side in (left, right):
        if side.dtype.kind == "f" and side.size and random.random() < 0.2:
            side.reshape(-1)[random.integers(side.size)] = [np.nan, np.inf, -np.inf, -0.0][random.integers(4)]
    return left, right


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """[(what it is, elements, ours, theirs)]: a Done each, and `values` and `file` where the commands wrote some."""
    root = tmp_path_factory.mktemp("pairs", numbered=True)
    random = np.random.default_rng(SEED)
    commands, about = [], []
    for number in range(168):
        left, right = random_pair(random, TYPES[number % len(TYPES)])
        directory = root / str(number)
        (directory / "theirs").mkdir(parents=True)
        (directory / "ours").mkdir()
        np.save(directory / "a.npy", left)
        np.save(directory / "b.npy", right)
        paths = ["-m", directory / "a.npy", "-g", directory / "b.npy"]
        commands += [["compare", *paths], ["file_compare", *paths, "-out"]]
        about.append((f"{number}: {left.dtype} {right.dtype} {left.shape}", left.size, directory))
    theirs = original([c if i % 2 == 0 else [*c, about[i // 2][2] / "theirs"] for i, c in enumerate(commands)], root)
    mine = [ours(c if i % 2 == 0 else [*c, about[i // 2][2] / "ours"]) for i, c in enumerate(commands)]
    return [(*about[i], mine[2 * i : 2 * i + 2], theirs[2 * i : 2 * i + 2]) for i in range(len(about))]


def is_of_bool(what):
    return " bool bool " in what


def test_ten_algorithms_of_random_pairs(pairs):
    other_digits = cells = 0
    for what, elements, _, mine, theirs in pairs:
        assert (mine[0].status, theirs[0].status) == (0, 0), what
        left, right = values_in(mine[0].log), values_in(theirs[0].log)
        assert list(left) == list(right) == ALGORITHMS
        for algorithm in ALGORITHMS:
            if is_of_bool(what) and algorithm == "RelativeEuclideanDistance":
                continue  # test_a_distance_of_bool_is_never_a_number
            assert agree(algorithm, right[algorithm], left[algorithm], elements), (
                what, algorithm, right[algorithm], left[algorithm]
            )  # fmt: skip
            cells += 1
            other_digits += left[algorithm] != right[algorithm]
    # The sums of the original are float32: if no digit differed, another program than the original was run.
    print("DIGITS", other_digits, cells)
    assert 0 < other_digits < cells / 5


def test_file_compare_of_random_pairs(pairs):
    for what, elements, directory, mine, theirs in pairs:
        assert (mine[1].status, theirs[1].status) == (0, 0), what
        left, right = result_in(directory / "ours"), result_in(directory / "theirs")
        assert [name for name, _ in left] == [name for name, _ in right], what
        for (algorithm, cell), (_, expected) in zip(left, right, strict=True):
            if not (is_of_bool(what) and algorithm == "RelativeEuclideanDistance"):
                assert agree(algorithm, expected, cell, elements), (what, algorithm, expected, cell)


def test_what_differs_on_purpose(tmp_path):
    large, golden = np.float32([1e19, 2e19, 9e19]), np.float32([2e19, 2e19, 3e19])
    cases = [
        (large, golden, "CosineSimilarity", "0.000000", "0.863059"),  # squares beyond float32
        (large, golden, "RelativeEuclideanDistance", "nan", "1.475286"),
        (large, golden, "RootMeanSquareError", "inf", "35118843269718753280.000000"),
        (np.bool_([1, 0]), np.bool_([0, 0]), "RelativeEuclideanDistance", "0.000000", "NaN"),  # of bool never a number
        (np.bool_([1, 0]), np.bool_([0, 1]), "RelativeEuclideanDistance", "NaN", "NaN"),
    ]
    commands = []
    for number, (left, right, *_) in enumerate(cases):
        commands.append(["compare", "-m", tmp_path / f"a{number}.npy", "-g", tmp_path / f"b{number}.npy"])
        np.save(commands[-1][2], left)
        np.save(commands[-1][4], right)
    for case, command, theirs in zip(cases, commands, original(commands, tmp_path), strict=True):
        _, _, algorithm, their_cell, our_cell = case
        assert values_in(theirs.log)[algorithm] == their_cell
        assert values_in(ours(command).log)[algorithm] == our_cell


def test_statuses_of_two_files_that_cannot_be_compared(tmp_path):
    np.save(tmp_path / "good.npy", np.zeros((2, 3)))
    np.save(tmp_path / "turned.npy", np.zeros((3, 2)))
    np.save(tmp_path / "flat.npy", np.zeros(6))
    (tmp_path / "garbage.npy").write_bytes(b"no npy")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "good.txt").write_text("1 2 3")
    cases = [
        ("compare", "turned.npy", 23), ("file_compare", "flat.npy", 23), ("file_compare", "good.txt", 24),
        ("file_compare", "absent.npy", 3), ("compare", "absent.npy", 3), ("compare", "garbage.npy", 11),
        ("compare", "empty.npy", 11),
    ]  # fmt: skip
    commands = [
        [command, "-m", tmp_path / name, "-g", tmp_path / "good.npy", "-out", tmp_path] for command, name, _ in cases
    ]
    for case, command, theirs in zip(cases, commands, original(commands, tmp_path), strict=True):
        assert (theirs.status, ours(command).status) == (case[2], case[2]), (case, theirs.log)


# --- directories of dumps --------------------------------------------------------------------------------------------


def file_of(kind, name, number):
    return f"{kind}.{name}.1.2.{TIME + number}"


def stored(array, **known):
    """A tensor of a dump. It has an address, as on a device: the effect of 0 on the original's library is unknown."""
    number = NUMBERS["?" if array.dtype == bool else array.dtype.str[1:]]
    return cann.Tensor(array.tobytes(), number, array.shape, address=4096 + array.nbytes, **known)


def table_in(directory):
    """The header and the rows of the one result_<time>.csv."""
    (path,) = directory.glob("result_*.csv")
    header, *rows = csv.reader(io.StringIO(path.read_text(), newline=""))
    return header, rows


def compared(root, arguments):
    """The tables of both programs and their statuses."""
    for name in ("theirs", "ours"):
        (root / name).mkdir()
    (theirs,) = original([[*arguments, "-out", root / "theirs"]], root)
    mine = ours([*arguments, "-out", root / "ours"])
    assert mine.status == theirs.status, (mine.log, theirs.log[-2000:])
    return table_in(root / "ours"), table_in(root / "theirs"), theirs.status


def check_tables(mine, theirs, elements):
    """Cells by the rule of `agree`; a reason is in both or in neither, in each program's own words."""
    (header, rows), (their_header, their_rows) = mine, theirs
    assert header == their_header
    tensor_at = header.index("TensorIndex")
    assert [row[tensor_at] for row in rows] == [row[tensor_at] for row in their_rows]
    for row, expected_row in zip(rows, their_rows, strict=True):
        for column, cell, expected in zip(header, row, expected_row, strict=True):
            where = (row[tensor_at], column, expected, cell)
            if column == "CompareFailReason":
                assert bool(cell) == bool(expected), where
            elif column in ALGORITHMS:
                assert agree(column, expected, cell, elements.get(row[tensor_at], 0)), where
            else:
                assert cell == expected, where


def test_two_dumps_of_random_tensors(tmp_path):
    random = np.random.default_rng(SEED + 1)
    elements = {}
    for side in ("npu", "other"):
        (tmp_path / side).mkdir()
    for number in range(48):
        name = f"op{number}"
        tensors = [random_pair(random, TYPES[(number + i) % len(TYPES)]) for i in range(3)]
        # The original reads an empty tensor as float64, and a scalar as one with as many elements as it has bytes.
        tensors = [(left, right) for left, right in tensors if left.size and left.shape]
        for place, (left, _) in enumerate(tensors):
            elements[f"{name}:input:{place}" if place < 2 else f"{name}:output:0"] = left.size
        for side, which in (("npu", 0), ("other", 1)):
            arrays = [stored(pair[which]) for pair in tensors]
            data = cann.container(arrays[:2], arrays[2:], op_name=f"net/{name}")
            (tmp_path / side / file_of("Add", name, number)).write_bytes(data)
    mine, theirs, status = compared(tmp_path, ["compare", "-m", tmp_path / "npu", "-g", tmp_path / "other"])
    assert status == 0
    assert len(mine[1]) > 100
    check_tables(mine, theirs, elements)


def rule(number, name, inputs, origin, shape):
    """One operator of a rule file; its output stands for output 0 of the golden operator `origin`."""
    attributes = [
        {"key": "_datadump_origin_name", "value": {"s": origin}},
        {"key": "_datadump_origin_output_index", "value": {"i": 0}},
        {"key": "_datadump_origin_format", "value": {"s": "NCHW"}},
        {"key": "origin_shape", "value": {"list": {"i": list(shape)}}},
    ]
    names = {"key": "_datadump_original_op_names", "value": {"list": {"s": [origin]}}}
    return {
        "name": name, "type": "Conv2D", "id": number + 1, "input": inputs, "attr": [names],
        "output_desc": [{"attr": attributes}],
    }  # fmt: skip


def test_a_dump_and_golden_files_by_rules(tmp_path):
    random = np.random.default_rng(SEED + 2)
    (tmp_path / "npu").mkdir()
    (tmp_path / "golden").mkdir()
    elements, rules, before = {}, [], stored(np.arange(6, dtype="f4"))
    for number in range(24):
        name, origin = f"op{number}", f"scope_op{number}"
        shape = (2, int(random.integers(1, 40)), 3, int(random.integers(4, 9)))
        golden = random.standard_normal(shape).astype("f4")
        image = (golden * (1 + random.standard_normal(shape) * 1e-3)).astype(["f2", "f4"][number % 2])
        if number % 5 == 4:
            image.reshape(-1)[3] = np.inf
        kind = number % 3
        if kind == 0:  # NC1HWC0
            count = -(-shape[1] // 16)
            data = np.zeros((2, count * 16, *shape[2:]), image.dtype)
            data[:, : shape[1]] = image
            data = data.reshape(2, count, 16, *shape[2:]).transpose(0, 1, 3, 4, 2)
            tensor = stored(np.ascontiguousarray(data), cann_format=cann.NC1HWC0, original=shape)
        else:
            data, number_of_format = (image, cann.NCHW) if kind == 1 else (image.transpose(0, 2, 3, 1), cann.NHWC)
            tensor = stored(np.ascontiguousarray(data), cann_format=number_of_format, original=data.shape)
        inputs = [f"op{number - 1}:0"] if number else []
        (tmp_path / "npu" / file_of("Conv2D", name, number)).write_bytes(
            cann.container([before], [tensor], op_name=name)
        )
        if number != 7:
            np.save(tmp_path / "golden" / f"{origin}.0.{TIME}.npy", golden)
        rules.append(rule(number, name, inputs, origin, shape))
        before = tensor
        elements[f"{name}:output:0"] = elements[f"op{number + 1}:input:0"] = golden.size
    (tmp_path / "rules.json").write_text(json.dumps({"graph": [{"name": "model", "op": rules}]}))
    arguments = ["compare", "-m", tmp_path / "npu", "-g", tmp_path / "golden", "-f", tmp_path / "rules.json"]
    mine, theirs, status = compared(tmp_path, [*arguments, "-overflow_detection"])
    assert status == 0
    check_tables(mine, theirs, elements)
    assert {row[mine[0].index("OverFlow")] for row in mine[1]} == {"YES", "NO", "NaN"}
