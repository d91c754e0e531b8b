"""`--json` of every verb is one document, as in docs/json/, with its problems; an error is one too."""

import functools
import json
import pathlib
import re
import shutil
import sys
import textwrap

import jsonschema
import numpy as np
import pytest
import referencing
from conftest import CLI, SMALL_TRAINING
from processes import run_in, settings_of

SCHEMAS = pathlib.Path(__file__).parents[2] / "docs/json"


@functools.cache
def validator(name):
    schemas = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.schema.json")}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    known = [(path, referencing.Resource.from_contents(schema)) for path, schema in schemas.items()]
    return jsonschema.Draft202012Validator(
        schemas[f"{name}.schema.json"], registry=referencing.Registry().with_resources(known)
    )


def conform(schema, document):
    error = jsonschema.exceptions.best_match(validator(schema).iter_errors(document))
    assert error is None, f"{error.json_path}: {error.message[:500]}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Dumps of a training: with tensors in packs, with a NaN in the loss and a .pt of its own, with statistics alone; a
    bare tree; raw files."""
    directory = tmp_path_factory.mktemp("json")
    for name, saved_data, change in (
        ("full", "full", ""),
        ("bad", "full", "loss = loss + torch.log(loss * 0 - 1)"),
        ("statistic", "statistic", ""),
    ):
        source = textwrap.dedent(SMALL_TRAINING)
        if change:
            source = source.replace("    loss.backward()", f"    {change}\n    loss.backward()")
            source += "\ntorch.save({'a': torch.zeros(2), 'b': torch.ones(3, 1)}, 'two.pt')\n"
        (directory / f"{name}.py").write_text(source)
        config = directory / f"{name}.json"
        settings = {"saved_data": saved_data, "iteration": "0-1"}
        config.write_text(
            json.dumps(settings_of(directory / name, None, {"pack": True} if name == "full" else None, settings))
        )
        run = run_in(directory, None, sys.executable, f"{name}.py", MINDSPORE_DUMP_CONFIG=config)
        assert run.status == 0, run.stderr
    tree = directory / "tree/rank_0/Net/0/1"
    tree.mkdir(parents=True)
    for step in ("0", "1"):
        (tree.parent / step).mkdir(exist_ok=True)
        np.save(tree.parent / step / "Parameter.fc_bias.0.0.10.output.0.DefaultFormat.Float32.npy", np.zeros(3, "f4"))
    for name, value in (("one", 1), ("two", 2)):
        np.save(directory / f"{name}.npy", np.full(8, value, "f4"))
    raw = directory / "raw"
    raw.mkdir()
    (raw / "fc_output_0_shape_2_3_Float32_DefaultFormat.bin").write_bytes(bytes(24))
    (raw / "fc_output_1_shape_2_3_Float32_DefaultFormat.bin").write_bytes(bytes(7))
    return directory


@pytest.fixture(scope="module")
def ask(place):
    def run(*arguments):
        return run_in(place, None, CLI, *arguments)

    return run


OP = "conv-Conv2d/conv2d-op0"
ANSWERS = {
    "check": ["check", "full.json"],
    "check, refused": ["check", "full.py"],
    "info": ["info", "--python", sys.executable],
    "ls": ["ls", "full"],
    "ls, ops": ["ls", "full", "--ops"],
    "stats": ["stats", "full"],
    "stats, of statistics": ["stats", "statistic"],
    "stats, of files": ["stats", "tree"],
    "show": ["show", "full", OP],
    "show, statistics": ["show", "statistic", OP],
    "show, trend": ["show", "full", "conv.weight", "--trend", "max,l2norm"],
    "show, file": ["show", "tree/rank_0/Net/0/0/Parameter.fc_bias.0.0.10.output.0.DefaultFormat.Float32.npy"],
    "show, several": ["show", "two.pt"],
    "graph": ["graph", "full"],
    "graph, op": ["graph", "full", OP, "--distance", "2"],
    "first-bad": ["first-bad", "full"],
    "first-bad, found": ["first-bad", "bad"],
    "compare": ["compare", "full", "full"],
    "compare, found": ["compare", "one.npy", "two.npy"],
    "watch": ["watch", "bad", "--recommended"],
    "watch, not judged": ["watch", "tree", "-c", "weight_not_changed"],
    "watch, list": ["watch", "--list"],
    "stomp": ["stomp", "full"],
    "headroom": ["headroom", "full"],
    "convert": ["convert", "raw", "--out", "npy"],
    "convert, unpacked": ["convert", "--unpack", "full", "--out", "unpacked"],
    "upload": ["upload", "full", "memory://full", "--python", sys.executable],
    "verify": ["verify", "full"],
    "verify, completed": ["verify", "statistic", "--complete"],
    "gather": ["gather", "full", "gathered", "--python", sys.executable],
    "index": ["index", "full", "--out", "full.sqlite"],
    "export": ["export", "full", "--to", "full.npz", "--python", sys.executable],
    "repro": ["repro", "full", OP, "--to", "issue", "--python", sys.executable],
    "replay": ["replay", "full", OP, "--python", sys.executable],
    "report": ["report", "full", "--html", "full.html"],
    "run": ["run", "--prove", "--out", "proved", "--", sys.executable, "-c", "print(1)"],
}


@pytest.mark.parametrize("case", ANSWERS)
def test_the_answer_is_one_document_as_its_schema_says(ask, case):
    verb, *arguments = ANSWERS[case]
    run = ask(verb, "--json", *arguments)
    document = json.loads(run.stdout)
    conform(verb, document)
    assert document["problems"] == [] or case in ("convert",)
    nothing_was_read_twice = case == "stomp"
    assert ("error" in document) == (run.status == 2 or nothing_was_read_twice), run.stderr
    if "found" in case:
        assert run.status == 1 and document["findings"]


@pytest.mark.parametrize("verb", [*sorted({verb for verb, *_ in ANSWERS.values()} - {"info", "check", "run"}), "sats"])
@pytest.mark.parametrize("wrong", ["nowhere", "--no-such-option"])
def test_an_error_is_a_document_too(ask, verb, wrong):
    more = {"compare": ["nowhere"], "show": ["x"], "convert": ["--out", "x"], "watch": ["--recommended"]}
    more |= {"repro": ["x"], "replay": ["--all"]}
    arguments = [wrong, *more.get(verb, [])]
    if verb == "report":
        arguments += ["--html", "x.html"]
    if verb == "export":
        arguments += ["--to", "x.npz"]
    if verb in ("export", "repro", "replay"):
        arguments += ["--python", sys.executable]
    run = ask(verb, *arguments, "--json")
    document = json.loads(run.stdout)
    conform("stats" if verb == "sats" else verb, document)
    assert document["error"]["status"] == run.status in (2, 3)
    assert document["error"]["message"].split("\n")[0] in run.stderr


def test_lines_are_the_rows_of_the_document(ask):
    for arguments, rows in (
        (["stats", "full"], "tensors"),
        (["ls", "full", "--ops"], "ops"),
        (["ls", "full"], "ranks"),
    ):
        document = json.loads(ask(*arguments, "--json").stdout)
        assert [json.loads(line) for line in ask(*arguments, "--jsonl").stdout.splitlines()] == document[rows]
    (line,) = ask("stats", "nowhere", "--jsonl").stdout.splitlines()
    assert json.loads(line)["error"]["status"] == 3


def test_what_cannot_be_read_is_a_problem_and_the_rest_is_answered(ask, place):
    torn = place / "torn"
    shutil.copytree(place / "tree", torn)
    bad = torn / "rank_0/Net/0/1/ReLU.x.0.0.9.output.0.DefaultFormat.Float32.npy"
    bad.write_bytes(b"\x93NUMPY\x01\x00")
    for verb in (["stats"], ["first-bad"], ["compare", torn]):
        run = ask(*verb, torn, "--json")
        document = json.loads(run.stdout)
        conform(verb[0], document)
        assert run.status == 3, (verb, run.stderr)
        assert any(bad.name in problem["message"] for problem in document["problems"]), verb
        assert document.get("tensors", document.get("ops", document.get("looked_at")))
        assert bad.name in run.stderr
    document = json.loads(ask("convert", place / "raw", "--out", place / "npy2", "--json").stdout)
    assert [problem["path"].rsplit("/", 1)[-1] for problem in document["problems"]] == [
        "fc_output_1_shape_2_3_Float32_DefaultFormat.bin"
    ]


def test_every_verb_that_answers_programs_has_a_schema(ask):
    verbs = set(re.findall(r"^  ([\w-]+)", ask("--help").stdout.split("Subcommands:")[1], re.MULTILINE))
    answering = {verb for verb in verbs - {"msaccucmp"} if "--json" in ask(verb, "--help").stdout}
    assert answering == {path.name.partition(".")[0] for path in SCHEMAS.glob("*.json")} - {"common"}
    assert answering == {verb for verb, *_ in ANSWERS.values()}
