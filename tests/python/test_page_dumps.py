"""The questions of a person (web/tests/browser/dumps.test.mjs) on every kind of dump."""

import contextlib
import json
import os
import pathlib
import sys

import pytest
from page_dumps import FIRST_BAD, ROOT, browse, needs_chromium, needs_node, record, write_first_bad, write_ranks
from probe import READY as PROBE
from probe import run_program
from processes import run_in
from serving import serving

pytestmark = [*needs_node, needs_chromium]

MIGRATION = ROOT / "examples/migration"
MINDSPORE = pathlib.Path(os.environ.get("SONDE_MINDSPORE_PYTHON") or ROOT / ".venv-mindspore/bin/python")
LONG = "SONDE_TESTS_LONG" in os.environ  # a million tensors: 20 s more of processor time
STATISTICS = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Avg Value,"
    "L2Norm Value,NaN Count,Positive Inf Count,Negative Inf Count\n"
)


def ask(dumps, directory):
    """`dumps`: {name: (paths, what dumps.test.mjs expects)}."""
    with contextlib.ExitStack() as stack:
        described = {
            name: {"address": stack.enter_context(serving(*paths)).line, "pair": len(paths) > 1, **expected}
            for name, (paths, expected) in dumps.items()
        }
        browse("dumps", SONDE_DUMPS=json.dumps(described), SONDE_SAVED=str(directory))


def write_statistics(place, steps, blocks):
    """Files of statistics alone, of 1,000 tensors a block; step 7 has one NaN."""
    for step in range(steps):
        rows = [STATISTICS]
        for op in range(blocks * 500):
            name = f"linear,Default/network-Net/{op // 500}-Block/{op // 50 % 10}-Linear/linear-op{op % 50},0,0,{op}"
            bad = step == 7 and op == blocks * 300
            result = "nan,nan,nan,nan,1,0,0" if bad else "1,-1,0.1,2.5,0,0,0"
            rows.append(f'{name},input,0,64,float32,"(4,4)",1,-1,0.1,2.5,0,0,0\n')
            rows.append(f'{name},output,0,64,float32,"(4,4)",{result}\n')
        directory = place / "rank_0/Net/0" / str(step)
        directory.mkdir(parents=True)
        (directory / "statistic.csv").write_text("".join(rows))
    return place


def test_dumps_of_pytorch(once_per_run, tmp_path):
    runs = once_per_run("page-first-bad", write_first_bad)
    ranks = once_per_run("page-ranks", write_ranks)
    statistics = record(tmp_path, "statistics", FIRST_BAD)
    many = write_statistics(tmp_path / "many", 10, 100 if LONG else 5)
    log = "log-op0 train.py:45 log of a negative number"
    ask(
        {
            "examples/first_bad": (
                (runs / "sick", runs / "healthy"),
                {"first": log, "sick": True, "differs": "sub-op0.*is called with 0.2, golden 0"},
            ),
            "statistics only": ((statistics,), {"first": "log-op0 train.py:45", "sick": True}),
            "two ranks": (
                (ranks / "two", ranks / "plain"),
                {"first": "log-op0.*rank 1, step 0", "sick": True, "differs": "First difference"},
            ),
            "a killed one": (
                (ranks / "killed", ranks / "killed"),
                {"first": "The run was killed in step 2", "differs": "not everything could be compared"},
            ),
            "very many tensors": ((many,), {"first": "linear-op0.*step 7", "sick": True}),
        },
        tmp_path,
    )


@pytest.mark.skipif(not MINDSPORE.exists(), reason="no MindSpore; scripts/setup --mindspore makes its environment")
@pytest.mark.long
def test_dumps_of_a_migration_from_mindspore(tmp_path):
    weights = tmp_path / "lenet.npz"
    assert run_in(tmp_path, None, sys.executable, MIGRATION / "make_weights.py", weights).status == 0
    for name, python, *options in (
        ("mindspore", MINDSPORE),
        ("pytorch", sys.executable, "--plant", "pad_mode"),
    ):
        settings = {"MINDSPORE_DUMP_CONFIG": MIGRATION / "data_dump.json", "MS_DIAGNOSTIC_DATA_PATH": tmp_path / name}
        run = run_in(tmp_path, None, python, MIGRATION / f"lenet_{name}.py", weights, *options, **settings)
        assert run.status == 0, run.stderr
    differs = "conv2d-op0.*introduces relative error 0.634"
    port, original = tmp_path / "pytorch", tmp_path / "mindspore"
    ask(
        {
            "examples/migration": ((port, original), {"first": "No NaN and no infinity matters", "differs": differs}),
            "MindSpore": ((original, original), {"first": "Nothing is wrong", "differs": "The runs are equal"}),
        },
        tmp_path,
    )


@pytest.mark.skipif(not PROBE.exists(), reason="no mindstudio-probe; scripts/setup --probe makes its environment")
def test_dumps_of_msprobe(tmp_path):
    run_program("probe_training", tmp_path, "mix-tensor", "mix-tensor-healthy", directory=tmp_path)
    runs = (tmp_path / "mix-tensor", tmp_path / "mix-tensor-healthy")
    ask({"msprobe": (runs, {"first": "log.*step 1", "sick": True, "differs": "First difference"})}, tmp_path)
