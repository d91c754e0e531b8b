"""Ranks that are indexed apart, in any split and by any engine, give the answers of one process that reads the dump."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time

import conftest
import pytest
import ranks
from rank_work import (
    CLUSTERS,
    TRAINING,
    environment,
    grown,
    needs,
    on_engine,
    program_of,
    python_says,
    random_parts,
    said,
    said_after_a_kill,
)

PROGRAM = program_of("sonde.watch(dump, 'tensor_overflow', engine=engine)", "*.sqlite")

QUESTIONS = [
    ["first-bad"],
    ["first-bad", "--json"],
    ["first-bad", "--json", "--rank", "1"],
    ["first-bad", "--json", "--step", "0-2"],
    ["stats"],
    ["stats", "--jsonl", "--step", "1"],
    ["stats", "-s", "**/addmm*"],
    ["stats", "-s", "no_such_op"],
    ["watch", "-c", "tensor_overflow"],
    ["watch", "--json", "-c", "tensor_too_large:abs_mean_gt=0"],
    ["compare", "--golden-step", "1", "--json", "--step", "0"],
    ["ls"],
    ["ls", "--ops"],
    ["ls", "--ops", "--step", "3"],
    ["graph", "--json"],
]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    run = ranks.run_ranks(directory, TRAINING, saved_data="statistic", iteration="all")
    return run.dump


@pytest.fixture(scope="module")
def dump(two, tmp_path_factory):
    return grown(two, tmp_path_factory.mktemp("grown") / "dump", 7)


def asked(cache, dump, index="auto"):
    return [said(cache, one[0], dump, *one[1:], index=index) for one in QUESTIONS]


def stale(cache, dump):
    return said(cache, "index", dump, "--stale")[1].split()


@pytest.fixture(scope="module")
def answers(dump, tmp_path_factory):
    """Of one process that reads the dump itself."""
    found = asked(tmp_path_factory.mktemp("none"), dump, index="off")
    assert "rank 1" in found[0][1]
    assert all(status != 3 for status, _, _ in found), found
    return found


@pytest.mark.parametrize("seed", range(3))
def test_any_split_of_the_ranks_gives_the_answers_of_one_process(dump, answers, tmp_path, seed):
    chance = random.Random(seed)
    directories = stale(tmp_path, dump)
    assert len(directories) == 7
    for part in random_parts(chance, directories):
        chosen = [word for directory in part for word in ("--dir", directory)]
        assert said(tmp_path, "index", dump, *chosen)[0] == 0
    assert stale(tmp_path, dump) == []
    assert asked(tmp_path, dump) == answers


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_verbs_read_the_indices_and_not_the_journals(dump, tmp_path):
    assert said(tmp_path, "index", dump, "--engine", "local")[0] == 0
    traced = subprocess.run(
        ["strace", "-f", "-e", "trace=openat", conftest.CLI, "first-bad", str(dump)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "sonde/index" in traced.stderr
    assert "sonde/journal" not in traced.stderr


def test_a_rank_that_changed_is_indexed_again_alone(two, tmp_path):
    dump = grown(two, tmp_path / "dump", 4)
    first = said(tmp_path, "index", dump, "--engine", "local", "--json")
    assert first[0] == 0, first
    made = json.loads(first[1])
    assert made["ranks"] == [f"rank_{rank}" for rank in range(4)] and made["bytes"] > 0
    journal = dump / "rank_2/.dump_metadata/sonde/journal"
    os.utime(journal, (time.time() - 600,) * 2)
    assert stale(tmp_path, dump) == ["rank_2"]
    # The others answer still, with the journal of this one.
    assert asked(tmp_path, dump) == asked(tmp_path, dump, index="off")
    files = {path.name: path.stat().st_ino for path in tmp_path.rglob("*.sqlite")}
    assert "1 rank of" in said(tmp_path, "index", dump, "--engine", "local")[1]
    changed = {path.name for path in tmp_path.rglob("*.sqlite") if files[path.name] != path.stat().st_ino}
    assert [name.split("-")[0] for name in changed] == ["rank_2"]


def test_the_index_of_another_rank_is_not_taken_for_this_one(dump, answers, tmp_path):
    assert said(tmp_path, "index", dump, "--engine", "local")[0] == 0
    by_rank = {path.name.split("-")[0]: path for path in tmp_path.rglob("*.sqlite")}
    by_rank["rank_2"].write_bytes(by_rank["rank_1"].read_bytes())
    assert stale(tmp_path, dump) == ["rank_2"]
    assert asked(tmp_path, dump)[1] == answers[1]


@pytest.mark.parametrize("gone", [False, True])
def test_what_killed_builders_left_goes_and_the_indices_of_a_dump_that_is_gone(two, tmp_path, gone):
    dump, other = (grown(two, tmp_path / name, 2) for name in ("dump", "other"))
    assert said(tmp_path, "index", dump, "--engine", "local")[0] == 0
    (ranks,) = tmp_path.rglob("*.ranks")
    for path in list(ranks.iterdir()):  # whichever comes first in a list of the directory
        for name in range(8):
            (ranks / f"{name}{path.name}.x.partial").touch()
    new = ranks / "new.partial"
    new.touch()
    for path in set(ranks.glob("*.partial")) - {new}:
        os.utime(path, (time.time() - 90_000,) * 2)
    if gone:
        shutil.rmtree(dump)
    assert said(tmp_path, "index", other)[0] == 0
    left = sorted(path.name for path in ranks.iterdir()) if ranks.exists() else []
    assert [name.split("-")[0] for name in left] == ([] if gone else ["new.partial", "rank_0", "rank_1"])


def test_a_directory_without_a_rank_is_refused_with_a_cure(dump, tmp_path):
    status, _, error = said(tmp_path, "index", dump, "--dir", "rank_99")
    assert status == 2
    assert "rank_99" in error
    assert "--stale" in error


@pytest.mark.parametrize("verb", [["stats", "--json"], ["watch", "-c", "tensor_overflow"]])
def test_the_local_engine_gives_the_answer_of_one_process(dump, tmp_path, verb):
    alone = said(tmp_path, verb[0], dump, *verb[1:], index="off")
    assert said(tmp_path, verb[0], dump, *verb[1:], "--engine", "local") == alone
    # To search a journal is cheaper than to make its index.
    assert len(stale(tmp_path, dump)) == (7 if verb[0] == "first-bad" else 0)


def test_a_killed_process_of_the_local_engine_is_replaced(two, tmp_path):
    dump = grown(two, tmp_path / "dump", 40)
    alone = said(tmp_path, "stats", dump, "--json", index="off")
    status, out, error = said_after_a_kill(tmp_path, "stats", dump, "--json", "--engine", "local")
    assert "signal 9 ended the process that was indexing rank rank_" in error
    assert (status, out) == alone[:2]
    assert stale(tmp_path, dump) == []


# --- Python ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(two, tmp_path_factory):
    return grown(two, tmp_path_factory.mktemp("many") / "dump", 40)


@pytest.fixture(scope="module")
def python_answer(many, tmp_path_factory):
    return python_says(tmp_path_factory.mktemp("alone"), PROGRAM + "print(answer(sys.argv[1], None))", many)[0]


def answer_of_engine(engine, killed, many, cache):
    found, _ = python_says(cache, on_engine(engine, killed, PROGRAM), many)
    assert stale(cache, many) == []
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_an_executor_gives_the_answer_of_one_process(many, python_answer, tmp_path, killed):
    assert answer_of_engine("executor", killed, many, tmp_path) == python_answer


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("engine", CLUSTERS)
def test_a_cluster_gives_the_answer_of_one_process(many, python_answer, tmp_path, engine, killed):
    assert answer_of_engine(engine, killed, many, tmp_path) == python_answer


WORKER = """
    from sonde import engines
    engines.version = "9.9.9"
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            engines.index_ranks(sys.argv[1], pool)
    except sonde.Error as error:
        print(error)
