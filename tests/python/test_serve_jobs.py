"""Jobs of `sonde serve` answer what the verbs answer; dumps that grow, end, are damaged or disappear."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
import urllib.parse

import pytest
from conftest import SMALL_TRAINING
from processes import CLI, clean_environment, python, run_in
from serving import Server, answer_of, conform, serving
from test_serve import NAN_TRAINING


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Dumps of a training with a NaN and of one without, and a server of both."""
    directory = tmp_path_factory.mktemp("jobs", numbered=True)
    for name, source in (("nan", NAN_TRAINING), ("good", SMALL_TRAINING)):
        (directory / f"{name}.py").write_text(textwrap.dedent(source))
        run = [CLI, "run", "--out", directory / name, "--saved-data", "tensor", "--", *python(), f"{name}.py"]
        assert run_in(directory, None, *run).status == 0
    server = Server(directory / "nan", directory / "good")
    server.directory = directory
    yield server
    assert server.close() == 0, server.messages


@pytest.mark.parametrize(
    ("kind", "arguments", "command"),
    [
        ("first-bad", {}, ["first-bad", "nan"]),
        ("first-bad", {"dump": 1, "steps": "0-1"}, ["first-bad", "good", "--step", "0-1"]),
        ("compare", {"rtol": 1e-3, "steps": "0"}, ["compare", "nan", "good", "--rtol", "0.001", "--step", "0"]),
        (
            "watch",
            {"recommended": True, "conditions": ["tensor_overflow"], "side": "both"},
            ["watch", "nan", "--recommended", "-c", "tensor_overflow", "--side", "both"],
        ),
        ("stomp", {"rank": 0}, ["stomp", "nan", "--rank", "0"]),
    ],
)
def test_the_result_of_a_job_is_the_json_of_the_verb(pair, kind, arguments, command):
    job = pair.job(kind, **arguments)
    conform("Job", job)
    verb = [command[0], *(pair.directory / part if part in ("nan", "good") else part for part in command[1:])]
    shown = run_in(pair.directory, None, CLI, *verb, "--json")
    assert job["result"] == json.loads(shown.stdout)
    assert job["exit_status"] == shown.status and job["state"] == "done"


@pytest.mark.parametrize(
    "command",
    [
        ["first-bad", "nan"],
        ["compare", "nan", "good"],
        ["watch", "nan", "-c", "tensor_overflow"],
        ["show", "nan", "log-op0:input.0", "--step", "1"],
    ],
)
def test_a_link_names_an_operator_of_the_server(pair, command):
    verb = [command[0], *(pair.directory / part if part in ("nan", "good") else part for part in command[1:])]
    plain = run_in(pair.directory, None, CLI, *verb)
    shown = run_in(pair.directory, None, CLI, *verb, "--link")
    assert shown.status == plain.status and "page:" not in plain.stdout
    link = re.search(r"^page: #/op\?(\S+) after the address that `sonde serve` prints$", shown.stdout, re.MULTILINE)[1]
    query = dict(urllib.parse.parse_qsl(link))
    assert (query["r"], query["g"]) == ("0", "0")  # without them the page shows those of the finding
    op = pair.get("op", name=query["op"], step=query["s"], rank=query["r"], graph=query["g"], dump=query.get("d", 0))
    assert op.status == 200
    if "t" in query:
        sides = {f"{t['tensor']['side'][0]}{t['tensor']['slot']}" for t in op.json["tensors"]}
        assert query["t"] in sides
    assert command[0] != "show" or (query["t"], query["s"]) == ("i0", "1")
    assert run_in(pair.directory, None, CLI, *verb, "--link", "--json").status == 2


def test_a_first_bad_job_judges_the_infinities_of_the_dump(pair):
    job = pair.job("first-bad")
    overview = pair.get("overview").json
    assert overview["finding"] == job["result"]
    conform(answer_of("/overview")["content"]["application/json"]["schema"], overview)


MASKED = """
    import sys
    import torch
    from torch import nn

    net = nn.Linear(4, 4)
    for step in range(3):
        scores = net(torch.ones(2, 4)).masked_fill(torch.arange(4) == 0, float("-inf"))
        unmasked = step == 1 and "--unmasked" in sys.argv
        (scores if unmasked else scores.softmax(-1)).pow(2).mean().backward()
"""


