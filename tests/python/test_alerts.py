"""`sonde run --alert`, and `on_alert` in Python: a running training's dump is asked, the first finding is passed on."""

import http.server
import json
import textwrap
import threading
import time

import pytest
from processes import python

TRAINING = """
    import sys, time
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range({steps}):
        optimizer.zero_grad()
        out = model(torch.randn(3, 4))
        out = torch.log(out - 100) if step == {bad} else out
        loss = out.square().mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), flush=True)
        time.sleep({pause})
"""


@pytest.fixture
def train(sonde, dump, tmp_path):
    """train(*options of sonde run, steps=…, bad=…, pause=…): its end."""

    def run(*options, steps=3, bad=1, pause=0.0):
        program = tmp_path / "train.py"
        program.write_text(textwrap.dedent(TRAINING).format(steps=steps, bad=bad, pause=pause))
        return sonde("run", "--out", dump, *options, "--", *python(), program)

    return run


@pytest.fixture
def received():
    """(address, documents) of a server that says 204."""
    documents = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.headers["Authorization"] == "Basic bmFtZTpzZWNyZXQ="
            documents.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://name:secret@127.0.0.1:{server.server_port}/hook", documents
        server.shutdown()


def keeps(directory):
    """A command of the shell that keeps each document in a file of its own."""
    return f'cat > "{directory}/$(date +%s%N).json"; echo "$SONDE_ALERT" >> "{directory}/conditions"'


def test_a_finding_is_passed_on_while_the_training_runs_and_ends_it(train, tmp_path):
    run = train("--alert", "bad", "--alert-command", keeps(tmp_path), "--alert-stop", steps=400, bad=2, pause=0.1)
    assert run.status == 128 + 15, run.stderr
    assert 2 <= len(run.stdout.splitlines()) < 400
    (document,) = tmp_path.glob("*.json")
    finding = json.loads(document.read_text())["first"]
    assert (finding["op_type"], finding["step"]) == ("log", 2)
    assert (tmp_path / "conditions").read_text() == "bad\n"
    (line,) = [line for line in run.sonde_lines if line.startswith("sonde: alert: bad: ")]
    assert "log-op0" in line and "train.py:12" in line
    assert "sonde: recorded" in run.stderr or "ended by signal 15" in run.stderr


def test_a_training_that_is_short_is_asked_at_its_end(train, received):
    address, documents = received
    run = train("--alert", "bad", "--alert", "tensor_overflow", "--alert-url", address)
    assert run.status == 0, run.stderr
    assert len(documents) == 2
    assert documents[0]["first"]["op_type"] == "log"
    assert "hits" in documents[1]
    assert "secret" not in run.stderr


def test_a_healthy_training_is_not_disturbed(train, tmp_path):
    run = train("--alert", "bad", "--alert-command", keeps(tmp_path), "--alert-stop", bad=-1)
    assert run.status == 0 and "alert" not in run.stderr, run.stderr
    assert not list(tmp_path.glob("*.json"))
    assert run.stdout == train(bad=-1).stdout


def test_what_cannot_be_reached_is_a_line_and_the_training_goes_on(train):
    run = train("--alert", "bad", "--alert-url", "http://127.0.0.1:9/hook", "--alert-command", "exit 3")
    assert run.status == 0, run.stderr
    assert "the command of --alert-command ended with status 3" in run.stderr
    assert "nothing was posted to 127.0.0.1: " in run.stderr
    assert "Traceback" not in run.stderr


def test_a_webhook_that_hangs_is_left_after_a_time(train):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), None) as silent:  # it listens, and never answers
        started = time.monotonic()
        run = train("--alert", "bad", "--alert-url", f"http://127.0.0.1:{silent.server_port}/")
    assert run.status == 0 and "nothing was posted to 127.0.0.1: " in run.stderr, run.stderr
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    "options, message",
    [
        (["--alert", "tensor_overflw"], "tensor_overflow"),
        (["--alert", "tensor_too_large:abs_mean_gt=x"], "abs_mean_gt"),
        (["--alert", "bad", "--alert-url", "ftp://here/"], "expected an address that begins with http:// or https://"),
        (["--alert-stop"], "--alert"),
    ],
)
def test_what_cannot_be_looked_for_is_an_error_before_the_run(train, options, message):
    run = train(*options)
    assert run.status == 2 and run.stdout == ""
    assert message in run.stderr


IN_PYTHON = """
    import os, sys, time
    import torch
    from torch import nn
    import sonde

    def on_alert(finding):
        found.append(finding)
        {then}

    found = []
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with sonde.capture(out="run", on_alert=on_alert, alert={alert}):
        for step in range({steps}):
            out = model(torch.randn(3, 4))
            out = torch.log(out - 100) if step == {bad} else out
            out.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if found and {steps} > 5:
                break
            time.sleep(0.1 if {steps} > 5 else 0)
    firsts = [(one["first"]["op_type"], one["first"]["step"]) for one in found if "first" in one]
    print(firsts, sum("hits" in one for one in found), step)
"""


@pytest.fixture
def loop(script, execute):
    """loop(then=…, alert=…, steps=…, bad=…): the end of a loop with `on_alert`, in which `then` is the last line."""

    def run(then="pass", alert="bad", steps=3, bad=1):
        text = textwrap.dedent(IN_PYTHON).format(then=then, alert=repr(alert), steps=steps, bad=bad)
        return execute(*python(), script(text))

    return run


def test_a_function_gets_the_finding_while_the_loop_runs(loop):
    run = loop(steps=400, bad=2)
    assert run.status == 0, run.stderr
    first, _, last = run.stdout.rpartition(" ")
    assert first == "[('log', 2)] 0" and int(last) < 399, run.stdout


def test_a_function_gets_the_finding_of_each_condition_at_the_end_of_a_short_loop(loop):
    run = loop(alert=("bad", "tensor_overflow"))
    assert run.stdout == "[('log', 1)] 1 2\n", run.stderr


def test_a_healthy_loop_calls_no_function(loop):
    assert loop(bad=-1).stdout == "[] 0 2\n"


def test_what_the_function_raises_is_a_line_and_the_loop_goes_on(loop):
    run = loop(then="raise SystemExit('no\\nmore')")
    assert run.stdout == "[('log', 1)] 0 2\n" and run.status == 0
    assert run.stderr.count("sonde: on_alert: SystemExit: no more; the training goes on\n") == 1, run.stderr


def test_the_function_may_end_the_session(loop):
    run = loop(then="sonde.stop()", steps=400, bad=2)
    assert run.status == 0 and run.stdout.startswith("[('log', 2)] 0 "), run.stderr
    assert run.stderr.count("sonde: recorded") == 1


def test_a_process_that_the_loop_has_forked_does_not_delay_its_end(loop):
    """It has the pipe to what looks for findings."""
    started = time.monotonic()
    forks = "os.fork() or (os.close(1), os.close(2), time.sleep(50), os._exit(0))"
    run = loop(then=forks, alert=("bad", "tensor_too_large:abs_mean_gt=1e30"), steps=400, bad=2)
    assert run.status == 0 and run.stdout.startswith("[('log', 2)] 0 "), run.stderr
    assert time.monotonic() - started < 45


@pytest.mark.parametrize(
    "alert, message",
    [("tensor_overflw", "alert: condition 'tensor_overflw': "), ((), "on_alert needs a condition")],
)
def test_a_condition_that_is_unknown_is_an_error_before_the_session(loop, alert, message):
    run = loop(alert=alert)
    assert run.status == 1 and message in run.stderr.splitlines()[-1], run.stderr
    assert "recorded" not in run.stderr
