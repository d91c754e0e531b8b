"""`sonde first-bad` of ranks apart, in any split and by any engine, gives the answer of one process, byte for byte."""

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
from test_first_bad_origins import PIPELINE, SHARDED

MASKED = (
    ranks.DISTRIBUTED
    + """
    for step in range(3):
        scores = net(torch.randn(3, 2)).masked_fill(torch.tensor([[False, True]] * 3), float("-inf"))
        loss = scores.softmax(-1).sum() + scores[:, 1].exp().sum()
        print(float("nan") * loss.detach())
        optimizer.zero_grad()
        loss.backward()
        if step == 2 and rank == 0:
            net.weight.grad.div_(0)
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
    """
)

# The ranks of a data-parallel training, of a pipeline, and of one that is sharded; or all is well for two steps, with
# infinities that a mask removes.
PROGRAMS = {"data": TRAINING, "pipeline": PIPELINE, "sharded": SHARDED, "masked": MASKED}
QUESTIONS = [[], ["--json"], ["--json", "--rank", "1"], ["--json", "--step", "0-1"], ["--json", "--step", "2"]]


@pytest.fixture(scope="module", params=PROGRAMS)
def two(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    run = ranks.run_ranks(directory, PROGRAMS[request.param], saved_data="statistic", iteration="all")
    assert run.status == 0, run.stderr
    return run.dump


@pytest.fixture(scope="module")
def dump(two, tmp_path_factory):
    return grown(two, tmp_path_factory.mktemp("grown") / "dump", 6)


def asked(cache, dump, *options, index="off"):
    return [said(cache, "first-bad", dump, *one, *options, index=index) for one in QUESTIONS]


@pytest.fixture(scope="module")
def answers(dump, tmp_path_factory):
    """Of one process that reads the dump itself."""
    found = asked(tmp_path_factory.mktemp("none"), dump)
    assert found[0][0] == 1, found[0]
    return found


def searched(cache, dump, directories, parts, *options):
    chosen = [word for directory in directories for word in ("--dir", directory)]
    assert said(cache, "first-bad", dump, *chosen, "--out", parts, *options) == (0, "", "")


@pytest.mark.parametrize("seed", range(2))
def test_any_split_of_the_ranks_gives_the_answer_of_one_process(dump, answers, tmp_path, seed):
    chance = random.Random(seed)
    if seed:
        assert said(tmp_path, "index", dump, "--engine", "local")[0] == 0
    for question, alone in zip(QUESTIONS, answers, strict=True):
        parts, options = tmp_path / "-".join(["parts", *question]), [one for one in question if one != "--json"]
        stale = said(tmp_path, "first-bad", dump, *options, "--parts", parts, "--stale")[1].split()
        assert sorted(stale) == sorted(path.name for path in dump.iterdir())
        for part in random_parts(chance, stale):
            searched(tmp_path, dump, part, parts, *options)
        assert said(tmp_path, "first-bad", dump, *options, "--parts", parts, "--stale")[1] == ""
        assert said(tmp_path, "first-bad", dump, *question, "--parts", parts) == alone


def test_the_local_engine_gives_the_answers_of_one_process(dump, answers, tmp_path):
    assert asked(tmp_path, dump, "--engine", "local", index="auto") == answers
    assert not list(tmp_path.rglob("*.sqlite"))  # the journal of a rank takes a quarter of the time of its index
    assert said(tmp_path, "index", dump, "--engine", "local")[0] == 0
    assert asked(tmp_path, dump, "--engine", "local", index="auto") == answers
    assert asked(tmp_path, dump, index="auto") == answers


def test_the_suspects_of_parts_are_recorded_next_as_those_of_one_process(dump, tmp_path):
    alone, joined = tmp_path / "alone.json", tmp_path / "joined.json"
    said(tmp_path, "first-bad", dump, "--next-config", alone, index="off")
    said(tmp_path, "first-bad", dump, "--next-config", joined, "--engine", "local")
    assert joined.read_text() == alone.read_text()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return ranks.run_ranks(tmp_path_factory.mktemp("data"), TRAINING, saved_data="statistic", iteration="all").dump


def test_a_part_that_does_not_fit_is_not_used(data, tmp_path):
    dump, parts = grown(data, tmp_path / "dump", 6), tmp_path / "parts"
    alone = said(tmp_path, "first-bad", dump, "--json", index="off")
    searched(tmp_path, dump, ["rank_0", "rank_1"], parts, "--step", "0-2")
    searched(tmp_path, dump, ["rank_2", "rank_3"], parts)
    (parts / "rank_3.part").write_bytes((parts / "rank_2.part").read_bytes())  # of another rank
    (parts / "rank_4.part").write_bytes(b"\xa3nonsense")
    (parts / "rank_5.part").write_bytes((parts / "rank_2.part").read_bytes()[:-9])
    status, out, error = said(tmp_path, "first-bad", dump, "--json", "--parts", parts)
    assert (status, out) == alone[:2]
    assert f"'{parts}' lacks 5 ranks as the dump is now" in error


def test_a_rank_that_is_cut_off_is_searched_again(data, tmp_path):
    dump, parts = grown(data, tmp_path / "dump", 3), tmp_path / "parts"
    searched(tmp_path, dump, ["rank_0", "rank_1", "rank_2"], parts)
    os.truncate(dump / "rank_1/.dump_metadata/sonde/journal", 9000)
    assert said(tmp_path, "first-bad", dump, "--parts", parts, "--stale")[1] == "rank_1\n"
    alone = said(tmp_path, "first-bad", dump, "--json", index="off")
    assert said(tmp_path, "first-bad", dump, "--json", "--parts", parts)[:2] == alone[:2]


def test_ranks_below_other_directories_are_told_apart(data, tmp_path):
    for name in ("morning", "a/b c"):
        aged(grown(data, tmp_path / "dumps" / name, 2))
    alone = said(tmp_path, "first-bad", tmp_path / "dumps", "--json", index="off")
    assert '"dump": "a/b c"' in alone[1]
    assert said(tmp_path, "first-bad", tmp_path / "dumps", "--json", "--engine", "local") == alone


def test_a_dump_without_journals_is_searched_by_one_process(data, tmp_path):
    dump = grown(data, tmp_path / "dump", 3)
    shutil.rmtree(dump / "rank_1/.dump_metadata")
    alone = said(tmp_path, "first-bad", dump, "--json", index="off")
    assert said(tmp_path, "first-bad", dump, "--json", "--engine", "local")[:2] == alone[:2]


def test_a_killed_process_of_the_local_engine_is_replaced(data, tmp_path):
    dump = grown(data, tmp_path / "dump", 24)
    assert said(tmp_path, "index", dump, "--engine", "local")[0] == 0
    alone = said(tmp_path, "first-bad", dump, "--json", index="off")
    status, out, error = said_after_a_kill(tmp_path, "first-bad", dump, "--json", "--engine", "local")
    assert "signal 9 ended the process that was searching rank rank_" in error
    assert (status, out) == alone[:2]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--dir", "rank_99", "--out", "parts"], 2, "has no rank in 'rank_99'"),
        (["--dir", "rank_0"], 2, "--out"),
        (["--stale"], 2, "--parts"),
        (["--step", "77", "--engine", "local"], 2, "no step 77"),
        (["--dir", "rank_0", "--out", "/dev/null/parts"], 3, "/dev/null"),
    ],
)
def test_wrong_options_are_named(data, tmp_path, arguments, status, words):
    found = said(tmp_path, "first-bad", data, *arguments)
    assert found[0] == status
    assert words in found[2]