def test_infinities_are_judged_in_every_step_and_each_dump_of_a_path(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(MASKED))
    for name, options in (("good", []), ("sick", ["--unmasked"])):
        run = [CLI, "run", "--out", tmp_path / "runs" / name, "--", *python(), "train.py", *options]
        assert run_in(tmp_path, None, *run).status == 0
    with serving(tmp_path / "runs") as server:
        unjudged = server.get("tensors", filter="class:unjudged_infinity side:output masked_fill-op0").json["rows"]
        assert len(unjudged) == 6
        job = server.job("first-bad")
        assert job["result"]["first"]["dump"] == "sick"
        (healthy,) = (one for one in job["result"]["healthy"] if one["tensor"]["op_name"].endswith("masked_fill-op0"))
        assert healthy["places"] == [
            {"rank": 0, "dump": "good", "graph": 0, "steps": "0-2"},
            {"rank": 0, "dump": "sick", "graph": 0, "steps": "0"},
        ]

        def places(state):
            rows = server.get("tensors", filter=f"class:{state} side:output masked_fill-op0").json["rows"]
            return [(row["rank"], row["step"]) for row in rows]

        assert places("healthy_infinity") == [("0 of good", step) for step in range(3)] + [("0 of sick", 0)]
        assert places("infinity") == [("0 of sick", 1)]
        assert places("unjudged_infinity") == [("0 of sick", 2)]  # first-bad looks no further
    shown = run_in(tmp_path, None, CLI, "first-bad", "runs", "--link")
    assert "where       rank 0 of sick, graph 0, step 1" in shown.stdout
    assert "page: #/op?r=0%20of%20sick&g=0&s=1&op=Default/" in shown.stdout


def test_measuring_fills_in_what_the_dump_lacks(pair, tmp_path):
    shutil.copytree(pair.directory / "nan", tmp_path / "dump")
    for journal in list(tmp_path.rglob(".dump_metadata")):  # files alone are left
        shutil.rmtree(journal)
    with serving(tmp_path / "dump") as server:
        before = server.get("tensors", filter="class:not_measured").json["count"]
        assert before > 100
        job = server.job("measure")
        assert job["state"] == "done" and job["result"]["measured"] >= before and job["result"]["problems"] == []
        assert server.get("tensors", filter="class:not_measured").json["count"] == 0
        shown = run_in(tmp_path, None, CLI, "stats", tmp_path / "dump", "--jsonl")
        known = [json.loads(line) for line in shown.stdout.splitlines()]
        rows = server.get("tensors", limit=1000).json["rows"]
        assert [row["l2norm"] for row in rows] == [row.get("l2norm") for row in known]
        assert "nan" in {row["class"] for row in server.get("health").json["rows"]}


def test_the_next_configuration_is_that_of_first_bad(pair, tmp_path):
    job = pair.job("next-config")
    run_in(tmp_path, None, CLI, "first-bad", pair.directory / "nan", "--next-config", tmp_path / "next.json")
    assert job["result"] == json.loads((tmp_path / "next.json").read_text())
    assert "nothing wrong was found" in pair.job("next-config", dump=1)["error"]


def test_the_pairs_of_a_comparison_are_paged(pair):
    job = pair.job("compare")
    everything = job["result"]["ops"]
    page = pair.get("pairs", job=job["job"], offset=2, limit=3).json
    conform(answer_of("/pairs")["content"]["application/json"]["schema"], page)
    assert page["count"] == len(everything) and page["rows"] == everything[2:5]


def test_the_pairs_of_a_comparison_are_sorted(pair):
    job = pair.job("compare", rtol=1e-3)
    everything = job["result"]["ops"]
    lines = [row["source_line"] for row in pair.get("pairs", job=job["job"], sort="-source_line").json["rows"]]
    assert lines == sorted((row["source_line"] for row in everything), reverse=True) and len(set(lines)) > 3
    sizes = []
    for row in pair.get("pairs", job=job["job"], sort="-relative_error", limit=1000).json["rows"]:
        errors = [output.get("relative_error") for output in row["outputs"]]
        sizes.append(max((-1 if e is None else math.inf if isinstance(e, str) else e for e in errors), default=-1))
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == len(everything) and sizes[0] > sizes[-1]
    refused = pair.get("pairs", job=job["job"], sort="golden")
    assert refused.status == 422 and "expected verdict, step, source_line or relative_error" in refused.json["detail"]


