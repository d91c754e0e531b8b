"""`sonde verify` of ranks apart, in any split and by any engine, gives the answer of one process, byte for byte."""

import json
import os
import random
import shutil

import pytest
import ranks
from rank_work import (
    CLUSTERS,
    TRAINING,
    aged,
    grown,
    on_engine,
    program_of,
    python_says,
    random_parts,
    said,
    said_after_a_kill,
)

QUESTIONS = [[], ["--json"], ["--hashes"], ["--hashes", "--json"], ["--rank", "1", "--json"], ["--ranks", "--json"]]
PROGRAM = program_of("sonde.verify(dump, hashes=True, engine=engine)", "*.part")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    return ranks.run_ranks(directory, TRAINING, saved_data="full", iteration="all").dump


def first_file(rank, pattern):
    return sorted(path for path in rank.rglob(pattern) if path.stat().st_size > 0)[0]


def damage(dump):
    """Each rank in another way; the fifth and others are whole."""
    first_file(dump / "rank_0", "*.npy").unlink()
    journal = dump / "rank_2/.dump_metadata/sonde/journal"
    os.truncate(journal, journal.stat().st_size - 100)
    values = first_file(dump / "rank_3", "*.npy")
    values.chmod(0o600)
    values.write_bytes(values.read_bytes()[:-4] + b"\0\0\xc0\x7f")
    table = first_file(dump / "rank_4", "statistic.csv")
    os.truncate(table, table.stat().st_size - 7)
    table.chmod(0o666)
    empty = dump / "rank_6/.dump_metadata/sonde/journal"
    os.truncate(empty, 0)
    leftover = dump / "rank_1/.dump_metadata/sonde/partial"
    leftover.mkdir(exist_ok=True)
    (leftover / "3").write_bytes(b"x")
    return aged(dump)


@pytest.fixture(scope="module")
def dump(two, tmp_path_factory):
    return damage(grown(two, tmp_path_factory.mktemp("grown") / "dump", 9))


def asked(cache, dump, *options):
    return [said(cache, "verify", dump, *one, *options) for one in QUESTIONS]


@pytest.fixture(scope="module")
def answers(dump, tmp_path_factory):
    """Of one process."""
    found = asked(tmp_path_factory.mktemp("none"), dump)
    assert [status for status, _, _ in found] == [1] * len(QUESTIONS)
    text = found[2][1]
    assert all(word in text for word in ("damaged", "missing", "torn", "leftover", "permission", "cut off")), text
    return found


def test_ranks_one_after_the_other_give_what_the_whole_dump_gives(answers):
    """The collectives of the ranks are compared in a catalog of all of them."""
    alone, whole = (
        json.loads(answers[QUESTIONS.index(question)][1]) for question in (["--json"], ["--ranks", "--json"])
    )
    of_ranks = ("is of rank", "calls were not compared")
    assert whole.pop("collectives") > 0
    whole["issues"] = [
        one for one in whole["issues"] if one["kind"] != "collective" and not any(s in one["message"] for s in of_ranks)
    ]
    whole["problems"] = [one for one in whole["problems"] if not any(s in one["message"] for s in of_ranks)]
    assert len(alone["issues"]) > 6
    assert alone == whole


def verified(cache, dump, directories, parts, *options):
    chosen = [word for directory in directories for word in ("--dir", directory)]
    assert said(cache, "verify", dump, *chosen, "--out", parts, *options) == (0, "", "")


@pytest.mark.parametrize("seed", range(3))
def test_any_split_of_the_ranks_gives_the_answer_of_one_process(dump, answers, tmp_path, seed):
    chance = random.Random(seed)
    for question, alone in zip(QUESTIONS, answers, strict=True):
        parts, options = tmp_path / "-".join(["parts", *question]), [one for one in question if one != "--json"]
        stale = said(tmp_path, "verify", dump, *options, "--parts", parts, "--stale")[1].split()
        assert sorted(stale) == sorted(path.name for path in dump.iterdir())
        for part in random_parts(chance, stale):
            verified(tmp_path, dump, part, parts, *options)
        assert said(tmp_path, "verify", dump, *options, "--parts", parts, "--stale")[1] == ""
        assert said(tmp_path, "verify", dump, *question, "--parts", parts) == alone


def test_the_answer_of_parts_reads_no_rank(dump, answers, tmp_path):
    verified(tmp_path, dump, [path.name for path in dump.iterdir()], tmp_path / "parts")
    hidden = dump / "rank_5/Net"
    tensors = next(path for path in (dump / "rank_5").iterdir() if path.is_dir() and not path.name.startswith("."))
    moved = tensors.rename(tmp_path / hidden.name)
    try:
        assert said(tmp_path, "verify", dump, "--parts", tmp_path / "parts") == answers[0]
    finally:
        moved.rename(tensors)


