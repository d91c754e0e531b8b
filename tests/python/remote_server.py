"""Servers of this machine for tests of dumps at URLs: S3, by moto, with a count of requests and planted faults."""

import contextlib
import threading

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hushhush", "AWS_DEFAULT_REGION": "us-east-1"}


class Quiet(WSGIRequestHandler):
    """Says nothing of a request."""

    def log_request(self, *_):
        pass


class S3:
    """`requests`: (method, path) of all since clear(). `fault(method, path)` returns None, a status or "cut"."""

    def __init__(self):
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url}
        self.client = boto3.client(
            "s3", endpoint_url=self.url, aws_access_key_id="key", aws_secret_access_key="hushhush"
        )
        self.requests, self.fault = [], None

    def _answer(self, environ, start_response):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        fault = self.fault and self.fault(method, path)
        if fault == "cut":

            def cut(status, headers, *more):
                return start_response(status, headers, *more)

            body = b"".join(self._app(environ, cut))
            return [body[: len(body) // 2]]
        if fault:
            start_response(f"{fault} Planted", [("Content-Type", "text/plain")])
            return [b""]
        return self._app(environ, start_response)

    def clear(self):
        self.requests.clear()

    def read(self):
        """Keys of the objects that were read since clear()."""
        return [path for method, path in self.requests if method == "GET" and path.count("/") > 1 and path[-1] != "/"]

    def upload(self, directory, bucket, prefix):
        with contextlib.suppress(self.client.exceptions.BucketAlreadyOwnedByYou):
            self.client.create_bucket(Bucket=bucket)
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(directory)}"
                self.client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        return f"s3://{bucket}/{prefix}"

    def close(self):
        self._server.shutdown()