def test_a_comparison_keeps_the_table_of_the_verb(pair, tmp_path):
    job = pair.job("compare", csv=True)
    assert job["file"] == "compare.csv" and job["command"].endswith(" --csv=compare.csv")
    run_in(tmp_path, None, CLI, "compare", pair.directory / "nan", pair.directory / "good", "--csv", tmp_path / "c.csv")
    reply = pair.get(f"jobs/{job['job']}/file")
    assert reply.body == (tmp_path / "c.csv").read_bytes() and len(reply.body) > 1000
    assert 'attachment; filename="compare.csv"' in reply.headers["content-disposition"]
    assert "job 999 has no file" in pair.get("jobs/999/file").json["detail"]


def test_a_mapping_is_a_text_and_no_path(pair):
    name = "Default/network-Small/relu-op0"
    plain = pair.job("compare", steps="0")["result"]["ops"]
    assert name in [row["target"][0] for row in plain if row["target"] and row["matched_by"] == "name"]
    mapped = pair.job("compare", steps="0", mapping=json.dumps({name: name}))
    assert mapped["state"] == "done" and mapped["command"].endswith(" --mapping=mapping.txt")
    assert [row["matched_by"] for row in mapped["result"]["ops"] if row["target"] == [name]] == ["mapping"]
    for wrong in (str(pair.directory / "mapping.json"), "{"):
        failed = pair.job("compare", mapping=wrong)
        assert failed["state"] == "failed" and "mapping 'mapping.txt'" in failed["error"], failed["error"]
    body = json.dumps({"kind": "compare", "arguments": {"mapping": 3}}).encode()
    refused = pair.ask("api/v1/jobs", "POST", body, Content_Type="application/json").json["detail"]
    assert "'mapping': expected the text of a mapping file" in refused


def test_a_report_is_made_as_a_job(pair):
    job = pair.job("report", golden=True, redact=True, values="none")
    conform("Job", job)
    assert (
        job["state"] == "done"
        and job["result"]["is_redacted"]
        and job["result"]["file"] == job["file"] == "report.html"
    )
    page = pair.get(f"jobs/{job['job']}/file").body
    assert len(page) == job["result"]["bytes"] and page.startswith(b"<!doctype html>")
    assert str(pair.directory).encode() not in page
    assert "max-size" in pair.job("report", max_size="10000M")["error"]


def test_jobs_are_listed_forgotten_and_refused_with_the_reason(pair):
    pair.job("stomp", rank=0)
    listed = pair.get("jobs").json
    conform("Jobs", listed)
    number = listed["jobs"][0]["job"]
    assert pair.ask(f"api/v1/jobs/{number}", "DELETE").status == 200
    assert pair.get(f"jobs/{number}").status == 404
    for body, words in (
        (b"{", "`kind`"),
        (b'{"kind": "rm"}', "there is no job 'rm'"),
        (b'{"kind": "first-bad", "arguments": {"condition": 1}}', "has no argument 'condition'"),
        (b'{"kind": "first-bad", "arguments": {"steps": 3}}', "'steps': expected a text"),
        (b'{"kind": "first-bad", "arguments": {"dump": 9}}', "there is no dump 9"),
        (b'{"kind": "watch", "argumens": {}}', "not 'argumens'"),
    ):
        answer = pair.ask("api/v1/jobs", "POST", body, Content_Type="application/json")
        assert answer.status in (404, 422) and words in answer.json["detail"]
    # A value that looks like an option stays a value.
    job = pair.job("watch", conditions=["--list"])
    assert job["state"] == "failed" and "--list" in job["error"]


def test_too_many_waiting_jobs_are_refused_and_a_job_can_be_cancelled(pair):
    body = json.dumps({"kind": "compare", "arguments": {}}).encode()
    numbers, refused = [], None
    for _ in range(40):
        answer = pair.ask("api/v1/jobs", "POST", body, Content_Type="application/json")
        if answer.status == 429:
            refused = answer
            break
        numbers.append(answer.json["job"])
    assert refused is not None and "jobs are waiting" in refused.json["detail"]
    for number in numbers:
        pair.ask(f"api/v1/jobs/{number}", "DELETE")
    pair.wait(lambda: all(job["state"] not in ("waiting", "running") for job in pair.get("jobs").json["jobs"]))


