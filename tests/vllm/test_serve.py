"""`vllm serve`: the steps of a chosen request are recorded whole, and a request with a fault is named."""

import json

import pytest


@pytest.fixture(scope="module")
def served(serve, place):
    """(tokens of three requests, the log, the dump): the request `long` has a NaN; it and `last` are chosen."""
    dump = place / "served"
    names = {"short": "w1 w2 w3", "long": "w9 w8 w7 w6 w5 w4 w3 w2", "last": "w4"}
    chosen = ("--saved-data", "full", "--request", "cmpl-long-0", "--request", "cmpl-last-0")
    with serve(*chosen, out=dump, fault="nan") as server:
        tokens = {name: server.complete(prompt, name) for name, prompt in names.items()}
    return tokens, server.log.read_text(), dump


def test_chosen_requests_are_recorded_and_others_are_not(served, steps_of):
    tokens, log, dump = served
    assert set(tokens.values()) == {3}
    requests = [part["request"] for step in steps_of(dump) for part in step["requests"]]
    names = {request.removeprefix("cmpl-").partition("-")[0] for request in requests}
    assert names == {"long", "last"}, requests
    assert len(requests) == 2 * 3  # three tokens of each
    assert log.count("of vLLM with made-up tokens") == 1, log[-3000:]


def test_the_request_with_the_fault_is_named(served, sonde):
    _, _, dump = served
    found = json.loads(sonde("first-bad", dump, "--json").stdout)
    first = found["first"]
    assert first["op_type"] == "log" and first["code"]["source_file"].endswith("planted.py"), first
    assert "in rows of request cmpl-long-0" in " ".join(first["evidence"]), first["evidence"]
    healthy = sonde("first-bad", dump, "--request", "cmpl-last-0", "--json")
    assert healthy.status == 0, healthy.stderr
    assert json.loads(healthy.stdout)["first"] is None
