"""Dumps at URLs: what is fetched, what is said, and what happens when servers fail."""

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from conftest import SMALL_TRAINING
from processes import CLI, run_in, settings_of
from remote_server import S3

import sonde


@pytest.fixture(scope="session")
def s3():
    server = S3()
    yield server
    server.close()


def recorded(once_per_run, name, **common):
    def make(directory):
        (directory / "train.py").write_text(textwrap.dedent(SMALL_TRAINING))
        config = directory / "data_dump.json"
        config.write_text(json.dumps(settings_of(directory / "dump", None, None, common)))
        run_in(directory, directory / "dump", sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)

    return once_per_run(f"remote-{name}", make) / "dump"


@pytest.fixture(scope="session")
def tensors(once_per_run):
    return recorded(once_per_run, "tensors", saved_data="tensor")


@pytest.fixture(scope="session")
def statistics(once_per_run):
    return recorded(once_per_run, "statistics", saved_data="statistic")


@pytest.fixture
def at(s3, tmp_path):
    """at(url, verb, ...): the command, with a cache of its own."""
    s3.fault = None

    def run(verb, *arguments, **environment):
        cache = {"SONDE_CACHE_DIR": tmp_path / "cache", "SONDE_REMOTE_TIMEOUT": "5"}
        return run_in(tmp_path, tmp_path, CLI, verb, *arguments, **{**s3.environment, **cache, **environment})

    yield run
    s3.fault = None


@pytest.fixture(scope="session")
def bucket(s3, tensors, statistics):
    s3.upload(tensors, "runs", "tensors")
    s3.upload(statistics, "runs", "statistics")
    return "s3://runs"


@pytest.mark.parametrize("verb", [["ls"], ["first-bad"], ["stats"]])
def test_of_a_dump_of_statistics_the_journal_is_fetched_and_nothing_else(s3, at, bucket, statistics, verb):
    s3.clear()
    there = at(verb[0], f"{bucket}/statistics")
    here = at(verb[0], statistics)
    assert (there.status, there.stdout) == (here.status, here.stdout)
    assert there.stderr.replace(f"{bucket}/statistics", str(statistics)) == here.stderr
    assert s3.read() == ["/runs/statistics/rank_0/.dump_metadata/sonde/journal"]
    assert len(s3.requests) <= 16
    s3.clear()
    at(verb[0], f"{bucket}/statistics")
    assert s3.read() == []


def test_of_a_dump_of_tensors_only_those_that_are_shown_are_fetched(s3, at, bucket, tensors):
    chosen = ("conv-Conv2d/conv2d-op0:output.0", "--step", "1")
    s3.clear()
    shown = at("show", f"{bucket}/tensors", *chosen)
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout.replace(f"{bucket}/tensors", str(tensors)) == at("show", tensors, *chosen).stdout
    read = [path for path in s3.read() if path.endswith(".npy")]
    assert len(read) == 1 and "/Net/0/1/" in read[0] and "conv2d-op0" in read[0]


@pytest.mark.parametrize("verb", ["first-bad", "stomp", "verify", "ls"])
def test_verbs_say_of_a_url_what_they_say_of_the_directory(at, bucket, tensors, verb):
    there, here = at(verb, f"{bucket}/tensors"), at(verb, tensors)
    assert there.status == here.status, there.stderr
    if verb not in ("verify", "ls"):  # links to one file are files of their own there
        assert there.stdout.replace(f"{bucket}/tensors", str(tensors)) == here.stdout
    assert "cache" not in there.stdout


def test_both_sides_of_a_comparison_may_be_at_urls(at, bucket, tensors):
    compared = at("compare", f"{bucket}/tensors", tensors)
    assert compared.status == 0, compared.stderr
    assert at("compare", f"{bucket}/tensors", f"{bucket}/tensors").status == 0


