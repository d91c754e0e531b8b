"""`sonde first-bad` and `sonde stomp` over dumps of real programs with planted faults."""

import json
import pathlib
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from first_bad_program import ADAM, CASES, SCALER
from processes import CLI, run_in, settings_of, torchrun

PROGRAM = pathlib.Path(__file__).with_name("first_bad_program.py")
STEP = {name: step for step, name in enumerate(CASES)} | {"scaler": SCALER, "adam": ADAM}
LINES = {
    match[1]: number
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    if (match := re.search(r"# FAULT (\w+)$", line))
}


def record(directory, name, *arguments, reread=True, command=(sys.executable,), environment=None, **common):
    dump = directory / name
    config = directory / f"{name}.json"
    config.write_text(json.dumps(settings_of(dump, None, {"reread": reread}, common)))
    run = run_in(directory, dump, *command, *arguments, MINDSPORE_DUMP_CONFIG=config, **(environment or {}))
    assert run.status == 0, run.stderr
    return dump


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("first_bad")


@pytest.fixture(scope="module")
def full(directory):
    return record(directory, "full", PROGRAM, saved_data="full")


@pytest.fixture(scope="module")
def statistics(directory):
    return record(directory, "statistics", PROGRAM, reread=False, saved_data="statistic")


def look(verb, dump, *arguments, statuses=(0, 1)):
    run = run_in(dump.parent, dump, CLI, verb, dump, "--json", *arguments)
    assert run.status in statuses, run.stderr
    return SimpleNamespace(status=run.status, **json.loads(run.stdout))


def at(dump, case):
    return look("first-bad", dump, "--step", STEP[case])


def test_what_complex_values_did_without_statistics_is_not_certain(statistics):
    first = at(statistics, "phase").first
    assert first["op_type"] in {"div", "fft_irfft"}
    assert "uncertain" in first["tags"], first


@pytest.mark.parametrize(
    ("case", "op", "kind", "why"),
    [
        ("log", "log", "operator", "log of 0: input.0[0,0] = 0"),
        ("forbidden", "cross_entropy_loss", "operator", "a class that is masked out"),
        ("half", "matmul", "overflow", "is 360000; float16 holds at most 65504, float32 would hold it"),
        ("bfloat16", "exp", "overflow", "= 90 is 1.2204e+39; bfloat16 holds at most"),
        ("sqrt_trap", "div", "operator", "0 divided by 0"),
        ("exp_trap", "exp", "overflow", "input.0[0,0] = 1000"),
        ("divide", "div", "operator", "division by 0"),
        ("empty_row", "softmax", "operator", "all 4 elements of the row input.0[1,:] are -inf"),
        ("stomped", "relu", "memory_overwritten", "sigmoid-op0 wrote only finite numbers"),
        ("cast", "to", "overflow", "is 70000; float16 holds at most 65504"),
        ("adam", "addcdiv_", "operator", "0 divided by 0"),
        ("phase", "div", "operator", ""),
    ],
)
def test_the_operator_its_line_and_the_reason(full, case, op, kind, why):
    report = at(full, case)
    assert report.status == 1
    first = report.first
    assert (first["op_type"], first["kind"]) == (op, kind), first
    assert why in first["why"]
    assert case == "forbidden" or first["code"]["source_line"] == LINES[case]
    code = {line["number"]: line["text"] for line in first["code"]["lines"]}
    assert case == "forbidden" or f"FAULT {case}" in code[LINES[case]]


def test_the_rest_of_a_bad_tensor_has_a_range(full, statistics):
    tensor = at(full, "empty_row").first["tensor"]
    rest = [value for value in np.load(tensor["tensor_file"]).ravel() if np.isfinite(value)]
    assert rest and (tensor["finite_min"], tensor["finite_max"]) == (min(rest), max(rest))
    assert tensor["counted"].endswith(f"rest {min(rest):.3g} … {max(rest):.3g}")
    tensor = at(statistics, "empty_row").first["tensor"]  # without values nobody knows it
    assert "NaN" in tensor["counted"] and "rest" not in tensor["counted"] and "finite_min" not in tensor


