"""`sonde gather`: ranks from hosts, disks and object storage in one directory, checked; what breaks off goes on."""

import functools
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import struct
import sys
import threading
import time
import urllib.parse

import pytest
import ranks
from journal_reader import xxh32
from processes import CLI, run_in
from rank_work import TRAINING, grown
from remote_server import S3

needs_rsync = pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")

# In the place of ssh: HOST is a directory of this machine, or fails as ssh does.
SHELL = """#!/bin/sh
host=$1; shift
case $host in
  refused) echo "ssh: connect to host refused port 22: Connection refused" >&2; exit 255;;
  nokey) echo "no such identity: /key: No such file or directory" >&2
    echo "me@nokey: Permission denied (publickey)." >&2; exit 255;;
  bare) echo "sh: 1: rsync: not found" >&2; exit 127;;
  dying) [ -e "$SHELL_LOG.listed" ] && [ -z "$HEALED" ] && exec "$PYTHON" -c "$CUT" "$@"; touch "$SHELL_LOG.listed";;
esac
echo "$host $*" >> "$SHELL_LOG"
exec "$@"
"""
# The connection breaks off after so many bytes.
CUT = """
import os, subprocess, sys
left = 250_000
with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE) as server:
    os.set_blocking(1, True)
    while left > 0 and (part := os.read(server.stdout.fileno(), min(left, 4096))):
        os.write(1, part)
        left -= len(part)
    server.kill()
sys.exit(255)
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    return ranks.run_ranks(directory, TRAINING, saved_data="full", iteration="all").dump


def first_entry_changed(rank, *changes):
    """The settings of a rank's run with other texts of the same length."""
    journal = rank / ".dump_metadata/sonde/journal"
    data = journal.read_bytes()
    (size,) = struct.unpack_from("<I", data, 20)
    entry = data[20 : 25 + size]
    for old, new in changes:
        assert old in entry and len(old) == len(new)
        entry = entry.replace(old, new, 1)
    journal.chmod(0o600)
    journal.write_bytes(data[:16] + struct.pack("<I", xxh32(entry)) + entry + data[25 + size :])


@pytest.fixture(scope="module")
def nodes(two, tmp_path_factory):
    """The disks of two nodes: ranks 0 and 1 on one, 2 and 3 on the other."""
    base = tmp_path_factory.mktemp("nodes")
    whole = grown(two, base / "whole", 4)
    for rank in (2, 3):
        first_entry_changed(whole / f"rank_{rank}", (b'"rank":0', b'"rank":%d' % rank))
    for node, (first, second) in enumerate(((0, 1), (2, 3))):
        (base / f"node{node}/run7").mkdir(parents=True)
        for rank in (first, second):
            shutil.copytree(whole / f"rank_{rank}", base / f"node{node}/run7/rank_{rank}", copy_function=shutil.copy2)
    return base


@pytest.fixture
def gather(tmp_path):
    shell = tmp_path / "shell"
    shell.write_text(SHELL)
    shell.chmod(0o700)

    def run(*arguments, **environment):
        known = {"RSYNC_RSH": shell, "SHELL_LOG": tmp_path / "shell.log", "PYTHON": sys.executable, "CUT": CUT}
        return run_in(tmp_path, tmp_path, CLI, "gather", *arguments, **{**known, **environment})

    return run


