"""sonde.first_bad, compare, stomp, watch and convert: the command's answers as objects, in Python and in C++."""

import dataclasses
import html
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap

import cann_files
import numpy as np
import pytest
from processes import CLI, run_in, settings_of
from test_cpp_api import compiled

import sonde
from sonde import answer_types, answers
from sonde.html_table import html_table

PROGRAM = """
    import sys
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, factor):
            return torch.log(torch.sigmoid(self.fc(x)) * factor + float(sys.argv[1]))


    network = Small()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        network(torch.ones(2, 4), 0.0 if step == 1 else 1.0).mean().backward()
        optimizer.step()
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("analyses")
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    return directory


def record(directory, name, offset):
    dump = directory / name
    config = directory / f"{name}.json"
    config.write_text(json.dumps(settings_of(dump, None, {"reread": True}, {"saved_data": "full"})))
    run = run_in(directory, dump, sys.executable, directory / "train.py", str(offset), MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    return dump


@pytest.fixture(scope="module")
def bad(directory):
    return record(directory, "bad", 0)


@pytest.fixture(scope="module")
def good(directory):
    return record(directory, "good", 1)


def command(verb, *arguments):
    done = subprocess.run([CLI, verb, *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.stdout


def document(verb, *arguments):
    """The document of --json, without the member that only a failed command adds."""
    answer = json.loads(command(verb, *arguments, "--json"))
    return {name: value for name, value in answer.items() if name != "error"}


def test_first_bad_is_the_answer_of_the_command(bad):
    report = sonde.first_bad(bad, step=1)
    assert report.first.op_name == "Default/network-Small/log-op0"
    assert (report.first.step, report.first.kind, report.first.code.source_line) == (1, "operator", 16)
    assert report.first.numbers["input at fault"] == 0
    assert report.first.tensor.shape == (2, 4)
    assert report.complete
    assert report.document == document("first-bad", bad, "--step", "1")
    assert str(report) == command("first-bad", bad, "--step", "1")


def test_an_infinity_is_a_number_in_python(bad):
    statistics = sonde.first_bad(bad, step=1).first.tensor.statistics
    assert statistics["negative_inf_count"] == 8
    assert all(isinstance(value, (int, float)) for value in statistics.values())


def test_nothing_wrong_is_said_of_a_healthy_step(bad, good):
    report = sonde.first_bad(good)
    assert report.first is None and report.complete
    assert "nothing wrong" in report._repr_html_()


def test_a_dump_that_is_open_is_looked_at_as_it_is(bad):
    assert sonde.first_bad(sonde.open(bad)).first.step == 1


def test_compare_is_the_answer_of_the_command(bad, good):
    comparison = sonde.compare(bad, good, step=0)
    first = comparison.findings[0]
    assert (first.op_name, first.kind) == ("Default/network-Small/add-op0", "number")
    assert comparison.document == document("compare", bad, good, "--step", "0")
    assert str(comparison) == command("compare", bad, good, "--step", "0")
    assert comparison.summary["identical"] > 0
    table = comparison.to_pandas()
    assert {"verdict", "target", "golden", "relative_error"} <= set(table.columns)
    assert comparison.to_junit().startswith("<?xml")


def test_a_dump_compared_with_itself_is_the_same(good):
    opened = sonde.open(good)
    comparison = sonde.compare(opened, opened)
    assert comparison.findings == () and comparison.complete
    assert str(comparison).startswith("no difference\n")


def test_stomp_is_the_answer_of_the_command(good):
    report = sonde.stomp(good)
    assert report.document == document("stomp", good)
    assert report.compared > 0 and report.findings == ()


def test_watch_finds_what_the_command_finds(bad):
    report = sonde.watch(bad, ["tensor_overflow", "tensor_too_large:abs_mean_gt=0.5"], step=1)
    hits = json.loads(
        command("watch", bad, "-c", "tensor_overflow", "-c", "tensor_too_large:abs_mean_gt=0.5", "--step", 1, "--json")
    )["hits"]
    of_command = {(node["op_name"], point["watch_condition"]["id"]) for node in hits for tensor in node["tensors"]
                  for point in tensor["watch_points"] if point["error_code"] == 0}  # fmt: skip
    assert of_command <= {(hit.op_name, hit.condition) for hit in report.hits}
    assert any(hit.op_name.endswith("log-op0") and hit.condition == "tensor_overflow" for hit in report.hits)
    chosen = sonde.open(bad).tensors[report.hits[0].tensor]
    assert chosen.op.op_name == report.hits[0].op_name
    large = next(hit for hit in report.hits if hit.condition == "tensor_too_large")
    (parameter,) = [parameter for parameter in large.parameters if parameter.is_hit]
    assert parameter.value == 0.5 and parameter.actual_value > 0.5


def test_convert_writes_the_tensors_of_binary_files(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    container = tmp_path / "Conv2D.conv1.3.7.1700000000000000"
    container.write_bytes(cann_files.container(outputs=[cann_files.tensor(values)]))
    done = sonde.convert(container, tmp_path / "out")
    assert [(file.from_, file.lost) for file in done.files] == [(str(container), None)] and done.problems == ()
    assert np.array_equal(np.load(done.files[0].to), values)
    assert done.files[0].bytes == values.nbytes


def test_every_answer_has_the_envelope(bad, good, tmp_path):
    container = tmp_path / "Conv2D.conv1.3.7.1700000000000000"
    container.write_bytes(cann_files.container(outputs=[cann_files.tensor(np.zeros(3, np.float32))]))
    answers_of_all = (
        *(sonde.first_bad(bad), sonde.stomp(good), sonde.compare(bad, good), sonde.watch(bad, "tensor_overflow")),
        sonde.convert(container, tmp_path / "out"),
    )
    for answer in answers_of_all:
        assert isinstance(answer.problems, tuple) and isinstance(answer.warnings, tuple)
        assert set(answer.document) >= {"problems", "warnings"}


def test_a_document_of_a_newer_sonde_is_read_and_its_members_are_named(bad):
    document = sonde.first_bad(bad, step=1).document
    newer = document | {"mood": "bad", "findings": [document["findings"][0] | {"weight": 3}]}
    report = answers.answer_of(answers.FirstBad, json.dumps(newer))
    assert report.first.step == 1
    assert report.warnings[-1].endswith("does not know: findings[0].weight, mood")


def test_wrong_arguments_are_value_errors(bad, tmp_path):
    with pytest.raises(ValueError, match="expected a list such as"):
        sonde.first_bad(bad, step="one")
    with pytest.raises(ValueError, match="no step 99; there is 0-2 in "):
        sonde.first_bad(bad, step=99)
    with pytest.raises(ValueError, match="nearest: tensor_overflow"):
        sonde.watch(bad, "tensor_overflo")
    with pytest.raises(ValueError, match="no condition"):
        sonde.watch(bad)
    with pytest.raises(ValueError, match="'input', 'output' or 'both'"):
        sonde.watch(bad, "tensor_overflow", side="all")
    with pytest.raises(ValueError, match="expected npy, bin, msnpy or pt"):
        sonde.convert(tmp_path, tmp_path, type="zip")
    with pytest.raises(sonde.Error, match="no such directory"):
        sonde.first_bad(tmp_path / "none")
    with pytest.raises(sonde.Error, match="holds no binary tensor files"):
        sonde.convert(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("wrong", [{"step": 99}, {"graph": 3}, {"rank": 4}, {"step": "7|9", "graph": 0}])
def test_a_part_that_is_not_there_is_refused_in_the_words_of_the_command(bad, wrong):
    options = [text for name, value in wrong.items() for text in (f"--{name}", str(value))]
    for verb, analysis in (("first-bad", sonde.first_bad), ("stomp", sonde.stomp)):
        said = subprocess.run([CLI, verb, bad, *options], capture_output=True, text=True, check=False)
        assert said.returncode == 2
        with pytest.raises(ValueError) as refused:
            analysis(bad, **wrong)
        assert said.stderr == f"sonde: error: {refused.value}\n"


def test_a_condition_without_a_tensor_is_noted_in_the_words_of_the_command(bad):
    said = subprocess.run(
        [CLI, "watch", bad, "-c", "tensor_overflow", "-c", "weight_not_changed", "--op", "log-op0"],
        capture_output=True, text=True, check=False,
    ).stderr  # fmt: skip
    (note,) = sonde.watch(bad, ["tensor_overflow", "weight_not_changed"], op="log-op0").notes
    assert note.startswith("condition 'weight_not_changed' has nothing to watch")
    assert f"sonde: warning: {note}\n" in said


SCHEMAS = pathlib.Path(__file__).parents[2] / "docs/json"


def members(verb, *path):
    """The members that docs/json/ gives an answer, or a part of it."""
    part = json.loads((SCHEMAS / f"{verb}.schema.json").read_text())
    for name in path:
        part = part[name]
    return set(part["properties"])


def test_a_comparison_has_every_member_of_the_document(bad, good):
    assert members("compare") - {"error"} <= set(vars(sonde.compare(bad, good, step=0)))


def test_what_could_not_be_read_is_in_the_answers(bad, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(bad, damaged)
    files = sorted(damaged.rglob("*.npy"))
    for file in files[::3]:
        file.write_bytes(file.read_bytes()[:-3])
    journal = next(damaged.rglob("journal"))
    journal.write_bytes(journal.read_bytes()[:-40] + b"garbage" * 5)
    for verb, answer, dumps in (
        ("first-bad", sonde.first_bad(damaged), [damaged]),
        ("stomp", sonde.stomp(damaged), [damaged]),
        ("compare", sonde.compare(damaged, bad), [damaged, bad]),
    ):
        assert answer.document == document(verb, *dumps)
        assert answer.problems
        assert [(problem.path, problem.message) for problem in answer.problems] == [
            (problem["path"], problem["message"]) for problem in answer.document["problems"]
        ]
        assert "could not be read" in answer._repr_html_()


def test_tags_are_words_in_every_form(bad):
    first = sonde.first_bad(bad, step=1).first
    doubted = dataclasses.replace(first, tags=("backward_only", "uncertain"))
    assert " (backward only, uncertain): log of 0" in str(doubted)
    assert "First bad value (backward only, uncertain): " in doubted._repr_html_()
    assert "sonde-unsure" in doubted._repr_html_()


def test_answers_show_themselves_in_a_notebook(bad, good):
    report = sonde.first_bad(bad, step=1)
    page = report._repr_html_()
    for part in (
        "sonde-bad",
        "<code>Default/network-Small/log-op0</code> at train.py:16",
        "log of 0",
        "rank 0, graph 0, step 1",
        "8 of 8 -inf",
        f"<strong>&gt;    16 | {report.first.code.lines[1].text}",
        "reaches the loss: log-op0 -&gt; ",
        html.escape(f"sonde show {bad} Default/network-Small/log-op0 --step 1"),
    ):
        assert part in page, part
    assert "sonde-good" in sonde.first_bad(good)._repr_html_()
    comparison = sonde.compare(bad, good, step=0)
    page = comparison._repr_html_()
    first = comparison.findings[0]
    for part in ("First difference", "Default/network-Small/add-op0", f"sonde show {bad}", f"sonde show {good}"):
        assert part in page, part
    assert page.count("<pre") == 2 and first.code.lines and first.golden_code.lines


def test_a_text_of_the_dump_is_no_markup():
    assert "<script>" not in html_table(("a",), [("<script>alert(1)</script>",)])


def test_a_dump_shows_its_steps_in_a_notebook(good):
    page = sonde.open(good)._repr_html_()
    assert "<th>steps</th>" in page and "<td>0-2</td>" in page
    assert "nothing wrong" in page and "sonde-good" in page


def test_rows_of_a_dump_are_tables_in_a_notebook(bad):
    dump = sonde.open(bad)
    name = "Default/network-Small/log-op0"
    (log,) = dump.tensors.select(op=f"^{name}$", step=1, side="output")
    row = dump.tensors.select(op=f"^{name}$", step=1)._repr_html_()
    for page in (row, log._repr_html_()):
        assert f"{name}:output.0" in page and "<td>-inf</td>" in page and "<td>train.py:16</td>" in page, page
    for rows in (dump.tensors, dump.ops, dump.graph.nodes):
        page = rows._repr_html_()
        assert page.count("<tr>") == 11 and f"<p>and {len(rows) - 10} more</p>" in page
    assert dump.graph.nodes._repr_html_() in dump.graph._repr_html_()
    assert "<table>" not in dump.ops[:0]._repr_html_()


def test_what_grew_first_names_the_parameter_and_its_line_alone():
    place = {"op_name": "add_-op7", "op_type": "add_", "side": "output", "slot": 0}
    tensor = answers.FindingTensor(**place, parameter="tower.2.bias", dtype="float32", shape=(32,))
    code = answers.Code(source_file="/home/train.py", source_line=15, function="<module>", lines=())
    series = (answer_types.GrowthPoint(0, 0.5), answer_types.GrowthPoint(1, 6.0))
    growth = answers.Growth(tensor=tensor, rank=0, step=1, before=0.5, now=6.0, of_norm=True, series=series, code=code)
    assert str(growth) == (
        "grew first: tower.2.bias, by add_-op7:output.0 in step 1 (train.py:15): norm 6 after 0.5 (12 times); "
        "by step: 0: 0.5, 1: 6"
    )


def test_a_dump_shows_its_answer_in_a_notebook(bad):
    page = sonde.open(bad)._repr_html_()
    assert sonde.first_bad(sonde.open(bad))._repr_html_() in page


def test_a_program_in_cpp_gets_the_same_answers(bad, good, tmp_path_factory):
    program = compiled(tmp_path_factory.mktemp("findings"), "first_bad")
    found = subprocess.run([program, bad], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stdout.startswith("Default/network-Small/log-op0 in step 1, ")
    assert "train.py:16: log of 0" in found.stdout
    assert subprocess.run([program, good], capture_output=True, text=True, check=False).stdout == "nothing wrong\n"
    differ = subprocess.run([program, bad, good], capture_output=True, text=True, check=False)
    assert differ.stdout == command("compare", bad, good)