@pytest.mark.parametrize("dump", ["full", "statistics"])
def test_a_masked_transformer_is_healthy(dump, request):
    report = at(request.getfixturevalue(dump), "healthy")
    assert report.status == 0
    assert report.findings == []
    absorbed = {
        name.rsplit("/", 1)[-1].split("-op")[0] for healthy in report.healthy for name in healthy["absorbed_by"]
    }
    assert {"softmax", "scaled_dot_product_attention", "maximum", "reciprocal"} <= absorbed
    assert {healthy["how"] for healthy in report.healthy} >= {"placed", "computed", "from outside"}


def test_healthy_masks_beside_a_fault_stay_healthy(full):
    report = at(full, "log")
    assert len(report.findings) == 1
    assert report.reaches == "the loss"
    # Not the mask of the attention that the fault reaches: its softmax gives NaN and removes nothing.
    assert {"", "scaled_dot_product_attention"} <= {healthy["tensor"]["parameter"] for healthy in report.healthy} | {
        name.rsplit("/", 1)[-1].split("-op")[0] for healthy in report.healthy for name in healthy["absorbed_by"]
    }


def test_nan_that_is_masked_out_is_healthy(full):
    report = at(full, "masked_nan")
    assert report.status == 0
    assert "nan_to_num" in report.healthy[0]["absorbed_by"][0]


def test_a_bad_batch_comes_from_outside(full):
    first = at(full, "nan_batch").first
    assert first["kind"] == "bad_input"
    assert "input.0[1,2] = nan" in first["evidence"]


def test_backward_only(full):
    assert "backward_only" in at(full, "sqrt_trap").first["tags"]
    assert "optimizer_only" in at(full, "adam").first["tags"]
    assert any("mask the operator's input" in line for line in at(full, "sqrt_trap").first["evidence"])


def test_what_the_scaler_skipped_is_expected(full):
    report = at(full, "scaler")
    assert report.status == 0
    assert report.expected[0]["kind"] == "scaler_skipped"


@pytest.mark.parametrize("case", ["log", "half", "sqrt_trap", "exp_trap", "divide", "empty_row", "bfloat16"])
def test_statistics_alone_name_the_same_operator(full, statistics, case):
    complete, alone = at(full, case).first, at(statistics, case).first
    assert alone["op_name"] == complete["op_name"]
    assert alone["kind"] == complete["kind"]
    assert any("statistics of these tensors only" in line for line in alone["limits"])


def test_unread_tensors_are_reported(statistics):
    first = at(statistics, "stomped").first
    assert first["kind"] == "memory_overwritten"
    assert any("not read again" in line for line in first["limits"])


def test_without_a_journal_equal_values_stand_in_for_the_data_flow(full, directory):
    bare = directory / "bare"
    shutil.copytree(full, bare)
    shutil.rmtree(bare / "rank_0/.dump_metadata/sonde")
    report = at(bare, "log")
    assert report.first["op_name"] == at(full, "log").first["op_name"]
    assert "records no complete data flow" in report.notes[0]
    assert at(bare, "healthy").status == 0


def test_the_whole_run_begins_with_its_first_fault(full):
    report = look("first-bad", full)
    assert report.first["step"] == STEP["log"]
    assert report.looked_at["steps"] == STEP["log"] + 1


def test_the_next_configuration_is_accepted(full, directory):
    path = directory / "next.json"
    run = run_in(directory, full, CLI, "first-bad", full, "--step", STEP["log"], "--next-config", path)
    assert run.status == 1, run.stderr
    common = json.loads(path.read_text())["common_dump_settings"]
    assert common["iteration"] == f"{STEP['log'] - 1}|{STEP['log']}"
    assert at(full, "log").first["op_name"] in common["kernels"]
    assert run_in(directory, full, CLI, "check", path).status == 0
    again = run_in(directory, full, CLI, "first-bad", full, "--step", STEP["log"], "--next-config", path)
    assert again.status == 2, "a file that exists is not overwritten"


def test_of_two_ranks_the_one_that_was_bad(directory):
    command, environment = torchrun(directory, "--standalone", "--nproc-per-node", "2")
    common = {"saved_data": "statistic", "support_device": [0, 1]}
    dump = record(directory, "ranks", PROGRAM, "ranks", command=command, environment=environment, **common)
    report = look("first-bad", dump)
    first = report.first
    assert (first["rank"], first["step"], first["op_type"]) == (1, 1, "log")
    assert first["code"]["source_line"] == LINES["rank"]
    assert "one_rank_only" in first["tags"]
    assert any("allreduce" in line and "spread it to rank 0" in line for line in first["evidence"])


