"""Ranks of a dump at a URL: each is read by the worker that searches it, and the caller reads one journal."""

import json

import pytest
import ranks
from rank_work import TRAINING, grown, needs, python_says
from remote_server import S3

URL = "s3://runs/many"


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    two = ranks.run_ranks(tmp_path_factory.mktemp("two"), TRAINING, saved_data="statistic", iteration="all").dump
    return grown(two, tmp_path_factory.mktemp("grown") / "dump", 4)


@pytest.fixture(scope="module")
def s3(dump):
    server = S3()
    server.upload(dump, "runs", "many")
    yield server
    server.close()


def journals(s3):
    """The ranks whose journals were read; beside them only the sources of a finding's lines were."""
    read = [key for key in s3.read() if "/graphs/sources/" not in key]
    assert all(key.endswith("/.dump_metadata/sonde/journal") for key in read), read
    return sorted(key.split("/")[3] for key in read)


PROGRAM = """
import concurrent.futures, json, os, sys
import sonde

os.environ.update(json.loads(sys.argv[2]))
ENGINE
if "found" in globals():
    print(json.dumps([str(found), dict(found.document)]))
"""
ENGINES = {
    "local": "if True:\n    found = sonde.first_bad(sys.argv[1], engine='local')",
    "threads": "with concurrent.futures.ThreadPoolExecutor(2) as pool:\n"
    "    found = sonde.first_bad(sys.argv[1], engine=pool)",
    "processes": "if __name__ == '__main__':\n"
    "    with concurrent.futures.ProcessPoolExecutor(2) as pool:\n"
    "        found = sonde.first_bad(sys.argv[1], engine=pool)",
    "dask": "if __name__ == '__main__':\n    found = sonde.first_bad(sys.argv[1], engine='dask')",
}


ENGINES_HERE = [
    "local",
    "threads",
    pytest.param("processes", marks=pytest.mark.long),
    pytest.param("dask", marks=needs("distributed")),
]


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_each_journal_is_read_once_by_who_searches_its_rank(s3, dump, tmp_path, engine):
    program = PROGRAM.replace("ENGINE", ENGINES[engine])
    settings = {**s3.environment, "SONDE_CACHE_DIR": str(tmp_path / "cache")}
    s3.clear()
    there, _ = python_says(tmp_path, program, URL, json.dumps(settings))
    assert journals(s3) == [f"rank_{rank}" for rank in range(4)]
    here, _ = python_says(tmp_path, PROGRAM.replace("ENGINE", ENGINES["local"]), dump, "{}")
    assert json.loads(there.replace(URL, str(dump))) == json.loads(here)
    assert '"rank": 1' in here


OTHER_MACHINES = """
import json, os, shutil, sys
import sonde
from sonde import rank_part, remote

os.environ.update(json.loads(sys.argv[2]))
place = remote.local_path(sys.argv[1], later=True)
parts = sys.argv[3]
os.mkdir(parts)
common = {"dump": place, "url": sys.argv[1], "verb": ["first-bad"], "out": parts, "token": parts}
for ranks in json.loads(sys.argv[4]):
    print(rank_part.do_part({**common, "ranks": ranks}, "the worker"), file=sys.stderr)
"""


def test_a_worker_reads_the_journals_of_its_ranks_alone(s3, tmp_path):
    settings = {**s3.environment, "SONDE_CACHE_DIR": str(tmp_path / "cache")}
    for number, own in enumerate((["rank_0", "rank_3"], ["rank_1"], [])):
        s3.clear()
        program = OTHER_MACHINES + "print(os.listdir(parts))"
        arguments = (URL, json.dumps(settings), tmp_path / f"parts{number}", json.dumps([own] if own else []))
        made, _ = python_says(tmp_path, program, *arguments)
        assert sorted(json.loads(made.replace("'", '"'))) == [f"{rank}.part" for rank in own]
        assert journals(s3) == own


def test_a_worker_with_another_cache_says_so(s3, tmp_path):
    settings = {**s3.environment, "SONDE_CACHE_DIR": str(tmp_path / "cache")}
    other = "os.environ['SONDE_CACHE_DIR'] += '2'; remote._mirrors.clear()\nfor ranks in"
    arguments = (URL, json.dumps(settings), tmp_path / "parts", json.dumps([["rank_0"]]))
    _, printed = python_says(tmp_path, OTHER_MACHINES.replace("for ranks in", other) + "print('done')", *arguments)
    assert "set SONDE_CACHE_DIR to one path on both" in printed


REFUSED = """
import concurrent.futures, sys
import sonde
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    try:
        sonde.first_bad(sys.argv[1], engine=pool)
    except sonde.Error as error:
        print(error)
"""


def test_a_url_with_a_credential_is_not_sent_to_workers(tmp_path):
    message, _ = python_says(tmp_path, REFUSED, "http://me:hushhush@127.0.0.1:9/run7")
    assert message.startswith("'http://127.0.0.1:9/run7' has a credential in its URL")
    assert "hushhush" not in message
