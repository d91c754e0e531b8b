"""`sonde run --alert`: a running training's dump is asked, and the first finding of a condition is passed on."""

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