def test_stomp_names_what_changed_and_where(full):
    report = look("stomp", full, "--step", STEP["stomped_finite"])
    assert report.status == 1
    (finding,) = report.findings
    assert finding["op_type"] == "sigmoid"
    assert "and no operator wrote it" in finding["why"]
    assert finding["numbers"]["first byte"] == 4
    assert finding["numbers"]["last byte"] == 11
    assert finding["code"]["source_line"] == LINES["stomped_finite"]
    assert look("stomp", full, "--step", STEP["healthy"]).findings == []


def test_stomp_sees_rows_that_changed_places(full):
    report = look("stomp", full, "--step", STEP["rows_exchanged"])
    finding = report.findings[0]
    assert finding["op_type"] == "sigmoid"
    assert finding["code"]["source_line"] == LINES["rows_exchanged"]
    assert finding["numbers"]["elements that differ"] == 8


def test_a_file_of_the_bad_step_that_cannot_be_read_is_no_clean_answer(directory):
    dump = record(directory, "tensors", PROGRAM, saved_data="tensor")
    shutil.rmtree(dump / "rank_0/.dump_metadata/sonde")  # the journal has statistics
    for file in dump.glob(f"rank_0/Net/0/{STEP['log']}/*.npy"):
        file.write_bytes(file.read_bytes()[:40])
    step = ("--step", STEP["log"])
    run = run_in(directory, dump, CLI, "first-bad", dump, *step)
    assert run.status == 3
    assert "nothing wrong" not in run.stdout
    assert "nothing found in the part that could be examined" in run.stdout
    assert json.loads(run_in(directory, dump, CLI, "first-bad", dump, "--json", *step).stdout)["problems"]


def test_stomp_says_what_was_not_observable(statistics):
    report = look("stomp", statistics, "--step", STEP["stomped_finite"], statuses=(3,))
    assert report.not_observable > 0 and report.problems == []
    assert "no read of any tensor could be compared" in report.error["message"]


