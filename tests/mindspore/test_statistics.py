"""Statistics of MindSpore's tensors, compared with numpy over the tensors that MindSpore itself dumps."""

import hashlib

import dumps
import numpy as np
import pytest

CATEGORIES = {
    "max": ("Max Value", lambda x: x.max()),
    "min": ("Min Value", lambda x: x.min()),
    "avg": ("Avg Value", lambda x: x.mean()),
    "count": ("Count", lambda x: x.size),
    "negative zero count": ("Negative Zero Count", lambda x: (x < 0).sum()),
    "positive zero count": ("Positive Zero Count", lambda x: (x > 0).sum()),
    "nan count": ("NaN Count", lambda x: np.isnan(x).sum()),
    "negative inf count": ("Negative Inf Count", lambda x: np.isneginf(x).sum()),
    "positive inf count": ("Positive Inf Count", lambda x: np.isposinf(x).sum()),
    "zero count": ("Zero Count", lambda x: (x == 0).sum()),
    "l2norm": ("L2Norm Value", lambda x: np.sqrt((x * x).sum())),
}
WORDS = [*CATEGORIES, "md5"]


def check_row(row, array):
    values = array.astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = {column: float(compute(values)) for column, compute in CATEGORIES.values()}
    found = {column: float(row[column]) for column in expected}
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-30, nan_ok=True), row
    assert row["Data Type"] == array.dtype.name
    assert row["Shape"] == "[" + ",".join(map(str, array.shape)) + "]"
    assert int(row["Data Size"]) == array.nbytes
    assert row["MD5"] == hashlib.md5(array.tobytes()).hexdigest()


def key(row):
    return dumps.sanitised(row["Op Name"]), row["IO"], int(row["Slot"])


@pytest.fixture(scope="module")
def native(case):
    """LeNet-5, dumped by MindSpore alone."""
    case = case(saved_data="tensor")
    assert case.run_native("lenet").status == 0
    return case.dump


@pytest.fixture(scope="module")
def statistics(case):
    case = case({"inputs": "after"}, saved_data="statistic", statistic_category=WORDS)
    run = case.run("lenet")
    assert run.status == 0, run.stderr
    return run


@pytest.fixture(scope="module")
def infinite(case):
    """A network that makes infinities and NaN, in full."""
    case = case(saved_data="full", statistic_category=WORDS)
    run = case.run("overflowing")
    assert run.status == 0, run.stderr
    return run


@pytest.mark.parametrize("step", [0, 1])
def test_every_tensor_of_a_native_dump_has_its_row(native, statistics, step):
    tensors = dumps.tensors(native, step)
    rows = dumps.statistics(statistics.dump, step)
    assert sorted(map(key, rows)) == sorted(tensors)
    for row in rows:
        check_row(row, tensors[key(row)])


def test_no_tensor_is_written(statistics):
    assert not list(statistics.dump.rglob("*.npy"))


def test_columns_are_the_users(statistics):
    header = (dumps.step_directory(statistics.dump) / "statistic.csv").read_text().partition("\n")[0].split(",")
    assert header[header.index("Shape") + 1 :] == [column for column, _ in CATEGORIES.values()] + ["MD5"]


def test_full_writes_both(infinite):
    for step in dumps.steps(infinite.dump):
        tensors = dumps.tensors(infinite.dump, step)
        rows = dumps.statistics(infinite.dump, step)
        assert sorted(map(key, rows)) == sorted(tensors)
        for row in rows:
            check_row(row, tensors[key(row)])


def test_infinities_and_nan_are_counted(infinite):
    assert dumps.steps(infinite.dump) == [0, 1, 2]
    counts = {row["Op Name"]: row for row in dumps.statistics(infinite.dump, 1) if row["IO"] == "output"}
    assert counts["Default/Mul-op0"]["Positive Inf Count"] == "6"
    assert counts["Default/Sub-op0"]["NaN Count"] == "6"
    assert counts["Default/Tanh-op0"]["NaN Count"] == "0"


def test_the_command_shows_them(statistics, rows):
    shown = rows("stats", statistics.dump, "--step", 0)
    assert len(shown) == len(dumps.statistics(statistics.dump, 0))
    named = {(dumps.sanitised(row["op_name"]), row["side"], row["slot"]) for row in shown}
    assert named == {key(row) for row in dumps.statistics(statistics.dump, 0)}
