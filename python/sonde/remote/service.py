"""The program that the command starts for a dump at a URL: a line of JSON for each request, on the socket that is its
standard input, and one for each answer. It ends when the command does."""

import json
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .mirror import Mirror
from .urls import RemoteError

_AT_ONCE = 32


def serve() -> int:
    """Returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command decides
    connection = socket.socket(fileno=os.dup(0))
    lock = threading.Lock()

    def answer(number: int, **members: Any) -> None:
        with lock:
            connection.sendall((json.dumps({"number": number, **members}) + "\n").encode())

    mirror: Mirror | None = None
    pool = ThreadPoolExecutor(_AT_ONCE)
    with connection.makefile("r", encoding="utf-8") as requests:
        for line in requests:
            request = json.loads(line)
            number = request["number"]
            if request["need"] == "open":
                try:
                    mirror = opened(request)
                except RemoteError as error:
                    answer(number, error=str(error), status=error.status)
                except Exception as error:  # as a full disk, or a fault of a package
                    answer(number, error=f"cannot open the URL: {type(error).__name__}", status=3)
                else:
                    answer(number, root=str(mirror.root), name=mirror.name, path=str(mirror.path))
            elif mirror is not None:
                pool.submit(_bring, mirror, request, answer)
    os._exit(0)  # without waiting for the rest of a transfer: nothing incomplete has a name


def opened(request: dict[str, Any]) -> Mirror:
    """The mirror that a request asks for."""
    mirror = Mirror(request["url"])
    if request.get("look", True):
        mirror.look([request["rank"]] if "rank" in request else [])
    else:
        mirror.want(map(int, os.environ.get("SONDE_MIRROR_RANKS", "").split()))
    return mirror


def _bring(mirror: Mirror, request: dict[str, Any], answer: Any) -> None:
    why = mirror.ask(request["need"], request["path"], request["offset"], request["bytes"])
    answer(request["number"], **({"error": why} if why else {}))
