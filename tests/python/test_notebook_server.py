"""`sonde.open(path).serve()`: a server for a notebook's cell. test_page.py shows one in a frame."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from processes import CLI, run_in

import sonde


@pytest.fixture(scope="module")
def dump(compare):
    return compare("import torch\ntorch.ones(2).exp()\n", saved_data="full").dump


def policy_of(url):
    with urllib.request.urlopen(url.partition("#")[0], timeout=10) as answer:
        return answer.headers["Content-Security-Policy"]


def test_it_serves_until_it_is_closed(dump):
    with sonde.open(dump).serve(golden=dump) as server:
        assert "#token=" in server.url
        assert policy_of(server.url).endswith("frame-ancestors http://localhost:* http://127.0.0.1:*")
        assert f'<iframe src="{server.url}"' in server._repr_html_()
        assert server.url.partition("#token=")[2] not in repr(server)
    assert "ended" in repr(server)
    server.close()
    with pytest.raises(urllib.error.URLError):
        policy_of(server.url)


def test_without_a_frame_no_page_may_show_it(dump):
    with sonde.open(dump).serve(frame=()) as server:
        assert policy_of(server.url).endswith("frame-ancestors 'none'")


@pytest.mark.parametrize(
    "origin", ["localhost:1", "http://a b", "http://x; script-src *", "http://", "http://x:y", "*"]
)
def test_a_frame_is_an_origin(dump, origin):
    with pytest.raises(sonde.Error, match="expected an origin"):
        sonde.open(dump).serve(frame=[origin])
    run = run_in(dump.parent, None, CLI, "serve", dump, "--frame", origin)
    assert run.status == 2 and "expected an origin" in run.stderr


def test_it_ends_with_the_process_that_started_it(dump):
    code = (
        "import sonde, sys, time\n"
        "server = sonde.open(sys.argv[1]).serve()\n"
        "print(server._process.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, dump], stdout=subprocess.PIPE, text=True) as process:
        server = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    for _ in range(100):
        try:
            os.kill(server, 0)
            with open(f"/proc/{server}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    break
        except (ProcessLookupError, FileNotFoundError):
            break
        time.sleep(0.05)
    else:
        pytest.fail("the server is still running")
