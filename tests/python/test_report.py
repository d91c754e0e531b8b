"""`sonde report`: a dump as one HTML file. test_page.py opens such files in a browser."""

import base64
import gzip
import json
import pathlib
import re
import sys
import textwrap

import pytest
from conftest import SMALL_TRAINING
from golden_cases import TREES
from processes import CLI, python, run_in
from test_index import RECORD

NAN_TRAINING = SMALL_TRAINING.replace(
    "        loss.backward()", "        loss = loss + torch.log(0.5 - step + 0 * loss)\n        loss.backward()"
)
ELEMENT = re.compile(r'<script type="application/octet-stream" id="([\w-]+)">([^<]*)</script>')


class File:
    """A report: its table of contents, and its answers by their keys."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        members = {name: gzip.decompress(base64.b64decode(text)) for name, text in ELEMENT.findall(self.bytes.decode())}
        self.contents = json.loads(members.pop("sonde-contents"))
        assert all(len(base64.b64decode(text)) <= 1 << 20 for _, text in ELEMENT.findall(self.bytes.decode()))
        self.data = b"".join(members[f"sonde-piece-{i}"] for i in range(len(members)))
        self.about = self.contents["about"]

    def keys(self, path):
        return [key for key in self.contents["answers"] if key.startswith(f"{path}?")]

    def raw(self, key):
        _, offset, length = self.contents["answers"][key]
        return self.data[offset : offset + length]

    def json(self, key):
        return json.loads(self.raw(key))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    directory = tmp_path_factory.mktemp("report")
    (directory / "train.py").write_text(textwrap.dedent(NAN_TRAINING))
    for name in ("nan", "again"):
        run = [CLI, "run", "--out", name, "--saved-data", "full", "--", *python(), "train.py"]
        assert run_in(directory, None, *run).status == 0
    return directory


@pytest.fixture(scope="module")
def report(place):
    """report(name, *options): the command, with the file's content as `file`."""

    def run(name, *options, dump="nan", **environment):
        path = place / f"{name}.html"
        done = run_in(place, None, CLI, "report", dump, "--html", path, *options, **environment)
        if path.exists() and done.status == 0:
            done.file = File(path)
        return done

    return run


def test_the_same_dump_gives_the_same_bytes_and_the_answers_of_the_server(report, place):
    first, second = report("first"), report("second")
    assert first.status == second.status == 0, first.stderr
    assert first.file.bytes == second.file.bytes
    file = first.file
    assert file.about["steps"] == [0, 1] and file.about["left_out"] == []
    finding = file.json("overview?")["finding"]
    shown = json.loads(run_in(place, None, CLI, "first-bad", "nan", "--json").stdout)
    assert finding["first"]["op_name"] == shown["first"]["op_name"]
    stats = json.loads(run_in(place, None, CLI, "stats", "nan", "--step", "1", "--json").stdout)["tensors"]
    rows = file.json("tensors?graph=0&rank=0&step=1")["rows"]
    assert [(row["op_name"], row["side"], row["slot"], row["max"]) for row in rows] == [
        (row["op_name"], row["side"], row["slot"], row["max"]) for row in stats
    ]
    assert len(file.keys("op")) == len({(row["op_name"], row["step"]) for row in rows}) + sum(
        len(file.json(key)["rows"]) for key in file.keys("ops") if key.endswith("step=0")
    )
    assert any("nan" in file.raw(key).decode(errors="replace") for key in file.keys("tensor/next"))
    assert file.keys("tensor/values") and file.keys("tensor/heat") and file.keys("tensor/histogram")


def test_its_policy_lets_it_ask_nobody(report):
    page = report("policy").file.bytes.decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    for part in ("default-src 'none'", "connect-src 'none'", "script-src 'sha256-", "worker-src blob:"):
        assert part in policy
    assert "unsafe" not in policy
    without = ELEMENT.sub("", page)
    assert not re.search(r'(?:src|href)="(?!data:)', without)


def test_what_has_no_room_is_left_out_and_said(report):
    refused = report("no room", "--max-size", "100K")
    page = float(re.search(r"the page alone has (\d+\.\d) kB", refused.stderr)[1])
    room = int(page * 1000)  # it is the page before it is packed
    run = report("small", "--max-size", str(room), "--json")
    assert run.status == 0, run.stderr
    assert len(run.file.bytes) <= room
    document = json.loads(run.stdout)
    assert document["bytes"] == len(run.file.bytes)
    left_out = {entry["what"]: entry["count"] for entry in document["left_out"]}
    assert left_out["operators"] > 20
    assert run.file.about["left_out"] == document["left_out"]
    assert run.file.keys("overview") and run.file.keys("op")