ASKED = """
import concurrent.futures, json, sys
import sonde

def answer(dump, engine, **question):
    try:
        found = sonde.first_bad(dump, engine=engine, **question)
    except (sonde.Error, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return str(found) + json.dumps(dict(found.document))

for question in ({}, {"rank": 1}, {"step": [0, 1]}, {"no_trend": True}, {"step": "no"}, {"rank": 99}):
    alone = answer(sys.argv[1], None, **question)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for engine in ("local", pool):
            assert answer(sys.argv[1], engine, **question) == alone, question
print(answer("/nowhere", "local"), answer(sonde.open(sys.argv[1]), "local"))
"""


def test_python_searches_the_ranks_side_by_side(dump, tmp_path):
    said_of_it, printed = python_says(tmp_path, ASKED, dump)
    assert said_of_it.startswith("Error: cannot open dump '/nowhere'")
    assert "ValueError: engine= needs the path of a dump" in said_of_it
    assert printed == ""


PROGRAM = program_of("sonde.first_bad(dump, engine=engine)", "*.part")


@pytest.fixture(scope="module")
def many(data, tmp_path_factory):
    return grown(data, tmp_path_factory.mktemp("many") / "dump", 40)


@pytest.fixture(scope="module")
def python_answer(many, tmp_path_factory):
    found = python_says(tmp_path_factory.mktemp("alone"), PROGRAM + "print(answer(sys.argv[1], None))", many)[0]
    assert "rank 1" in found
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_an_executor_gives_the_answer_of_one_process(many, python_answer, tmp_path, killed):
    assert python_says(tmp_path, on_engine("executor", killed, PROGRAM), many)[0] == python_answer
    assert not list(tmp_path.rglob("*.sqlite"))


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("engine", CLUSTERS)
def test_a_cluster_gives_the_answer_of_one_process(many, python_answer, tmp_path, engine, killed):
    assert python_says(tmp_path, on_engine(engine, killed, PROGRAM), many)[0] == python_answer
