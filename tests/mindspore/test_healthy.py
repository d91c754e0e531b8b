"""Nothing is wrong in a healthy program whose operators MindSpore numbers anew when they run: edges are found by sizes
and values."""

import json

import pytest


@pytest.mark.parametrize("saved_data", ["full", "statistic"])
def test_no_memory_is_called_overwritten(case, sonde, saved_data):
    run = case(saved_data=saved_data, statistic_category=["max", "min", "avg", "l2norm"]).run("added_gradients")
    assert run.status == 0, run.stderr
    for verb in ("first-bad", "stomp"):
        said = sonde(verb, run.dump, "--json")
        assert json.loads(said.stdout)["findings"] == [], verb
        assert said.status == 0 or verb == "stomp", said.stderr
    graph = json.loads(sonde("graph", run.dump, "--step", 0, "--json").stdout)["ops"]
    added = [op for op in graph if op["op_type"] == "AddN"]
    assert len(added) > 8
    assert all(entry.get("op_name") or entry.get("parameter") for op in added for entry in op["inputs"])
