"""Ranks that a dump lacks, that another version of Sonde recorded, or that are cut off: each verb says so in a line,
with and without an engine, and answers about the others."""

import json
import os
import shutil
import struct
import sys

import journal_reader
import pytest
from processes import CLI, run_in
from rank_work import aged, python_says, said

WORLD = 4
LACKS = "the dump lacks {}: what was computed there is not known"
VERSIONS = (
    "different versions of Sonde recorded the ranks: {} ranks 0, 2-3, 9.9.9 rank 1; they may name and record operators "
    "otherwise"
)
PROGRAM = """
import torch
net = torch.nn.Linear(2, 2)
for step in range(2):
    loss = net(torch.ones(3, 2)).sum()
    loss.backward()
"""


def journal_of(directory):
    return directory / ".dump_metadata/sonde/journal"


def rewritten(journal, **facts):
    """The first entry of a journal, with other facts about its run."""
    data = journal.read_bytes()
    begin = journal_reader.HEADER_BYTES
    _, length, kind = struct.unpack_from("<IIB", data, begin)
    end = begin + journal_reader.ENTRY_BYTES + length
    run = json.loads(data[end - length : end]) | facts
    payload = json.dumps({key: value for key, value in run.items() if value is not None}).encode()
    entry = struct.pack("<IB", len(payload), kind) + payload
    journal.write_bytes(data[:begin] + struct.pack("<I", journal_reader.xxh32(entry)) + entry + data[end:])
    return run


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    directory = tmp_path_factory.mktemp("one")
    (directory / "train.py").write_text(PROGRAM)
    run = run_in(directory, None, CLI, "run", "--out", "one", "--", sys.executable, "train.py", WORLD_SIZE=WORLD)
    assert run.status == 0, run.stderr
    return directory / "one/rank_0"


def dump_of(one, place, ranks, **facts):
    for rank in ranks:
        shutil.copytree(one, place / f"rank_{rank}")
        rewritten(journal_of(place / f"rank_{rank}"), rank=rank, **facts)
    return aged(place)


@pytest.fixture(scope="module")
def whole(one, tmp_path_factory):
    return dump_of(one, tmp_path_factory.mktemp("whole") / "dump", range(WORLD))


VERBS = {
    "ls": ["ls"],
    "stats": ["stats"],
    "watch": ["watch", "-c", "tensor_overflow"],
    "first-bad": ["first-bad"],
    "verify": ["verify"],
    "index": ["index"],
    "compare": ["compare", "GOLDEN"],
    "export": ["export", "--to", "TABLE"],
}
CALLS = [
    pytest.param((verb, *options), id=f"{verb} {' '.join(options)}".strip())
    for verb in VERBS
    for options in ([], ["--engine", "local"])
    if verb != "ls" or not options
]


def asked(verb, dump, golden, place, *options):
    """The status of a verb, its output, and its lines on stderr."""
    words = [{"GOLDEN": golden, "TABLE": place / "table.npz"}.get(word, word) for word in VERBS[verb]]
    status, out, error = said(place, words[0], dump, *words[1:], *options)
    return status, out, [line.removeprefix("sonde: warning: ") for line in error.splitlines()]


def notes_of(lines):
    return [line for line in lines if "lacks" in line or "versions" in line]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("lacking", [((0, 1, 3), "rank 2"), ((0, 1), "ranks 2-3"), ((1, 2), "ranks 0, 3")], ids=str)
def test_missing_ranks_are_a_line_and_no_failure(one, whole, tmp_path, call, lacking):
    ranks, named = lacking
    dump = dump_of(one, tmp_path / "dump", ranks)
    verb, *options = call
    healthy = asked(verb, whole, whole, tmp_path, *options)
    found = asked(verb, dump, whole, tmp_path, *options)
    assert notes_of(healthy[2]) == []
    assert notes_of(found[2]) == [LACKS.format(named)]
    assert found[0] == healthy[0] == 0


