"""`sonde upload`: a dump in object storage, whole and compared, also while a training records it."""

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import SMALL_TRAINING
from processes import CLI, clean_environment, run_in, settings_of
from remote_server import S3


@pytest.fixture(scope="module")
def s3():
    server = S3()
    server.client.create_bucket(Bucket="runs")
    yield server
    server.close()


def recorded_in(directory):
    (directory / "train.py").write_text(textwrap.dedent(SMALL_TRAINING))
    config = directory / "data_dump.json"
    settings = settings_of(directory / "dump", None, None, {"saved_data": "full", "iteration": "0", "input_output": 2})
    config.write_text(json.dumps(settings))
    run = run_in(directory, directory / "dump", sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr


@pytest.fixture(scope="module")
def dump(once_per_run):
    return once_per_run("upload", recorded_in) / "dump"


@pytest.fixture
def upload(s3, tmp_path):
    s3.fault = None
    environment = {**s3.environment, "SONDE_CACHE_DIR": tmp_path / "cache", "SONDE_REMOTE_TIMEOUT": "5"}

    def run(*arguments, verb="upload"):
        return run_in(tmp_path, tmp_path, CLI, verb, *arguments, **environment)

    yield run
    s3.fault = None


def contents(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def uploaded(s3, prefix):
    pages = s3.client.get_paginator("list_objects_v2").paginate(Bucket="runs", Prefix=f"{prefix}/")
    keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
    return {key.removeprefix(f"{prefix}/"): s3.client.get_object(Bucket="runs", Key=key)["Body"].read() for key in keys}


def without_owner(files):
    return {path: content for path, content in files.items() if not path.endswith("sonde/owner")}


def test_a_dump_arrives_whole_and_is_read_there(s3, upload, dump):
    done = upload(dump, "s3://runs/whole", "--json")
    assert (done.status, done.stderr) == (0, ""), done
    answer = json.loads(done.stdout)
    expected = without_owner(contents(dump))
    assert uploaded(s3, "whole") == expected
    assert answer["files"] == answer["uploaded"] == answer["compared"] == len(expected)
    assert answer["bytes"] == sum(map(len, expected.values()))
    there, here = upload("s3://runs/whole", verb="first-bad"), upload(dump, verb="first-bad")
    assert there.status == here.status
    assert there.stdout.replace("s3://runs/whole", str(dump)) == here.stdout
    s3.clear()
    again = json.loads(upload(dump, "s3://runs/whole", "--json").stdout)
    assert (again["uploaded"], again["compared"]) == (0, len(expected))
    assert not [path for method, path in s3.requests if method in ("PUT", "POST")]


def test_the_journal_goes_last(s3, upload, dump):
    s3.clear()
    assert upload(dump, "s3://runs/order").status == 0
    written = [path for method, path in s3.requests if method == "PUT"]
    assert written[-1].endswith("sonde/journal")
    assert sum(path.endswith("sonde/journal") for path in written) == 1


def test_a_busy_server_is_asked_again_and_a_stopped_upload_goes_on(s3, upload, dump):
    seen = []

    def fault(method, path):
        if method != "PUT":
            return None
        is_first = path not in seen  # by chance it would be refused each time that it is asked again
        seen.append(path)
        return 503 if is_first and len(seen) % 5 == 1 else 403 if len(seen) > 25 else None

    s3.fault = fault
    stopped = upload(dump, "s3://runs/stopped", "--json")
    assert stopped.status == 3
    problems = json.loads(stopped.stdout)["problems"]
    assert problems and all("permission" in one["message"] or "not copied" in one["message"] for one in problems)
    s3.fault = None
    part = uploaded(s3, "stopped")
    assert 0 < len(part) < len(without_owner(contents(dump)))
    assert not any(path.endswith("sonde/journal") for path in part)
    done = json.loads(upload(dump, "s3://runs/stopped", "--json").stdout)
    assert done["uploaded"] == done["files"] - len(part)
    assert uploaded(s3, "stopped") == without_owner(contents(dump))


def test_a_file_that_differs_there_is_copied_again(s3, upload, dump):
    upload(dump, "s3://runs/other")
    name = next(path for path in contents(dump) if path.endswith(".npy"))
    right = uploaded(s3, "other")[name]
    s3.client.put_object(Bucket="runs", Key=f"other/{name}", Body=b"x" * len(right))
    assert json.loads(upload(dump, "s3://runs/other", "--json").stdout)["uploaded"] == 1
    assert uploaded(s3, "other")[name] == right


def test_the_dump_of_another_run_is_refused(s3, upload, dump, tmp_path):
    upload(dump, "s3://runs/mixed")
    recorded_in(tmp_path)
    done = upload(tmp_path / "dump", "s3://runs/mixed")
    assert done.status == 2
    assert "is of another run; upload to another place" in done.stderr
    assert uploaded(s3, "mixed") == without_owner(contents(dump))


def test_the_bandwidth_is_bounded(upload, dump):
    megabytes = sum(map(len, without_owner(contents(dump)).values())) / 1e6
    began = time.monotonic()
    assert upload(dump, "s3://runs/slow", "--limit", megabytes / 4).status == 0
    assert time.monotonic() - began > 3


LONG_TRAINING = """
import os, sys, time
import torch
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    while step == 1 and not os.path.exists("seen"):
        time.sleep(0.05)
"""


def test_a_dump_is_copied_while_it_is_recorded_and_whole_at_the_end(s3, upload, tmp_path):
    (tmp_path / "train.py").write_text(LONG_TRAINING)
    config = tmp_path / "data_dump.json"
    config.write_text(json.dumps(settings_of(tmp_path / "dump", None, None, {"saved_data": "full", "input_output": 2})))
    environment = clean_environment(MINDSPORE_DUMP_CONFIG=config)
    with subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, env=environment) as training:
        while not list((tmp_path / "dump").rglob("*.npy")):
            time.sleep(0.05)
        now = upload(tmp_path / "dump", "s3://runs/live", "--json")
        assert now.status == 1, now
        part = uploaded(s3, "live")
        assert any(path.endswith(".npy") for path in part)
        assert not any(path.endswith("sonde/journal") for path in part)
        assert any(path.endswith("sonde/journal") for path in json.loads(now.stdout)["recording"])
        assert training.poll() is None
        command = [CLI, "upload", tmp_path / "dump", "s3://runs/live", "--follow"]
        with subprocess.Popen(command, env={**os.environ, **s3.environment}, stdout=subprocess.PIPE) as following:
            time.sleep(1)
            (tmp_path / "seen").touch()
            assert training.wait(60) == 0
            following.communicate(timeout=60)
            assert following.returncode == 0
    assert uploaded(s3, "live") == without_owner(contents(tmp_path / "dump"))


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["DUMP", "elsewhere"], 2, "'elsewhere' is not a URL"),
        (["nowhere", "s3://runs/x"], 3, "no such directory"),
        ([".", "s3://runs/x"], 3, "no rank of a recording"),
        (["DUMP", "s3://runz/x"], 3, "cannot write to 's3://runz/x': there is no such bucket; there are 's3://runs'"),
        (["DUMP", "s3://key:hushhush@runs/x"], 3, "its URL has a credential"),
        (["DUMP", "s4://runs/x"], 3, "did you mean 's3://'?"),
        (["DUMP", "s3://runs/x", "--limit", "-1"], 2, "less than 0"),
    ],
)
def test_wrong_arguments_are_refused(upload, dump, arguments, status, words):
    done = upload(*[dump if one == "DUMP" else one for one in arguments])
    assert done.status == status, done.stderr
    assert words in done.stderr
    assert "hushhush" not in done.stderr


def test_a_place_that_may_not_be_written_is_one_line(s3, upload, dump):
    s3.fault = lambda method, path: 403 if method == "PUT" else None
    done = upload(dump, "s3://runs/refused")
    s3.fault = None
    assert (done.status, done.stdout) == (3, "")
    assert done.stderr.startswith(
        "sonde: error: cannot upload to 's3://runs/refused': cannot write 's3://runs/refused/"
    )
    assert "no permission (Forbidden); check the credentials, and that they may write there" in done.stderr
    assert done.stderr.count("\n") == 1
