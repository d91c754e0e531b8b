"""`sonde_settings.max_overhead`: what is left out to stay within it says so. How long it takes:
tests/engine/capture/overhead_test.cpp, with made-up times, and benchmarks/max_overhead.py."""

import json
import re

import pytest

# Many operators in a step that takes a few milliseconds: all of them cannot be read within a twentieth of it.
TRAINING = """
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [torch.nn.Linear(160, 160) for _ in range(6)]
    network = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for step in range(150):
        optimizer.zero_grad()
        loss = network(torch.randn(512, 160)).square().mean()
        loss.backward()
        optimizer.step()
    print("trained", loss.item())
"""


@pytest.fixture(scope="module")
def limited(compare):
    return compare(TRAINING, saved_data="statistic", sonde_settings={"max_overhead": 0.05})


def report_of(sonde, dump):
    answer = json.loads(sonde("ls", dump, "--json").stdout)
    return [n for rank in answer["ranks"] for run in rank["runs"] for n in run["notes"] if n.startswith("max_overhead")]


def test_the_training_is_the_same(limited):
    assert limited.recorded.stdout == limited.bare.stdout


def test_some_steps_are_left_out_and_the_dump_says_how_many(limited, sonde):
    notes = report_of(sonde, limited.dump)
    recorded, ran = map(int, re.search(r"graph 0: (\d+) of (\d+) steps were recorded", notes[-1]).groups())
    assert ran in (150, 151) and 1 < recorded < ran, notes
    listed = json.loads(sonde("ls", limited.dump, "--json").stdout)["ranks"][0]["steps"]
    assert len(listed) == recorded
    assert sonde("verify", limited.dump).status == 0


def test_a_tensor_that_was_not_read_says_so(limited):
    """Every wanted tensor has statistics or a reason."""
    rows = limited.stats()
    bare = [row for row in rows if row.get("max") is None and not row.get("skipped")]
    assert not bare, bare[:3]
    assert {row["skipped"] for row in rows if row.get("skipped")} <= {
        "not read: max_overhead", "uninitialised memory", "empty tensor",
    }  # fmt: skip


def test_every_operator_was_read_in_full(limited):
    rows = limited.stats()
    ops = {row["op_name"] for row in rows}
    read = {row["op_name"] for row in rows if row.get("max") is not None}
    assert ops == read


def test_first_bad_does_not_say_that_nothing_is_wrong(limited, sonde):
    found = sonde("first-bad", limited.dump)
    assert "max_overhead" in found.stderr
    if any(row.get("skipped") == "not read: max_overhead" for row in limited.stats()):
        assert "nothing wrong" not in found.stdout and found.status == 3, found.stdout
        assert "tensors were not read, by max_overhead" in found.stderr


def test_compare_does_not_say_that_everything_was_compared(limited, train, config, dump, sonde):
    train(TRAINING, config(saved_data="statistic"))
    compared = sonde("compare", limited.dump, dump)
    if any(row.get("skipped") == "not read: max_overhead" for row in limited.stats()):
        assert "tensors were not read, by max_overhead" in compared.stderr
        assert compared.status == 3 and "in the part that could be compared" in compared.stdout, compared.stdout


@pytest.mark.parametrize("value", ["0.05", -0.1, 2, 1.5, 0.0001, True])
def test_wrong_values_are_refused(train, config, dump, value):
    done = train("import torch", config(sonde_settings={"max_overhead": value}))
    assert "sonde_settings.max_overhead" in done.stderr and "allowed: a number from 0.001 to 1.0" in done.stderr
    assert not dump.exists()


@pytest.mark.parametrize("mode", [3, 4])
def test_modes_that_look_for_one_operator_are_refused(train, config, mode):
    done = train("import torch", config(op_debug_mode=mode, sonde_settings={"max_overhead": 0.05}))
    assert f"sonde_settings.max_overhead: cannot be combined with op_debug_mode {mode}" in done.stderr


def test_tensors_that_do_not_fit_have_their_statistics(train, config, dump, sonde):
    done = train(TRAINING, config(saved_data="tensor", sonde_settings={"max_overhead": 0.05}))
    assert "trained" in done.stdout
    verified = sonde("verify", dump)
    assert verified.status == 0, verified.stdout
    rows = [json.loads(line) for line in sonde("stats", dump, "--jsonl").stdout.splitlines()]
    assert {row["skipped"] for row in rows if row.get("skipped")} <= {
        "not read: max_overhead", "statistics only: max_overhead", "uninitialised memory", "empty tensor",
    }  # fmt: skip
    assert report_of(sonde, dump)


def test_it_goes_with_the_ring(train, config, dump):
    source = TRAINING.replace("loss.backward()", "(loss * (float('nan') if step == 120 else 1)).backward()")
    done = train(source, config(saved_data="statistic", sonde_settings={"max_overhead": 0.05, "ring": 3}))
    assert "trained" in done.stdout
    assert any("the ring was" in line for line in done.sonde_lines), done.sonde_lines
