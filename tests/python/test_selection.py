"""The choice of a configuration, its place on disk, and the message if nothing is chosen."""

import os
import stat
import textwrap

import dumps
import pytest

ONE = {"saved_data": "statistic", "statistic_category": ["max"], "iteration": "0"}


def names(run, kind="op"):
    rows = dumps.statistics(run.dump)
    return {r["Op Name"] for r in rows if (r["Op Type"] == "Parameter") == (kind == "parameter")}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("Default/network-Small/conv-Conv2d/conv2d-op0", {"Default/network-Small/conv-Conv2d/conv2d-op0"}),
        ("conv2d", {"Default/network-Small/conv-Conv2d/conv2d-op0"}),
        ("Conv2D", {"Default/network-Small/conv-Conv2d/conv2d-op0"}),
        ("BatchNorm", {
            "Default/network-Small/norm-BatchNorm2d/batch_norm-op0",
            "Gradients/Default/network-Small/norm-BatchNorm2d/Grad_batch_norm/native_batch_norm_backward-op0",
        }),
        ("name-regex(Default/network-Small/[^/]+/linear-op[0-9]+)", {"Default/network-Small/fc-Linear/linear-op0"}),
    ],
)  # fmt: skip
def test_kernels_by_name_type_alias_and_pattern(entry, expected, train, config):
    run = train(config=config(dump_mode=1, kernels=[entry], **ONE))
    assert run.status == 0, run.stderr
    found = names(run)
    assert found if entry == "BatchNorm" else found == expected
    assert expected & found


def test_an_entry_that_matches_nothing_is_reported_with_the_nearest_names(train, config):
    run = train(config=config(dump_mode=1, kernels=["Default/network-Small/conv-Conv2d/conv2d-op7"], **ONE))
    assert run.status == 0
    said = "\n".join(run.sonde_lines)
    assert "nothing was recorded" in said
    assert "Default/network-Small/conv-Conv2d/conv2d-op0" in said
    assert "ops of the chosen steps matched kernels" in said
    assert not run.dump.exists()


@pytest.mark.parametrize(("sides", "expected"), [(0, {"input", "output"}), (1, {"input"}), (2, {"output"})])
def test_input_output(sides, expected, train, config):
    run = train(config=config(input_output=sides, **ONE))
    assert {row["IO"] for row in dumps.statistics(run.dump)} == expected
    assert bool(names(run, "parameter")) == (sides != 1)


def test_a_step_that_never_comes_is_reported(train, config):
    run = train(config=config(saved_data="tensor", iteration="7"))
    assert run.status == 0
    assert not run.dump.exists()
    assert 'no step matched iteration "7" (training steps 0-2 ran)' in run.stderr


def test_a_device_that_is_not_listed_is_reported(train, config):
    run = train(config=config(saved_data="tensor", support_device=[1, 2]))
    assert run.status == 0
    assert not run.dump.exists()
    assert "device 0 is not in support_device [1,2]" in run.stderr


def test_the_rank_comes_from_the_environment(train, config):
    run = train(config=config(**ONE), RANK_ID=3)
    assert dumps.steps(run.dump, rank=3) == [0], run.stderr


def test_the_path_may_come_from_the_environment(train, config, tmp_path):
    run = train(config=config(path="", **ONE), MS_DIAGNOSTIC_DATA_PATH=run_directory(tmp_path))
    assert dumps.steps(run_directory(tmp_path) / "debug_dump") == [0], run.stderr


def run_directory(tmp_path):
    # MindSpore's paths know no dots and no brackets
    return tmp_path.parent / "diagnostic"


def test_statistics_have_the_users_columns_in_the_users_order(train, config):
    every = ["l2norm", "md5", "max", "hash:sha1", "zero count", "min", "count", "avg", "nan count",
             "positive inf count", "negative inf count", "positive zero count", "negative zero count"]  # fmt: skip
    run = train(config=config(saved_data="statistic", statistic_category=every, iteration="0"))
    header = (dumps.step_directory(run.dump) / "statistic.csv").read_text().splitlines()[0]
    assert header.split(",")[10:] == [
        "L2Norm Value", "MD5", "Max Value", "SHA1", "Zero Count", "Min Value", "Count", "Avg Value", "NaN Count",
        "Positive Inf Count", "Negative Inf Count", "Positive Zero Count", "Negative Zero Count",
    ]  # fmt: skip


def test_permissions_are_the_owners_alone(train, config):
    run = train(config=config(saved_data="full", statistic_category=["max"], iteration="0"))
    for root, directories, files in os.walk(run.dump):
        for name in directories:
            assert stat.S_IMODE(os.stat(os.path.join(root, name)).st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(root, name)).st_mode) & 0o077 == 0, name


BIG = """
    import torch
    net = torch.nn.Linear(300, 300)
    for step in range(5):
        net(torch.ones(100, 300)).sum().backward()
    print("trained")
"""


def test_under_a_limit_of_file_sizes_training_goes_on_and_what_was_written_stays(train, config, dump):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200 << 10, 200 << 10))\n"
    run = train(limit + textwrap.dedent(BIG), config(saved_data="tensor"))
    assert (run.status, run.stdout) == (0, "trained\n")
    assert run.stderr.count("file too large") == 1, run.stderr
    whole = dumps.tensors(dump, 0)
    assert whole  # numpy opened every one of them


def test_a_directory_that_cannot_be_written_is_reported_before_the_first_step(train, config, tmp_path):
    blocker = tmp_path.parent / "blocker"
    blocker.write_text("a file where a directory should be")
    run = train(config=config(saved_data="tensor", path=str(blocker / "dump")))
    assert run.status == 0
    assert "blocker" in run.stderr and "nothing was recorded" in run.stderr
