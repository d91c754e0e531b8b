"""A tensor from before the step is followed to the operator, the step and the line that wrote it."""

import json

import pytest
from processes import CLI, python, run_in

import sonde

PROGRAM = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
    def forward(self, x):
        return self.inner(x) * self.scale
net = nn.Sequential(Block(), Block())
optimizer = torch.optim.Adam(net.parameters(), 0.1)
for step in range(4):
    net(torch.ones(2, 4)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 1:
        with torch.no_grad():
            net[1].scale[1] = torch.log(torch.tensor(-1.0))
"""
MUL = "Default/network-Sequential/1-Block/mul-op0"


def record(place, name, *options):
    run = run_in(place, place / name, CLI, "run", "--out", name, *options, "--", *python(), "train.py")
    assert run.status == 0, run.stderr
    return place / name


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("before")
    (place / "train.py").write_text(PROGRAM)
    record(place, "all", "--saved-data", "full")
    return place


def test_the_graph_of_an_operator_has_the_writer_of_an_earlier_step(place):
    text = run_in(place, place / "all", CLI, "graph", "all", MUL, "--step", 3).stdout
    scale = text.index("  input.1 ")
    assert text[scale:].splitlines()[:3] == [
        "  input.1   float32 (4)              from 1.scale",
        " " * 37 + "by   Default/copy_-op0 of step 1, train.py:19",
        " " * 37 + "     Default/log-op0 of step 1, train.py:19",
    ]
    assert " by " not in text[text.index("  input.0 ") : scale]  # an operator of this step made it
    first = run_in(place, place / "all", CLI, "graph", "all", MUL, "--step", 0).stdout
    assert "of step" not in first
    answer = run_in(place, place / "all", CLI, "graph", "all", MUL, "--step", 3, "--json", "--distance", 0).stdout
    made_here, scale = json.loads(answer)["ops"][0]["inputs"]
    way = [(one["op_name"], one["step"], one["source_line"]) for one in scale["before"]]
    assert way == [("Default/log-op0", 1, 19), ("Default/copy_-op0", 1, 19)] and "before" not in made_here


def shown(dump, tensor, step):
    return json.loads(run_in(dump.parent, dump, CLI, "show", dump, tensor, "--step", step, "--json").stdout)


def test_a_buffer_is_followed_to_the_line_that_wrote_it(place):
    way = shown(place / "all", f"{MUL}:input.1", 3)["written_before"]
    assert [(one["op_name"], one["step"], one["source_line"]) for one in way] == [
        ("Default/log-op0", 1, 19),
        ("Default/copy_-op0", 1, 19),
    ]
    text = run_in(place, place / "all", CLI, "show", "all", f"{MUL}:input.1", "--step", 3).stdout
    assert "  comes from  Default/copy_-op0 of step 1, train.py:19\n" in text
    assert "  holds       1 of 4 NaN, rest 1 … 1\n" in text


def test_a_state_of_the_optimizer_is_followed_to_the_optimizer_of_the_step_before(place):
    (last,) = shown(place / "all", "exp_avg.0.inner.weight", 2)["written_before"][-1:]
    assert (last["op_name"].startswith("Default/optimizer-Adam/lerp_-op"), last["step"]) == (True, 1)


def test_what_nobody_wrote_and_what_this_step_made_have_no_way(place):
    assert "written_before" not in shown(place / "all", f"{MUL}:input.0", 3)
    assert "written_before" not in shown(place / "all", "Default/network-Sequential/0-Block/mul-op0:input.1", 3)
    text = run_in(place, place / "all", CLI, "show", "all", "0.scale", "--step", 3).stdout
    assert "no recorded operator wrote 0.scale before step 3\n" in text


def test_where_the_dump_lacks_the_step_before_the_recording_that_has_it_is_named(place):
    part = record(place, "part", "--iteration", "3")
    text = run_in(place, part, CLI, "show", "part", f"{MUL}:input.1").stdout
    assert "step 2 is not in the dump: record again with --iteration 2-3" in text


def test_an_answer_counts_and_says_what_to_do_next(place):
    report = sonde.first_bad(place / "all")
    assert report.first.tensor.counted == "1 of 1 NaN"
    kinds = [one.kind for one in report.next_commands]
    assert [kinds[0], kinds[1], kinds[-1]] == ["values", "readers", "browser"]
    commands = [one.command for one in report.next_commands]
    assert f"sonde show {place / 'all'} Default/log-op0 --step 1" in commands
    assert f"sonde serve {place / 'all'} --open" in commands
    for command in commands[:-1]:
        assert run_in(place, place / "all", CLI, *command.split()[1:]).status == 0, command
    assert sonde.first_bad(place / "all", step=0).next_commands == ()
    statistics = record(place, "statistics")
    record_again = [one.command for one in sonde.first_bad(statistics).next_commands if "--next-config" in one.command]
    assert record_again and record_again[0].endswith("train.py")