@pytest.mark.parametrize("call", CALLS)
def test_ranks_of_different_versions_are_a_line_and_no_failure(one, whole, tmp_path, call):
    dump = dump_of(one, tmp_path / "dump", range(WORLD))
    own = rewritten(journal_of(dump / "rank_1"), sonde="9.9.9")
    assert own["sonde"] == "9.9.9"
    version = rewritten(journal_of(dump / "rank_0"))["sonde"]
    aged(dump)
    status, _, lines = asked(call[0], dump, whole, tmp_path, *call[1:])
    assert (status, notes_of(lines)) == (0, [VERSIONS.format(version)])


@pytest.mark.parametrize("call", CALLS)
def test_a_rank_that_is_cut_off_is_named(one, whole, tmp_path, call):
    dump = dump_of(one, tmp_path / "dump", range(WORLD))
    journal = journal_of(dump / "rank_2")
    os.truncate(journal, journal.stat().st_size * 3 // 4)
    aged(dump)
    verb, *options = call
    status, out, lines = asked(verb, dump, whole, tmp_path, *options)
    text = "\n".join([out, *lines])
    assert "rank_2/.dump_metadata/sonde/journal" in text or "rank 2 was killed" in text
    assert status == {"verify": 1, "index": 0}.get(verb, 3)


@pytest.mark.parametrize("facts", [{"world_size": None}, {"world_size": 1}, {"world_size": "many"}], ids=str)
def test_journals_that_do_not_say_how_many_there_were(one, tmp_path, facts):
    dump = dump_of(one, tmp_path / "dump", range(3), **facts)
    for verb in ("ls", "verify", "first-bad"):
        assert asked(verb, dump, dump, tmp_path)[2] == []


@pytest.mark.parametrize("verb", ["ls", "stats", "first-bad", "watch", "verify", "compare", "export"])
def test_a_question_about_one_rank_or_inside_it_does_not_ask_for_others(one, whole, tmp_path, verb):
    dump = dump_of(one, tmp_path / "dump", (0, 1))
    assert notes_of(asked(verb, dump, whole, tmp_path, "--rank", "1")[2]) == []
    if verb != "compare":
        assert notes_of(asked(verb, dump / "rank_1", whole, tmp_path)[2]) == []


@pytest.mark.parametrize("verb", ["ls", "stats", "watch", "verify", "index", "export"])
def test_the_document_has_the_line_too(one, whole, tmp_path, verb):
    dump = dump_of(one, tmp_path / "dump", (0, 1))
    status, out, _ = asked(verb, dump, whole, tmp_path, "--json")
    assert status == 0
    assert json.loads(out)["warnings"] == [LACKS.format("ranks 2-3")]


def test_an_index_keeps_how_many_there_were(one, tmp_path):
    dump = dump_of(one, tmp_path / "dump", (0, 1))
    line = LACKS.format("ranks 2-3")
    assert asked("index", dump, dump, tmp_path)[2] == [line]
    assert asked("ls", dump, dump, tmp_path)[2] == [line]
    assert asked("first-bad", dump, dump, tmp_path)[2] == [line]
    assert asked("compare", dump, dump, tmp_path)[2] == [line]


ASKED = """
import concurrent.futures, json, sys
import sonde

dump, whole = sys.argv[1:]
found = {"open": sonde.open(dump).notes, "whole": sonde.open(whole).notes}
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for engine in (None, "local", pool):
        name = type(engine).__name__
        found[name] = [
            sonde.first_bad(dump, engine=engine).notes,
            sonde.watch(dump, "tensor_overflow", engine=engine).notes,
            sonde.compare(dump, whole, engine=engine).notes,
            sonde.compare(whole, dump, engine=engine).notes,
            sonde.verify(dump, engine=engine).warnings,
        ]
print(json.dumps(found))
"""


def test_python_says_it_as_the_command_does(one, whole, tmp_path):
    dump = dump_of(one, tmp_path / "dump", (0, 1))
    found = json.loads(python_says(tmp_path, ASKED, dump, whole)[0])
    line = LACKS.format("ranks 2-3")
    assert (found.pop("open"), found.pop("whole")) == ([line], [])
    assert len(found) == 3
    for answers in found.values():
        first_bad, watch, target, golden, verify = (notes_of(notes) for notes in answers)
        assert [first_bad, watch, target, verify] == [[line]] * 4
        assert golden == [f"golden: {line}"]