"""


def test_a_worker_of_another_version_is_refused_with_both_versions(many, tmp_path):
    message, _ = python_says(tmp_path, PROGRAM + textwrap.dedent(WORKER), many)
    assert "has Sonde 0." in message
    assert "this is 9.9.9" in message


def test_a_worker_without_sonde_is_refused(tmp_path):
    source = """
        from sonde import engines
        task = engines._by_value()
        import cloudpickle
        sys.stdout.write(cloudpickle.dumps(task).hex())
    """
    pytest.importorskip("cloudpickle")
    code, _ = python_says(tmp_path, PROGRAM + textwrap.dedent(source))
    worker = f"import cloudpickle; print(cloudpickle.loads(bytes.fromhex('{code}'))({{'version': '1.2.3'}})['refused'])"
    blocked = "import sys; sys.modules['sonde'] = None; "
    done = subprocess.run(
        [sys.executable, "-c", blocked + worker], capture_output=True, text=True, check=True, timeout=60
    )
    assert "has no Sonde" in done.stdout
    assert "1.2.3" in done.stdout


def test_a_rank_directory_that_a_worker_cannot_see_is_one_line(many, tmp_path):
    source = """
        from sonde import engines
        part = {"dump": sys.argv[1], "ranks": ["rank_0", "rank_99"], "out": "", "token": "", "verb": ["index"]}
        part["version"] = sonde.__version__
        print(engines.on_worker(part)["refused"])
    """
    message, _ = python_says(tmp_path, PROGRAM + textwrap.dedent(source), many)
    assert message.startswith(f"rank directory '{many}/rank_99'")
    assert "mount it there" in message


def test_a_worker_that_does_not_share_the_cache_sends_its_indices(many, python_answer, tmp_path):
    source = """
        from sonde import rank_part
        seen = rank_part.do_part
        rank_part.do_part = lambda part, place: seen({**part, "token": "/nowhere"}, place)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            print(answer(sys.argv[1], pool))
    """
    assert python_says(tmp_path, PROGRAM + textwrap.dedent(source), many)[0] == python_answer
    assert stale(tmp_path, many) == []


@pytest.mark.parametrize("engine", ["spark", "tcp://", "http://127.0.0.1:8786"])
def test_an_engine_that_does_not_exist_is_named(many, tmp_path, engine):
    status, _, error = said(tmp_path, "first-bad", many, "--engine", engine)
    assert status == 2
    assert engine in error
    assert "ray" in error
    assert "tcp://HOST:PORT" in error


@pytest.mark.parametrize(
    ("engine", "variable"),
    [
        ("ray://{}", ""),
        ("tcp://{}", ""),
        ("tls://{}", ""),
        ("ray", "RAY_ADDRESS={}"),
        ("ray", "RAY_ADDRESS=ray://{}"),
        ("dask", "DASK_SCHEDULER_ADDRESS=tcp://{}"),
    ],
)
def test_a_cluster_that_does_not_answer_is_named_at_once(many, tmp_path, engine, variable):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
        name, _, value = variable.format(place).partition("=")
        done = subprocess.run(
            [conftest.CLI, "first-bad", many, "--engine", engine.format(place)],
            env={**environment(tmp_path), **({name: value} if name else {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"sonde: error: no cluster answers at '{value or engine.format(place)}'")
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert "`local`" in done.stderr


@needs("distributed")
def test_an_address_is_an_engine(many, python_answer, tmp_path):
    source = on_engine("dask", False, PROGRAM).replace('"dask"', "cluster.scheduler_address")
    assert python_says(tmp_path, source, many)[0] == python_answer


@needs("distributed")
def test_an_interrupt_of_the_terminal_is_no_page_of_tracebacks(two, tmp_path):
    dump = grown(two, tmp_path / "dump", 60)
    with subprocess.Popen(
        [conftest.CLI, "stats", dump, "--engine", "dask"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        while not any(tmp_path.rglob("*.sqlite")) and run.poll() is None:
            time.sleep(0.001)
        os.killpg(run.pid, signal.SIGINT)
        assert run.communicate(timeout=60) == ("", "")
    assert run.returncode == 128 + signal.SIGINT


@pytest.mark.parametrize("ends", ["os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_a_cluster_that_ends_the_program_is_not_a_finding(many, tmp_path, ends):
    (tmp_path / "distributed.py").write_text(f"import os\n{ends}\n")
    done = subprocess.run(
        [conftest.CLI, "first-bad", many, "--engine", "dask"],
        env={**environment(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "the program of --engine dask ended with status" in done.stderr


def test_json_of_indexed_ranks_names_them(many, tmp_path):
    status, out, _ = said(tmp_path, "index", many, "--dir", "rank_3", "--dir", "rank_4", "--json")
    assert status == 0
    assert json.loads(out)["ranks"] == ["rank_3", "rank_4"]