GROWING = """
    import os, pathlib, signal, sys, time
    import torch

    torch.manual_seed(0)
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    here = pathlib.Path(__file__).parent
    for step in range(5):
        while not (here / f"go{step}").exists():
            time.sleep(0.01)
        optimizer.zero_grad()
        loss = network(torch.ones(4, 3)).square().mean() / (step < 2)
        loss.backward()
        optimizer.step()
        (here / f"done{step}").touch()
        if step == 4 and "--finish" not in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def started(directory, *options):
    """The training in a process that records into `directory`/dump, in its second step."""
    (directory / "train.py").write_text(textwrap.dedent(GROWING))
    (directory / "go0").touch()
    command = [CLI, "run", "--out", directory / "dump", "--", sys.executable, "train.py", *options]
    run = subprocess.Popen(
        [str(part) for part in command],
        cwd=directory,
        env=clean_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    Server.wait((directory / "done0").exists, 60)
    (directory / "go1").touch()
    Server.wait((directory / "done1").exists)
    Server.wait(lambda: list((directory / "dump").rglob("journal")))
    return run


def test_what_a_server_followed_is_what_a_new_one_reads(tmp_path):
    run = started(tmp_path, "--finish")
    try:
        with serving(tmp_path / "dump") as server:
            server.wait(lambda: server.get("status").json["state"] == "live")
            for step in (2, 3, 4):
                (tmp_path / f"go{step}").touch()
                Server.wait((tmp_path / f"done{step}").exists)
                server.wait(lambda step=step: server.get("overview").json["steps"][-1]["step"] >= step - 1)
            server.wait(lambda: server.get("status").json["dumps"][0]["ended"] != "live")
            assert server.get("status").json["dumps"][0]["ended"] == "finished"
            run.wait()
            with serving(tmp_path / "dump") as anew:
                anew.wait(lambda: anew.get("status").json["state"] == "ready")
                for path in ("overview", "tensors", "ops", "health", "gradients", "graph"):
                    query = {"limit": 1000} if path in ("tensors", "ops") else {"step": 3} if path == "graph" else {}
                    wanted = anew.get(path, **query).json
                    server.wait(
                        lambda path=path, query=query, wanted=wanted: same(server.get(path, **query).json, wanted)
                    )
    finally:
        run.kill()
        run.wait()


def same(answer, wanted):
    return {**answer, "generation": 0} == {**wanted, "generation": 0}


def test_a_running_training_is_followed_and_its_end_is_said(tmp_path):
    run = started(tmp_path)
    try:
        with serving(tmp_path / "dump") as server:
            server.wait(lambda: server.get("status").json["state"] == "live")
            served = time.monotonic()
            generation = server.get("status").json["generation"]
            (tmp_path / "go2").touch()
            (tmp_path / "go3").touch()
            Server.wait((tmp_path / "done3").exists)
            looks = server.get("status").json["dumps"][0]["looks"]
            server.wait(lambda: server.get("tensors", filter="nan_count>0").json.get("count", 0) > 0, 30)
            # The look that goes on, the next one, and one that begins before the question here. Half a second lies
            # between two, so a NaN is shown within two seconds of its step's end.
            assert server.get("status").json["dumps"][0]["looks"] <= looks + 3
            assert server.get("status").json["generation"] > generation
            server.wait(lambda: server.get("status").json["dumps"][0]["first_nan"])
            first = server.get("status").json["dumps"][0]["first_nan"]
            assert first["step"] == min(row["step"] for row in server.get("tensors", filter="nan_count>0").json["rows"])
            (tmp_path / "go4").touch()
            server.wait(lambda: server.get("status").json["dumps"][0]["ended"] == "killed")
            assert server.get("status").json["state"] == "ready"
            events = server.events()
            assert {"grown", "ended"} <= {event for event, _ in events}
            assert ("ended", {"dump": 0, "ended": "killed"}) in events
            assert ("nan", first) in events
            state, seconds = server.get("status").json["dumps"][0], time.monotonic() - served
            assert 2 <= state["looks"] <= seconds / 0.5 + 3
            assert state["looking_seconds"] <= 0.1 * seconds + 0.5  # the last one may not have rested yet
    finally:
        run.kill()
        run.wait()


def test_a_damaged_dump_is_shown_with_its_problems(pair, tmp_path):
    shutil.copytree(pair.directory / "nan", tmp_path / "dump")
    for journal in tmp_path.rglob("journal"):
        journal.chmod(0o600)
        data = bytearray(journal.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
        journal.write_bytes(data)
    files = sorted((tmp_path / "dump").rglob("*conv2d-op0*.output.0.*.npy"))
    files[0].chmod(0o600)
    files[0].write_bytes(files[0].read_bytes()[:100])
    with serving(tmp_path / "dump") as server:
        assert server.get("overview").json["problems"]
        answers = [
            server.get("tensor/values", name="Default/network-Small/conv-Conv2d/conv2d-op0", step=step)
            for step in range(3)
        ]
        broken = [answer for answer in answers if answer.status == 500]
        assert broken and files[0].name in broken[0].json["detail"]


def test_a_dump_that_disappears_leaves_what_was_read(pair, tmp_path):
    shutil.copytree(pair.directory / "good", tmp_path / "dump")
    with serving(tmp_path / "dump", XDG_CACHE_HOME=tmp_path / "cache") as server:
        ops = server.get("ops").json["count"]
        shutil.rmtree(tmp_path / "dump")
        server.wait(lambda: server.get("status").json["dumps"][0]["error"])
        assert server.get("ops").json["count"] == ops
        lost = server.get("tensor/values", name="fc.weight")
        assert lost.status in (404, 500) and "fc" in lost.json["detail"]


def test_a_dump_that_disappears_and_comes_back_is_said(pair, tmp_path):
    shutil.copytree(pair.directory / "good", tmp_path / "dump")
    with serving(tmp_path / "dump", XDG_CACHE_HOME=tmp_path / "cache") as server:
        (tmp_path / "dump").rename(tmp_path / "away")
        server.wait(lambda: server.get("status").json["dumps"][0]["error"])
        (tmp_path / "away").rename(tmp_path / "dump")
        server.wait(lambda: not server.get("status").json["dumps"][0]["error"])
        said = [(kind, data.get("error", "")) for kind, data in server.events()]
        assert ("failed", f"cannot open dump '{tmp_path}/dump': No such file or directory") in said
        assert said[-1] == ("grown", "")


def test_what_is_no_dump_is_an_error_that_names_it(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    with serving(tmp_path) as server:
        state = server.get("status").json
        assert state["state"] == "failed" and str(tmp_path) in state["dumps"][0]["error"]
        assert server.get("ops").status == 500
    missing = run_in(tmp_path, None, CLI, "serve", tmp_path / "nowhere")
    assert missing.status == 3 and re.search("cannot open dump '.*nowhere': no such directory", missing.stderr)


def test_a_dump_that_grows_by_itself_and_shrinks_is_shown_as_it_is(pair, tmp_path):
    """Files without a journal, as another program writes them: each state of the directory is a generation."""
    shutil.copytree(pair.directory / "good", tmp_path / "all")
    for journal in list(tmp_path.rglob(".dump_metadata")):
        shutil.rmtree(journal)
    steps = sorted(path for path in tmp_path.glob("all/rank_0/*/0/*") if path.is_dir())
    assert len(steps) >= 2
    later = [path.rename(tmp_path / f"later{path.name}") for path in steps[1:]]
    with serving(tmp_path / "all", SONDE_INDEX="off") as server:
        known = [server.get("status").json["generation"]]
        shown = {row["step"] for row in server.get("ops").json["rows"]}
        assert shown == {int(steps[0].name)}
        later[0].rename(steps[1])
        server.wait(lambda: {row["step"] for row in server.get("ops", limit=1000).json["rows"]} == {0, 1})
        known.append(server.get("status").json["generation"])
        shutil.rmtree(steps[1])
        server.wait(lambda: {row["step"] for row in server.get("ops", limit=1000).json["rows"]} == {0})
        known.append(server.get("status").json["generation"])
        assert known == sorted(set(known))
        assert server.get("ops", generation=known[0]).status == 409


def test_no_index_and_no_right_to_write_one(pair, tmp_path):
    """The cache is a file: nothing can be saved, and the answers are the same."""
    (tmp_path / "cache").write_text("")
    with serving(pair.directory / "nan", XDG_CACHE_HOME=tmp_path / "cache") as server:
        assert server.get("status").json["dumps"][0]["index"] == "memory"
        known = pair.get("tensors", limit=1000).json
        assert server.get("tensors", limit=1000).json["rows"] == known["rows"]


def test_a_dump_of_somebody_else_is_an_error_that_names_it(pair, tmp_path):
    shutil.copytree(pair.directory / "good", tmp_path / "mine" / "dump")
    (tmp_path / "mine").chmod(0)
    other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}  # root may read everything
    try:
        command = [CLI, "serve", tmp_path / "mine" / "dump"]
        shown = subprocess.run([*map(str, command)], check=False, capture_output=True, text=True, timeout=20, **other)
    except PermissionError:
        pytest.skip("the command is in a directory that only root may read")
    finally:
        (tmp_path / "mine").chmod(0o700)
    assert shown.returncode == 3
    assert f"cannot open dump '{tmp_path}/mine/dump': Permission denied" in shown.stderr
