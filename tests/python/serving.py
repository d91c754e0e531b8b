"""A running `sonde serve`, and requests to it: by urllib, and by bytes on a socket."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import jsonschema
from processes import CLI, clean_environment

OPENAPI = json.loads((pathlib.Path(__file__).parents[2] / "src/face/server/openapi.json").read_text())
ARROW = "application/vnd.apache.arrow.stream"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    """Of `arguments` of the verb; ready to be asked."""

    def __init__(self, *arguments, ready=True, **variables):
        command = [CLI, "serve", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(**variables)
        )
        self.line = self.process.stdout.readline().strip()
        assert self.line, self.process.stderr.read()
        self.address, _, self.token = self.line.partition("#token=")
        self.port = int(match[1]) if (match := re.search(r":(\d+)/$", self.address)) else None
        if ready:
            self.wait(lambda: self.get("status").json["state"] != "indexing")

    def ask(self, path, method="GET", body=None, **headers):
        """The answer; header names are written with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            self.address + path, body, {"Authorization": f"Bearer {self.token}", **named}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def get(self, path, accept="*/*", **query):
        text = "?" + urllib.parse.urlencode(query) if query else ""
        return self.ask(f"api/v1/{path}{text}", Accept=accept)

    def job(self, kind, **arguments):
        """The finished job."""
        body = json.dumps({"kind": kind, "arguments": arguments}).encode()
        started = self.ask("api/v1/jobs", "POST", body, Content_Type="application/json")
        assert started.status == 202, started.body
        conform("Job", started.json)
        number = started.json["job"]
        self.wait(lambda: self.get(f"jobs/{number}").json["state"] not in ("waiting", "running"), 120)
        return self.get(f"jobs/{number}").json

    @staticmethod
    def wait(holds, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.05)

    def raw(self, data, seconds=10):
        """All bytes of the answer to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(data)
            return received(connection)

    def events(self, after=0, seconds=1.0):
        """(kind, data) of the events that are sent within some time: `api/v1/events`."""
        lines = [f"GET /api/v1/events?after={after} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}"]
        data = self.raw(request_bytes(*lines), seconds).decode()
        return [(kind, json.loads(text)) for kind, text in re.findall(r"event: (\w+)\ndata: (.*)\n", data)]

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(10)
        self.messages = self.process.stderr.read()
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@contextlib.contextmanager
def serving(*arguments, **variables):
    server = Server(*arguments, **variables)
    try:
        yield server
    finally:
        server.close()


def request_bytes(*lines):
    return "\r\n".join([*lines, "", ""]).encode()


def received(connection):
    data = b""
    with contextlib.suppress(ConnectionResetError, TimeoutError):
        while part := connection.recv(65536):
            data += part
    return data


def validator(schema):
    return jsonschema.Draft202012Validator({**schema, "components": OPENAPI["components"]})


def conform(schema, document):
    """`schema`: a name in the components, or a schema."""
    named = OPENAPI["components"]["schemas"][schema] if isinstance(schema, str) else schema
    error = jsonschema.exceptions.best_match(validator(named).iter_errors(document))
    assert error is None, f"{error.json_path}: {error.message[:500]}"


def answer_of(path, method="get"):
    """The description of the answer in openapi.json."""
    answers = OPENAPI["paths"][path][method]["responses"]
    return next(answer for status, answer in answers.items() if status.startswith("2"))
