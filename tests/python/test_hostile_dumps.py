"""The short form of tests/hostile: damaged dumps end in an answer or a finding, whatever the verb."""

import json
import os
import pathlib
import sys

import cann_files
import mindspore_tree
import numpy as np
import pytest
from processes import CLI, run_in

RUN = pathlib.Path(__file__).parents[1] / "hostile" / "run.py"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hostile")
    run = run_in(directory, None, sys.executable, RUN, "--mutations", "100", "--json", "--cli", CLI, timeout=300)
    assert run.status in (0, 1), run.stderr
    return json.loads(run.stdout)


def test_every_damaged_dump_has_an_answer_or_a_finding(report):
    assert report["failures"] == [], report["failures"][:3]


def test_the_damage_is_seen_and_reaches_every_verb(report):
    assert report["mutations"] == 100
    assert report["statuses"].get("3", 0) > 10, "most damage is reported"
    verbs = {"ls", "stats", "show", "graph", "first-bad", "stomp", "watch", "compare", "convert", "index", "msaccucmp"}
    assert verbs <= set(report["verbs"])


@pytest.fixture
def containers(tmp_path):
    """A directory of CANN's containers, one of which is a pipe that nobody writes to."""
    directory = tmp_path / "containers"
    directory.mkdir()
    whole = cann_files.container([], [np.ones(2, np.float32)])
    (directory / "Add.good.3.7.1700000000000000").write_bytes(whole)
    os.mkfifo(directory / "Add.pipe.4.7.1700000000000001")
    return directory


def test_a_mapping_that_never_ends_is_refused(tmp_path):
    dump = mindspore_tree.write(tmp_path / "dump")
    os.mkfifo(tmp_path / "mapping.csv")
    run = run_in(tmp_path, None, CLI, "compare", dump, dump, "--mapping", "mapping.csv", timeout=20)
    assert run.status == 3
    assert "cannot read 'mapping.csv': not a regular file" in run.stderr


def test_names_in_a_pipe_do_not_stop_msaccucmp(containers, tmp_path):
    os.mkfifo(containers / "mapping.csv")
    command = ("msaccucmp", "compare", "-m", containers, "-g", containers, "-out", tmp_path)
    run = run_in(tmp_path, None, CLI, *command, timeout=20)
    assert 0 <= run.status <= 40, run.stderr
    assert list(tmp_path.glob("result_*.csv")), run.stderr


def test_a_pipe_among_files_to_convert_is_no_success(containers, tmp_path):
    run = run_in(tmp_path, None, CLI, "convert", containers, "--out", tmp_path / "npy", timeout=20)
    assert run.status == 3
    assert "Add.pipe.4.7.1700000000000001': not a regular file" in run.stderr
    assert list((tmp_path / "npy").glob("Add.good.*")), "the rest is converted"


def test_stomp_of_a_dump_where_nothing_can_be_compared_is_no_clean_answer(tmp_path):
    dump = mindspore_tree.write(tmp_path / "dump")
    run = run_in(tmp_path, None, CLI, "stomp", dump)
    assert run.status == 3
    assert "nothing could be checked" in run.stdout
    assert "no read of any tensor could be compared" in run.stderr
    answer = run_in(tmp_path, None, CLI, "stomp", dump, "--json")
    assert json.loads(answer.stdout)["error"]["status"] == 3