def test_a_redacted_one_has_no_name_of_the_dump(report, place):
    run = report("redacted", "--redact", "--golden", "again", "--values", "selected")
    assert run.status == 0, run.stderr
    text = run.file.data.decode(errors="replace").replace(run.file.raw("worker.js?").decode(), "")
    text += json.dumps(run.file.contents)
    described = json.loads(run_in(place, None, CLI, "ls", "nan", "--ops", "--json").stdout)
    names = {part for op in described["ops"] for part in op["op_name"].split("/") if "-op" not in part}
    names |= {"Small", "train.py", str(place), place.name, "conv.weight", "torch.log", sys.executable}
    assert len(names) > 8
    for name in names:
        assert not re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text), name
    assert "log-op0" in text
    assert run.file.json("status?")["dumps"][0]["name"] not in ("nan", "")
    assert not run.file.keys("tensor/values") and not run.file.keys("source") and not run.file.keys("tensor/histogram")


def test_chosen_steps_operators_and_values(report):
    run = report("chosen", "--step", "2", "-s", "**/conv2d*", "--values", "selected")
    assert run.status == 0, run.stderr
    assert run.file.about["steps"] == [2]
    assert any("conv2d" in key for key in run.file.keys("tensor/values"))
    assert any("step=2" in key and "conv2d" in key for key in run.file.keys("op"))
    assert not any("relu" in key for key in run.file.keys("op") if "step=2" in key)
    none = report("none", "--values", "none")
    assert not [key for key in none.file.contents["answers"] if key.startswith("tensor/")]


def test_layouts_of_others(tmp_path):
    names = sorted({*TREES.values(), "graph-only"})
    done = run_in(tmp_path, None, sys.executable, "-c", RECORD, pathlib.Path(__file__).parent, tmp_path, *names)
    assert done.status == 0, done.stderr
    for name in names:
        dump = tmp_path / name.replace(".", "_") / "dump"
        path = tmp_path / f"{name}.html"
        run = run_in(tmp_path, None, CLI, "report", dump, "--html", path)
        assert run.status == 0, (name, run.stderr)
        assert File(path).keys("overview"), name


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["nan", "--html", "there.html"], 2, "cannot write 'there.html': File exists"),
        (["nowhere", "--html", "x.html"], 3, "cannot open dump 'nowhere': no such directory"),
        (["nan", "--golden", "nowhere", "--html", "x.html"], 3, "cannot open dump 'nowhere'"),
        (["nothing", "--html", "x.html"], 3, "found 0 files"),
        (["nan", "--html", "no/x.html"], 2, "cannot write 'no/x.html': No such file or directory"),
        (["nan", "--html", "x.html", "--max-size", "101M"], 2, "--max-size '101M': expected a size up to 100M"),
        (["nan", "--html", "x.html", "--max-size", "big"], 2, "--max-size 'big': expected a size"),
        (["nan", "--html", "x.html", "--max-size", "10K"], 2, "--max-size: the page alone has"),
        (["nan", "--html", "x.html", "--step", "7"], 2, "the dump has no such step"),
        (["nan", "--html", "x.html", "-s", "nothing"], 2, "--select 'nothing': no operator"),
        (["nan", "--html", "x.html", "--values", "all"], 2, "--values"),
        (["nan"], 2, "--html is required"),
    ],
)
def test_bad_input(place, options, status, message):
    (place / "there.html").touch()
    (place / "nothing").mkdir(exist_ok=True)
    run = run_in(place, None, CLI, "report", *options)
    assert (run.status, run.stdout) == (status, "")
    assert message in run.stderr
    assert not (place / "x.html").exists()


def test_a_file_that_cannot_be_written_whole_is_removed(place):
    limited = "trap '' XFSZ; ulimit -f 100; exec \"$@\""
    run = run_in(place, None, "sh", "-c", limited, "sh", CLI, "report", "nan", "--html", "x.html", "--values", "none")
    assert (run.status, run.stdout) == (2, "")
    assert "cannot write 'x.html': File too large" in run.stderr
    assert not (place / "x.html").exists()