def test_python_reads_values_at_a_url(s3, bucket, tensors, monkeypatch, tmp_path):
    for name, value in {**s3.environment, "SONDE_CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    there, here = sonde.open(f"{bucket}/tensors"), sonde.open(tensors)
    assert repr(f"{bucket}/tensors") in repr(there)
    for one, other in zip(there.tensors.select(step=2), here.tensors.select(step=2), strict=True):
        if other.tensor_file is not None:
            assert np.array_equal(one.numpy(), other.numpy(), equal_nan=True)
    assert sonde.first_bad(f"{bucket}/tensors").complete


def test_a_change_at_the_source_is_noticed(s3, at, bucket, statistics, tensors):
    before = at("ls", f"{bucket}/changed")
    assert before.status == 3
    s3.upload(statistics, "runs", "changed")
    assert at("ls", f"{bucket}/changed").stdout == at("ls", statistics).stdout
    key = "changed/rank_0/.dump_metadata/sonde/journal"
    journal = (statistics / "rank_0/.dump_metadata/sonde/journal").read_bytes()
    s3.client.put_object(Bucket="runs", Key=key, Body=journal[: len(journal) // 2])
    assert "not finished" in at("ls", f"{bucket}/changed").stdout
    s3.client.put_object(Bucket="runs", Key=key, Body=journal)
    assert at("ls", f"{bucket}/changed").stdout == at("ls", statistics).stdout


@pytest.mark.parametrize("fault", [503, "cut"])
def test_a_server_that_fails_for_a_moment_is_asked_again(s3, at, bucket, statistics, fault):
    failures = iter([fault, fault])
    s3.fault = lambda method, path: next(failures, None) if path.endswith("sonde/journal") and method == "GET" else None
    shown = at("ls", f"{bucket}/statistics")
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout == at("ls", statistics).stdout


@pytest.mark.parametrize(("fault", "why"), [(503, "503"), (403, "no permission"), ("cut", "breaks off")])
def test_a_server_that_keeps_failing_is_named_in_one_line(s3, at, bucket, fault, why):
    s3.fault = lambda method, path: fault if path.endswith("sonde/journal") and method == "GET" else None
    shown = at("ls", f"{bucket}/statistics")
    assert shown.status == 3 and why in shown.stderr and shown.stderr.count("\n") == 1
    assert f"{bucket}/statistics/rank_0" in shown.stderr
    s3.fault = None
    assert at("ls", f"{bucket}/statistics").status == 0


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://runz/statistics", "nothing is there; there are 's3://runs'"),
        ("s3://runs/statistic", "nothing is there; there are 's3://runs/statistics'"),
        ("s4://runs/statistics", "no scheme 's4'; did you mean 's3://'?"),
        ("gs://runs/statistics", "pip install gcsfs"),
        ("s3://key:hushhush@runs/x", "its URL has a credential"),
        ("s3://", "it names no place; expected s3://BUCKET/PATH"),
        ("s3:/runs/statistics", "no such directory; did you mean 's3://runs/statistics'?"),
        ("s3://runs/statistics/rank_7", "nothing is there; there are 's3://runs/statistics/rank_0'"),
        ("s3://runs/statistics/rank_0/.dump_metadata/sonde/journal", "it is a file; expected the directory of a dump"),
    ],
)
def test_a_wrong_url_is_an_error_of_one_line(at, bucket, url, why):
    shown = at("ls", url)
    assert shown.status == 3 and why in shown.stderr and shown.stderr.count("\n") == 1
    assert "hushhush" not in shown.stderr


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (429, "the server is too busy (429), 4 times; try again later"),
        (503, "the server is too busy (503), 4 times; try again later"),
        (500, "the server failed ("),
        (502, "the server failed ("),
        (403, "no permission (Forbidden); check the credentials"),
    ],
)
def test_a_server_that_refuses_the_list_is_an_error_of_one_line(s3, at, bucket, fault, why):
    s3.fault = lambda method, path: fault
    s3.clear()
    shown = at("ls", f"{bucket}/statistics")
    assert shown.status == 3 and shown.stderr.count("\n") == 1
    assert f"cannot open dump '{bucket}/statistics': {why}" in shown.stderr
    assert len(s3.requests) == (1 if fault == 403 else 4)


def test_redirections_without_an_end_are_named(s3, at, bucket):
    s3.fault = lambda method, path: 301
    shown = at("ls", f"{bucket}/statistics")
    assert shown.status == 3 and shown.stderr.count("\n") == 1
    assert "sends each request on to another place" in shown.stderr


def test_python_names_the_missing_slash_of_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sonde.Error, match="did you mean 's3://runs/x'"):
        sonde.open("s3:/runs/x")
    (tmp_path / "s3:/runs/x").mkdir(parents=True)
    with pytest.raises(sonde.Error, match="cannot open dump 's3:/runs/x'") as found:
        sonde.open("s3:/runs/x")
    assert "did you mean" not in str(found.value)