def contents(directory):
    """Every file of a run by its path; not the list of sources."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith(".sonde_gathered")
    }


def answer(run):
    return json.loads(run.stdout)


# --- hosts -----------------------------------------------------------------------------------------------------------


@needs_rsync
def test_ranks_of_two_hosts_come_into_one_directory(nodes, gather, tmp_path):
    sources = [f"one:{nodes}/node0/run7", f"me@two:{nodes}/node1/run7/"]
    (tmp_path / "shell").write_text(SHELL.replace("host=$1; shift", '[ "$1" = -l ] && shift 2; host=$1; shift'))
    done = gather(*sources, "run7")
    assert (done.status, done.stderr) == (0, ""), done
    assert contents(tmp_path / "run7") == contents(nodes / "whole")
    assert "4 ranks gathered into run7" in done.stdout
    assert f"one:{nodes}/node0/run7: ranks 0-1;" in done.stdout
    verified = run_in(tmp_path, tmp_path, CLI, "verify", "run7")
    assert verified.stdout.startswith(run_in(tmp_path, tmp_path, CLI, "verify", nodes / "whole").stdout[:200])


@needs_rsync
def test_nothing_is_fetched_twice_and_contents_are_compared_when_asked(nodes, gather, tmp_path):
    first = answer(gather(nodes / "node0/run7", "run7", "--json"))["sources"][0]
    assert first["fetched"] > 50 and first["fetched"] <= first["files"]
    again = answer(gather(nodes / "node0/run7", "run7", "--json"))["sources"][0]
    assert (again["fetched"], again["compared"]) == (0, 0)
    checked = answer(gather(nodes / "node0/run7", "run7", "--json", "--checksum"))["sources"][0]
    assert (checked["fetched"], checked["compared"]) == (0, checked["files"])


@needs_rsync
def test_a_file_that_was_damaged_here_is_found_by_its_contents(nodes, gather, tmp_path):
    gather(nodes / "node0/run7", "run7")
    file = max((tmp_path / "run7").rglob("*.npy"), key=lambda path: path.stat().st_size)
    status = file.stat()
    file.chmod(0o600)
    file.write_bytes(b"\1" + file.read_bytes()[1:])
    os.utime(file, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert gather(nodes / "node0/run7", "run7").status == 0  # size and time are right
    found = gather(nodes / "node0/run7", "run7", "--checksum", "--json")
    assert found.status == 0, found
    assert answer(found)["sources"][0]["fetched"] == 1
    assert contents(tmp_path / "run7") == contents(nodes / "node0/run7")


@needs_rsync
def test_a_transfer_that_was_killed_goes_on(nodes, gather, tmp_path):
    killed = gather(f"dying:{nodes}/node0/run7", "run7", SONDE_REMOTE_TIMEOUT="1")
    assert killed.status == 3, killed
    begun = len(contents(tmp_path / "run7"))
    assert 0 < begun < len(contents(nodes / "node0/run7"))
    whole = next(path for path in (tmp_path / "run7/rank_0").rglob("*") if path.is_file())
    (whole.parent / ".sonde-partial").mkdir(exist_ok=True)  # as of an rsync that is killed right after it made it
    there = gather(f"dying:{nodes}/node0/run7", "run7", "--json", HEALED="yes")
    assert there.status == 0, there
    assert contents(tmp_path / "run7") == contents(nodes / "node0/run7")
    assert answer(there)["sources"][0]["fetched"] <= answer(there)["sources"][0]["files"] - begun + 1
    assert not list((tmp_path / "run7").rglob(".sonde-partial*"))


@needs_rsync
def test_one_rank_keeps_its_name_and_missing_ranks_are_listed(nodes, gather, tmp_path):
    done = gather(f"one:{nodes}/node0/run7/rank_0", f"two:{nodes}/node1/run7/rank_3", "run7", "--json")
    assert done.status == 1
    assert answer(done)["missing_ranks"] == [1, 2]
    assert sorted(path.name for path in (tmp_path / "run7").glob("rank_*")) == ["rank_0", "rank_3"]
    assert "missing ranks: 1-2" in gather(f"one:{nodes}/node0/run7/rank_0", "run7").stdout


@needs_rsync
@pytest.mark.parametrize("again", [False, True], ids=["in one call", "in two"])
def test_ranks_of_two_runs_never_mix(nodes, gather, tmp_path, again):
    other = shutil.copytree(nodes / "node0/run7", tmp_path / "other/run8")
    if again:
        assert gather(nodes / "node0/run7", "run7").status == 0
        done = gather(other, "run7")
    else:
        done = gather(nodes / "node0/run7", other, "run7")
    assert done.status == 2
    assert f"'rank_0' is in '{nodes}/node0/run7' and in '{other}'" in done.stderr
    if again:
        assert contents(tmp_path / "run7") == contents(nodes / "node0/run7")
    else:
        assert not (tmp_path / "run7").exists()


@needs_rsync
def test_a_rank_that_was_not_gathered_is_left_alone(nodes, gather, tmp_path):
    (tmp_path / "run7/rank_1").mkdir(parents=True)
    done = gather(nodes / "node0/run7", "run7")
    assert done.status == 2
    assert "was not gathered from" in done.stderr
    assert list((tmp_path / "run7").iterdir()) == [tmp_path / "run7/rank_1"]


@needs_rsync
def test_signs_of_two_runs_are_shown(two, nodes, gather, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(two / "rank_1", other / "rank_5")
    first_entry_changed(other / "rank_5", (b'"started_us":17', b'"started_us":14'), (b'train.py"', b'other.py"'))
    done = gather(nodes / "node0/run7", nodes / "node1/run7", other, "run7", "--json")
    assert done.status == 1
    notes = "\n".join(answer(done)["notes"])
    assert "h apart: are they of one run?" in notes
    assert "the journal in rank_5 is that of rank 1" in notes
    assert "rank_5 was recorded with command" in notes


@needs_rsync
def test_files_that_the_journals_name_and_no_source_has_are_listed(nodes, gather, tmp_path):
    source = shutil.copytree(nodes / "node0/run7", tmp_path / "source")
    gone = next(path for path in (source / "rank_1").rglob("*.npy") if path.stat().st_nlink == 1)
    gone.unlink()
    done = gather(source, "run7", "--json")
    assert done.status == 1
    assert answer(done)["missing_files"] == [f"{tmp_path}/run7/{gone.relative_to(source)}"]
    assert f"missing: {tmp_path}/run7/{gone.relative_to(source)}" in gather(source, "run7").stdout


@needs_rsync
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("refused:/run7", ["host 'refused' cannot be reached", "Connection refused"]),
        ("nokey:/run7", ["host 'nokey' cannot be reached", "Permission denied (publickey)"]),
        ("bare:/run7", ["host 'bare' has no rsync"]),
        ("one:{nodes}/node0/run", ["no such directory", "did you mean 'run7'?"]),
        ("{nodes}/node0/rum7", ["no such directory", "did you mean 'run7'?"]),
        ("one:/nowhere/at/all", ["no such directory"]),
    ],
)
def test_a_source_that_cannot_be_read_is_named_and_the_others_come(nodes, gather, tmp_path, source, words):
    source = source.format(nodes=nodes)
    done = gather(source, nodes / "node1/run7/rank_2", "run7", "--json")
    assert done.status in (1, 3)
    (problem,) = answer(done)["problems"]
    assert problem["message"].startswith(f"cannot gather '{source}': ")
    assert all(word in problem["message"] for word in words), problem
    assert (tmp_path / "run7/rank_2").is_dir()
    alone = gather(source, "run9")
    assert alone.status == 3
    assert not (tmp_path / "run9").exists()


def test_without_rsync_the_cure_is_named(nodes, gather, tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    (empty / "python3").symlink_to(sys.executable)
    done = gather(nodes / "node0/run7", "run7", PATH=empty)
    assert done.status == 3
    assert "rsync is not installed; on Debian and Ubuntu: apt install rsync" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run7"], "name the sources"),
        (["one:/run7", "two:/run7"], "'two:/run7' is not a directory of this machine"),
        (["one:/run7", "s3://bucket/run7"], "'s3://bucket/run7' is not a directory of this machine"),
        (["-oProxyCommand=touch x:/run7", "run7"], ""),
        (["--", "-oProxyCommand=touch x:/run7", "run7"], "is not a source"),
        ([":/run7", "run7"], "is not a source"),
        (["one:", "run7"], "'one:' is not a source"),
        ([".", "run7"], "no directory of a rank, as rank_0, is there"),
        ([".", "."], "'.' is a source too"),
        (["s4://bucket/run7", "run7"], "no scheme 's4'; did you mean 's3://'?"),
    ],
)
def test_wrong_arguments_are_refused(gather, tmp_path, arguments, words):
    done = gather(*arguments)
    assert done.status in (2, 3)
    assert words in done.stderr
    assert not (tmp_path / "x").exists() and not (tmp_path / "run7").exists()


@needs_rsync
def test_a_disk_that_is_too_small_gets_nothing(nodes, gather, tmp_path):
    source = shutil.copytree(nodes / "node0/run7", tmp_path / "source")
    with (source / "rank_0/huge.npy").open("wb") as file:
        file.truncate(1 << 43)  # sparse
    done = gather(source, "run7")
    assert done.status == 3
    assert "MB are missing there, and the disk has" in done.stderr
    assert not (tmp_path / "run7").exists()


@needs_rsync
def test_names_of_any_kind_and_links_are_no_danger(nodes, gather, tmp_path):
    source = shutil.copytree(nodes / "node0/run7", tmp_path / "a b; touch gone $(touch gone)")
    odd = source / "rank_0" / "näme\n\\#012 'x'"
    odd.write_text("x")
    (source / "rank_0/link").symlink_to("/etc/passwd")
    done = gather(f"one:{source}", "run7", "--checksum")
    assert done.status == 0, done
    assert (tmp_path / "run7/rank_0" / odd.name).read_text() == "x"
    assert not (tmp_path / "run7/rank_0/link").exists()
    assert not list(tmp_path.rglob("gone"))


# --- object storage --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3(nodes):
    server = S3()
    server.upload(nodes / "whole", "runs", "run7")
    yield server
    server.close()


@pytest.fixture
def from_s3(s3, gather):
    s3.fault = None

    def run(*arguments, **environment):
        return gather(*arguments, **{**s3.environment, "SONDE_REMOTE_TIMEOUT": "5", **environment})

    yield run
    s3.fault = None


def test_a_run_in_object_storage_is_gathered_and_compared(s3, from_s3, nodes, tmp_path):
    done = from_s3("s3://runs/run7", "run7", "--json")
    assert (done.status, done.stderr) == (0, ""), done
    row = answer(done)["sources"][0]
    assert row["ranks"] == [0, 1, 2, 3]
    assert row["files"] == row["fetched"] == row["compared"] == len(contents(nodes / "whole"))
    assert contents(tmp_path / "run7") == contents(nodes / "whole")
    s3.clear()
    again = answer(from_s3("s3://runs/run7", "run7", "--json"))["sources"][0]
    assert (again["fetched"], s3.read()) == (0, [])


def test_one_rank_of_a_run_in_object_storage(from_s3, tmp_path):
    assert answer(from_s3("s3://runs/run7/rank_2", "run7", "--json"))["missing_ranks"] == [0, 1]
    assert [path.name for path in (tmp_path / "run7").glob("rank_*")] == ["rank_2"]


def test_a_busy_slow_server_that_cuts_off_is_asked_again(s3, from_s3, nodes, tmp_path):
    seen = {}

    def fault(method, path):
        if method != "GET" or path.count("/") < 3:
            return None
        seen[path] = seen.get(path, 0) + 1
        kind = int(hashlib.md5(path.encode()).hexdigest(), 16) % 40
        if kind == 1:
            time.sleep(0.3)
        return {2: 503, 3: "cut"}.get(kind) if seen[path] == 1 else None

    s3.fault = fault
    done = from_s3("s3://runs/run7", "run7", "--json")
    assert (done.status, answer(done)["problems"]) == (0, []), done
    assert any(count > 1 for count in seen.values())
    assert contents(tmp_path / "run7") == contents(nodes / "whole")


def test_a_file_that_does_not_come_is_named_and_comes_later(s3, from_s3, nodes, tmp_path):
    gone = next(path for path in contents(nodes / "whole") if path.endswith(".npy"))
    s3.fault = lambda method, path: "cut" if method == "GET" and path.endswith(gone) else None
    done = from_s3("s3://runs/run7", "run7", "--json")
    assert done.status in (1, 3)
    assert [problem["path"] for problem in answer(done)["problems"]] == [f"s3://runs/run7: {gone}"]
    assert not (tmp_path / "run7" / gone).exists()
    s3.fault = None
    later = from_s3("s3://runs/run7", "run7", "--json")
    assert (later.status, answer(later)["sources"][0]["fetched"]) == (0, 1)
    assert contents(tmp_path / "run7") == contents(nodes / "whole")


def test_a_large_file_that_broke_off_goes_on_from_there(s3, from_s3, tmp_path):
    data = os.urandom(40 << 20)
    s3.client.put_object(Bucket="runs", Key="large/rank_0/values.npy", Body=data)
    ranges = []

    def fault(method, path):
        if method == "GET" and path.endswith("values.npy"):
            ranges.append(path)
            return 403 if len(ranges) == 2 else None
        return None

    s3.fault = fault
    assert from_s3("s3://runs/large", "large").status == 3
    (partial,) = (tmp_path / "large/rank_0").iterdir()
    assert partial.name.endswith(".partial") and partial.stat().st_size == 16 << 20
    ranges.clear()
    s3.fault = lambda method, path: ranges.append(path) if method == "GET" and path.endswith("values.npy") else None
    from_s3("s3://runs/large", "large")
    assert len(ranges) == 2  # of three parts
    assert (tmp_path / "large/rank_0/values.npy").read_bytes() == data
    assert len(list((tmp_path / "large/rank_0").iterdir())) == 1


def test_an_object_that_changed_is_fetched_anew(s3, from_s3, tmp_path):
    for body in (b"first", b"other"):
        s3.client.put_object(Bucket="runs", Key="changing/rank_0/x.npy", Body=body)
        from_s3("s3://runs/changing", "changing")
        assert (tmp_path / "changing/rank_0/x.npy").read_bytes() == body


def test_a_tag_that_is_not_the_md5_of_the_bytes_is_no_fault(s3, from_s3, tmp_path):
    s3.client.put_object(Bucket="runs", Key="tagged/rank_0/x.npy", Body=b"bytes")
    found = s3._app

    def tagged(environ, start):
        def begin(status, headers, *more):
            kept = [(name, value) for name, value in headers if name.lower() != "etag"]
            return start(status, [*kept, ("ETag", '"0123456789abcdef0123456789abcdef"')], *more)

        body = b"".join(found(environ, begin))
        return [body.replace(hashlib.md5(b"bytes").hexdigest().encode(), b"0123456789abcdef0123456789abcdef")]

    s3._app = tagged
    try:
        done = from_s3("s3://runs/tagged", "tagged", "--json")
    finally:
        s3._app = found
    row = answer(done)["sources"][0]
    assert (row["fetched"], row["compared"]) == (1, 0), done
    assert (tmp_path / "tagged/rank_0/x.npy").read_bytes() == b"bytes"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("s3://runs/run8", ["nothing is there", "s3://runs/run7"]),
        ("s3://run/run7", ["run7"]),
    ],
)
def test_a_wrong_name_in_object_storage_has_the_nearest(from_s3, tmp_path, source, words):
    done = from_s3(source, "run7")
    assert done.status == 3
    assert f"cannot gather '{source}'" in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "run7").exists()


def test_credentials_are_neither_printed_nor_written(s3, from_s3, tmp_path):
    done = from_s3("s3://AKIAKEY:hushhush@runs/run7", "run7")
    assert done.status in (2, 3) and "its URL has a credential" in done.stderr
    assert from_s3("s3://runs/run7", "run7").status == 0
    denied = from_s3("https://me:hushhush@127.0.0.1:1/run7?token=hushhushhush", "run9")
    assert denied.status == 3
    for text in (done.stdout, done.stderr, denied.stdout, denied.stderr):
        assert "hushhush" not in text
    for path in pathlib.Path(tmp_path).rglob("*"):
        assert not path.is_file() or path.name == "shell.log" or b"hushhush" not in path.read_bytes(), path


class HidingServer(http.server.SimpleHTTPRequestHandler):
    """Its lists have no names that begin with a dot."""

    def list_directory(self, path):
        names = sorted(entry.name + "/" * entry.is_dir() for entry in os.scandir(path) if entry.name[0] != ".")
        page = "".join(f'<a href="{urllib.parse.quote(name)}">{name}</a>' for name in names).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return io.BytesIO(page)

    def log_message(self, *_):
        pass


def test_a_web_server_that_hides_journals_gives_them_and_its_changes_are_seen(nodes, gather, tmp_path):
    shutil.copytree(nodes / "node0/run7", tmp_path / "web/run7")
    handler = functools.partial(HidingServer, directory=str(tmp_path / "web"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/run7"
    try:
        for rank in (url, f"{url}/rank_1"):
            into = tmp_path / rank[-6:]
            done = gather(rank, into, "--json")
            assert (done.status, answer(done)["problems"]) == (0 if rank == url else 1, []), done
            got, there = contents(into), contents(nodes / "node0/run7")
            assert {path: there[path] for path in got} == got
            assert "rank_1/.dump_metadata/sonde/journal" in got
        table = next((tmp_path / "web/run7/rank_0").rglob("statistic.csv"))
        table.chmod(0o600)
        table.write_bytes(table.read_bytes().swapcase())
        again = gather(url, tmp_path / url[-6:], "--json")
    finally:
        server.shutdown()
    assert answer(again)["sources"][0]["fetched"] == 1
    assert contents(tmp_path / url[-6:])[str(table.relative_to(tmp_path / "web/run7"))] == table.read_bytes()


@needs_rsync
def test_hosts_and_object_storage_go_together(s3, from_s3, nodes, tmp_path):
    done = from_s3(f"one:{nodes}/node0/run7", "s3://runs/run7/rank_2", "run7")
    assert done.status == 0, done
    assert "3 ranks gathered" in done.stdout
    assert json.loads((tmp_path / "run7/.sonde_gathered.json").read_text())["sources"] == {
        "rank_0": f"one:{nodes}/node0/run7",
        "rank_1": f"one:{nodes}/node0/run7",
        "rank_2": "s3://runs/run7/rank_2",
    }