def test_stomp_of_a_watcher(directory):
    dump = directory / "watcher"
    dump.mkdir()
    config = directory / "acl.json"
    entry = {"watcher_nodes": ["Default/network1-Small/sigmoid-op0"]}
    settings = {"dump_list": [entry], "dump_path": str(dump), "dump_mode": "output", "dump_scene": "watcher"}
    config.write_text(json.dumps({"dump": settings}))
    run = run_in(directory, dump, sys.executable, PROGRAM, MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    report = look("stomp", dump)
    assert report.status == 1
    assert report.watched > 0
    changed = {finding["step"] for finding in report.findings}
    assert changed == {STEP["stomped"], STEP["stomped_finite"], STEP["rows_exchanged"]}
    assert "relu-op0" in report.findings[0]["why"]


NAN = {"Max": float("nan"), "Min": float("nan"), "Mean": float("nan"), "Norm": float("nan")}
SIXTH = {"Max": 0.166, "Min": 0.166, "Mean": 0.166, "Norm": 0.4}
ONE = {"Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0}


def msprobe_dump(directory, records):
    """A dump of msprobe with one step: {record: (statistics of its input, of its output)}; scalars are ONE or `()`."""

    def tensor(statistics, shape):
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, **statistics}

    data = {}
    for name, (read, made, *shape) in records.items():
        parts = ("input_args", "output") if "forward" in name else ("input", "output")
        data[name] = {
            part: [tensor(statistics, [] if statistics is ONE else sizes)]
            for part, statistics, sizes in zip(parts, (read, made), shape or ([2, 3], [2, 3]), strict=True)
            if statistics
        }
    step = directory / "step0/rank0"
    step.mkdir(parents=True)
    (step / "dump.json").write_text(json.dumps({"task": "statistics", "framework": "pytorch", "data": data}))
    return directory


def test_nan_of_msprobes_forward_is_not_blamed_on_backward_that_reads_it_unrecorded(tmp_path):
    below = {"Max": 0.5, "Min": -1.0, "Mean": -0.2, "Norm": 2.0}
    records = {
        "Torch.log.0.forward": (below, NAN),
        "Module.head.Head.forward.0": (below, NAN),
        "Tensor.square.0.forward": (NAN, NAN),
        "Tensor.mean.0.forward": (NAN, NAN, [2, 3], []),
        "Tensor.mean.0.backward": (ONE, SIXTH),
        "Tensor.square.0.backward": (SIXTH, NAN),
        "Torch.log.0.backward": (NAN, NAN),
        "Module.head.Head.backward.0": (NAN, NAN),
    }
    dump = msprobe_dump(tmp_path / "dump", records)
    (dump / "step0/rank0/construct.json").write_text(json.dumps({"Torch.log.0.forward": "Module.head.Head.forward.0"}))
    report = look("first-bad", dump)
    assert report.status == 1
    assert [finding["op_name"] for finding in report.findings] == ["Torch.log.0.forward"]
    assert report.findings[0]["why"].startswith("log of a negative number")


def test_a_loss_of_msprobe_is_a_scalar_that_only_its_own_backward_reads(tmp_path):
    good = {"Max": 0.5, "Min": 0.1, "Mean": 0.2, "Norm": 2.0}
    records = {
        "Tensor.mean.0.forward": (good, NAN, [2, 3], []),
        "Tensor.mean.0.backward": (ONE, SIXTH),
    }
    report = look("first-bad", msprobe_dump(tmp_path / "dump", records))
    assert report.status == 1
    assert report.findings[0]["op_name"] == "Tensor.mean.0.forward"
    assert report.reaches == "the loss"


def test_backward_of_msprobe_is_not_computed_as_its_function(tmp_path):
    dump = msprobe_dump(
        tmp_path / "dump", {"Tensor.square.0.forward": (SIXTH, SIXTH), "Tensor.square.0.backward": (SIXTH, NAN)}
    )
    path = dump / "step0/rank0/dump.json"
    content = json.loads(path.read_text())
    tensors = path.parent / "dump_tensor_data"
    tensors.mkdir()
    for part, value in (("input", 0.166), ("output", np.nan)):
        name = f"Tensor.square.0.backward.{part}.0.npy"
        content["data"]["Tensor.square.0.backward"][part][0]["data_name"] = name
        np.save(tensors / name, np.full((2, 3), value, np.float32))
    path.write_text(json.dumps(content))
    report = look("first-bad", dump)
    assert (report.status, report.findings[0]["kind"]) == (1, "operator")


MISSING = "the dump lacks {}: what was computed there is not known"


@pytest.mark.parametrize(
    ("ranks", "options", "note"),
    [
        ([0, 1], [], ""),
        ([0, 2], [], "rank 1"),
        ([1, 3, 7], [], "ranks 0, 2, 4-6"),
        ([0, 4294967295], [], "ranks 1-4294967294"),
        ([0, 2], ["--rank", "2"], ""),
    ],
)
def test_where_nothing_is_wrong_missing_ranks_are_named(tmp_path, ranks, options, note):
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(3).sum())\n")
    run = run_in(tmp_path, None, CLI, "run", "--out", "one", "--", sys.executable, "train.py")
    assert run.status == 0, run.stderr
    for rank in ranks:
        shutil.copytree(tmp_path / "one/rank_0", tmp_path / f"dump/rank_{rank}")
    run = run_in(tmp_path, None, CLI, "first-bad", "dump", *options, "--json")
    assert run.status == 0, run.stderr
    answer = json.loads(run.stdout)
    assert answer["first"] is None
    assert [line for line in answer["notes"] if "lacks" in line] == ([MISSING.format(note)] if note else [])


@pytest.mark.parametrize(("asked", "warns"), [("dump", True), ("dump/rank_2", False), ("dump --rank 2", False)])
def test_a_missing_rank_is_named_beside_a_finding_and_by_verify(tmp_path, asked, warns):
    (tmp_path / "train.py").write_text("import torch\nprint(torch.log(torch.tensor([-1.0, 2.0])).sum())\n")
    run = run_in(tmp_path, None, CLI, "run", "--out", "one", "--", sys.executable, "train.py")
    assert run.status == 0, run.stderr
    for rank in (0, 2):
        shutil.copytree(tmp_path / "one/rank_0", tmp_path / f"dump/rank_{rank}")
    for verb, status in (("first-bad", 1), ("verify", 0)):
        run = run_in(tmp_path, None, CLI, verb, *asked.split())
        assert run.status == status
        assert (MISSING.format("rank 1") in run.stderr) == warns
