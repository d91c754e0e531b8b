"""PyNative mode: forward and backward are not recorded, and every face says so."""

import json

import pytest

NOTE = "PyNative mode: the operators that MindSpore ran one by one, forward and backward, are not recorded"


@pytest.fixture(scope="module")
def wrong(case):
    run = case(saved_data="full").run("pynative")
    assert run.status == 0, run.stderr
    return run


def test_the_closing_line_says_it(wrong):
    assert "sonde: recorded 15 ops" in wrong.stderr
    assert any(NOTE in line for line in wrong.sonde_lines)


def test_the_dump_says_it(wrong, sonde):
    (rank,) = json.loads(sonde("ls", wrong.dump, "--json").stdout)["ranks"]
    assert ", PyNative mode" in rank["runs"][0]["host"]
    assert any(NOTE in note for note in rank["runs"][0]["notes"])


def test_first_bad_says_it_and_is_not_certain(wrong, sonde):
    said = sonde("first-bad", wrong.dump, "--json")
    assert said.status == 1
    answer = json.loads(said.stdout)
    assert any(NOTE in note for note in answer["notes"])
    (finding, *_) = answer["findings"]
    assert "uncertain" in finding["tags"]
    assert any("ran in PyNative mode" in limit for limit in finding["limits"])


def test_a_healthy_run_is_not_called_complete(case, sonde):
    run = case(saved_data="full").run("pynative", "healthy")
    assert run.status == 0, run.stderr
    said = sonde("first-bad", run.dump)
    assert said.status == 3, said.stdout
    assert NOTE in said.stderr


def test_operators_alone_are_nothing_that_can_be_recorded(case):
    run = case(saved_data="full").run("pynative", "operators")
    assert "sonde: nothing was recorded" in run.stderr
    assert NOTE in run.stderr


def test_graph_mode_says_nothing_of_it(case):
    run = case(saved_data="statistic", iteration="0").run("lenet", 1)
    assert "PyNative" not in run.stderr
