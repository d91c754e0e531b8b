"""The short form of tests/hostile: damaged dumps end in an answer or a finding, whatever the verb."""

import json
import pathlib
import sys

import pytest
from processes import CLI, run_in

RUN = pathlib.Path(__file__).parents[1] / "hostile" / "run.py"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hostile")
    run = run_in(directory, None, sys.executable, RUN, "--mutations", "200", "--json", "--cli", CLI, timeout=300)
    assert run.status in (0, 1), run.stderr
    return json.loads(run.stdout)


def test_every_damaged_dump_has_an_answer_or_a_finding(report):
    assert report["failures"] == [], report["failures"][:3]


def test_the_damage_is_seen_and_reaches_every_verb(report):
    assert report["mutations"] == 200
    assert report["statuses"].get("3", 0) > 20, "most damage is told"
    verbs = {"ls", "stats", "show", "graph", "first-bad", "stomp", "watch", "compare", "convert", "index", "msaccucmp"}
    assert verbs <= set(report["verbs"])