def test_without_a_network_it_says_so(at):
    shown = at("ls", "s3://runs/statistics", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert shown.status == 3 and "it cannot be reached, 4 times" in shown.stderr and shown.stderr.count("\n") == 1


@pytest.fixture
def web(tensors):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tensors.parent))
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def test_a_web_server_serves_a_dump_and_credentials_stay_in_memory(at, web, tensors, tmp_path):
    url = f"http://user:hushhush@127.0.0.1:{web}/dump?X-Amz-Signature=0123456789abcdef"
    shown = at("stats", url, "--step", "1", "--json")
    assert (shown.status, shown.stderr) == (0, "")
    assert shown.stdout.replace(f"http://127.0.0.1:{web}/dump", str(tensors)) == (
        at("stats", tensors, "--step", "1", "--json").stdout
    )
    assert " 0 B " not in at("ls", url).stdout
    missing = at("ls", url.replace("/dump", "/dumb"))
    for secret in ("hushhush", "0123456789abcdef"):
        assert secret not in shown.stdout + missing.stderr + missing.stdout
        for directory, _, names in os.walk(tmp_path / "cache"):
            assert secret not in directory
            for name in names:
                with contextlib.suppress(PermissionError):
                    assert secret.encode() not in (os.path.join(directory, name)).encode()


def test_outputs_are_not_written_to_urls(at, bucket, tensors, tmp_path):
    for words in (["export", tensors, "--to"], ["compare", tensors, tensors, "--csv"], ["convert", tensors, "--out"]):
        refused = at(*words, "s3://runs/out.npz")
        assert refused.status == 2 and refused.stderr.startswith("sonde: error: cannot write to a URL")
    assert not list(tmp_path.rglob("s3:*"))


def test_export_reads_a_url(at, bucket, tmp_path):
    assert at("export", f"{bucket}/tensors", "--step", "1", "--to", tmp_path / "one.npz").status == 0
    assert (tmp_path / "one.npz").stat().st_size > 1000


def test_a_dump_at_a_url_is_copied_byte_by_byte(at, bucket, tensors, tmp_path):
    assert at("convert", f"{bucket}/tensors", "--unpack", "--out", tmp_path / "copy").status == 0
    for file in tensors.rglob("*.npy"):
        assert (tmp_path / "copy" / file.relative_to(tensors)).read_bytes() == file.read_bytes()


def test_two_commands_at_once_share_a_cache_and_one_that_was_killed_leaves_it_usable(s3, bucket, tmp_path):
    environment = {**os.environ, **s3.environment, "SONDE_CACHE_DIR": str(tmp_path / "cache")}
    command = [CLI, "verify", f"{bucket}/tensors", "--hashes"]
    start = functools.partial(subprocess.Popen, command, env=environment, stdout=subprocess.PIPE, text=True)
    with start() as killed:
        while not list((tmp_path / "cache").rglob("*.npy")) and killed.poll() is None:
            time.sleep(0.01)
        killed.kill()
    with start() as one, start() as other:
        answers = [process.communicate()[0] for process in (one, other)]
    assert answers[0] == answers[1] and "nothing wrong" in answers[0]


def test_the_cache_keeps_what_was_used_last(at, bucket, tmp_path):
    assert at("stats", f"{bucket}/tensors").status == 0
    assert at("ls", f"{bucket}/statistics", SONDE_CACHE_BYTES="1").status == 0
    mirrors = [path for path in (tmp_path / "cache/remote").iterdir() if path.is_dir()]
    assert [next(path.glob("files/runs/*")).name for path in mirrors] == ["statistics"]


def test_one_rank_alone_is_fetched_if_it_is_named(s3, at, statistics, tmp_path):
    both = tmp_path / "both"
    for rank in (0, 1):
        shutil.copytree(statistics / "rank_0", both / f"rank_{rank}")
    s3.upload(both, "runs", "both")
    s3.clear()
    assert at("ls", "s3://runs/both", "--rank", "1").status == 0
    assert s3.read() == ["/runs/both/rank_1/.dump_metadata/sonde/journal"]
    absent = at("ls", "s3://runs/both", "--rank", "7")
    assert absent.status == 3 and "no rank 7 in 's3://runs/both'; there are 0, 1" in absent.stderr