def test_a_part_that_does_not_fit_is_not_used(dump, answers, tmp_path):
    parts = tmp_path / "parts"
    verified(tmp_path, dump, ["rank_0", "rank_1"], parts)  # without --hashes
    verified(tmp_path, dump, ["rank_2", "rank_3"], parts, "--hashes")
    (parts / "rank_3.part").write_bytes((parts / "rank_2.part").read_bytes())  # of another rank
    (parts / "rank_4.part").write_bytes(b"\xa3nonsense")
    (parts / "rank_5.part").write_bytes((parts / "rank_2.part").read_bytes()[:-9])
    status, out, error = said(tmp_path, "verify", dump, "--hashes", "--parts", parts)
    assert (status, out) == answers[2][:2]
    assert f"'{parts}' lacks 8 ranks as the dump is now" in error


def test_a_rank_that_changed_is_verified_again(two, tmp_path):
    dump, parts = grown(two, tmp_path / "dump", 3), tmp_path / "parts"
    verified(tmp_path, dump, ["rank_0", "rank_1", "rank_2"], parts)
    os.truncate(dump / "rank_1/.dump_metadata/sonde/journal", 5000)
    assert said(tmp_path, "verify", dump, "--parts", parts, "--stale")[1] == "rank_1\n"
    alone = said(tmp_path, "verify", dump, "--json")
    assert said(tmp_path, "verify", dump, "--json", "--parts", parts)[:2] == alone[:2]


def test_ranks_below_other_directories_are_told_apart(two, tmp_path):
    for name in ("morning", "a/b c"):
        grown(two, tmp_path / "dumps" / name, 2)
    alone = said(tmp_path, "verify", tmp_path / "dumps", "--json")
    assert '"dump": "a/b c"' in alone[1]
    assert said(tmp_path, "verify", tmp_path / "dumps", "--json", "--engine", "local") == alone


def test_a_dump_without_journals_is_verified_by_one_process(two, tmp_path):
    dump = grown(two, tmp_path / "dump", 3)
    shutil.rmtree(dump / "rank_1/.dump_metadata")
    alone = said(tmp_path, "verify", dump, "--json")
    assert said(tmp_path, "verify", dump, "--json", "--engine", "local")[:2] == alone[:2]


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_the_local_engine_gives_the_answer_of_one_process(dump, answers, tmp_path, question):
    alone = answers[QUESTIONS.index(question)]
    assert said(tmp_path, "verify", dump, *question, "--engine", "local") == alone


def test_a_killed_process_of_the_local_engine_is_replaced(two, tmp_path):
    dump = grown(two, tmp_path / "dump", 24)
    alone = said(tmp_path, "verify", dump, "--json")
    status, out, error = said_after_a_kill(tmp_path, "verify", dump, "--json", "--engine", "local")
    assert "signal 9 ended the process that was verifying rank rank_" in error
    assert (status, out) == alone[:2]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--dir", "rank_99", "--out", "parts"], 2, "has no rank in 'rank_99'"),
        (["--dir", "rank_0"], 2, "--out"),
        (["--dir", "rank_0", "--out", "parts", "--complete"], 2, "--complete"),
        (["--stale"], 2, "--parts"),
        (["--engine", "spark"], 2, "ray"),
        (["--dir", "rank_0", "--out", "/dev/null/parts"], 3, "/dev/null"),
    ],
)
def test_wrong_options_are_named(dump, tmp_path, arguments, status, words):
    found = said(tmp_path, "verify", dump, *arguments)
    assert found[0] == status
    assert words in found[2]


# --- Python ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(two, tmp_path_factory):
    return damage(grown(two, tmp_path_factory.mktemp("many") / "dump", 20))


@pytest.fixture(scope="module")
def python_answer(many, tmp_path_factory):
    cache = tmp_path_factory.mktemp("alone")
    found = python_says(cache, PROGRAM + "print(answer(sys.argv[1], None))", many)[0]
    assert "things wrong" in found
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_an_executor_gives_the_answer_of_one_process(many, python_answer, tmp_path, killed):
    assert python_says(tmp_path, on_engine("executor", killed, PROGRAM), many)[0] == python_answer


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("engine", CLUSTERS)
def test_a_cluster_gives_the_answer_of_one_process(many, python_answer, tmp_path, engine, killed):
    assert python_says(tmp_path, on_engine(engine, killed, PROGRAM), many)[0] == python_answer


def test_python_compares_collectives_and_takes_a_rank(many, tmp_path):
    source = "print(json.dumps(sonde.verify(sys.argv[1], ranks=True, rank=1, engine='local').document))"
    found = python_says(tmp_path, PROGRAM + source, many)[0]
    assert found == python_says(tmp_path, PROGRAM + source.replace("'local'", "None"), many)[0]
    assert '"collectives": ' in found


def test_python_refuses_what_is_not_there(many, tmp_path):
    source = """
opened = sonde.open(sys.argv[1])
for dump, engine in (("/nowhere", None), (opened, None), (sys.argv[1], "spark"), ("s3://bucket/run", "ray")):
    try:
        sonde.verify(dump, engine=engine)
    except (sonde.Error, ValueError) as error:
        print(type(error).__name__, error, end="; ")
print()
"""
    found = python_says(tmp_path, PROGRAM + source, many)[0]
    assert "Error cannot open dump '/nowhere'" in found
    assert "ValueError verify() needs the path of a dump" in found
    assert "ValueError engine 'spark' does not exist" in found
    assert "`sonde gather` copies one" in found
