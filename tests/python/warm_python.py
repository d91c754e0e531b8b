"""Runs scripts in forks of one interpreter that has PyTorch: to import it takes two seconds, longer than most tests.

The fork has the environment, directory, arguments and output of a process of its own, and `__main__` is the script. At
its first `import torch` PyTorch calls what it calls at the end of a real import. Frames of this file are named
`<frozen …>`, so that nobody takes them for the program's. A test that needs an interpreter of its own, or its end, is
marked `cold`.

A command that itself starts an interpreter, as `sonde run -- python train.py` does, gets WarmPython.client(): a small
program (warm_client.c) that passes its script, environment, directory and output on to a fork, and ends as the fork
does. It may be called as `python` is, with -c, -m and -u too.
"""

import contextlib
import importlib._bootstrap_external
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

# Variables that the interpreter or a library reads when it starts, but for those that a fork can still obey, one that
# conftest.py sets for all, and torchrun's.
_AT_START = ("PYTHON", "LD_", "LANG", "LC_", "OMP_", "KMP_", "MKL_", "GOMP_", "MALLOC_", "TORCH_", "ATEN_", "ONEDNN_")
_LATER = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHON_EXEC", "TORCH_NCCL_")


_SERVER = pathlib.Path(__file__).with_name("warm_server.py")
_CLIENT = pathlib.Path(__file__).with_name("warm_client.c")


class WarmPython:
    """One for each process that runs tests; started when it is first needed."""

    def __init__(self):
        self._server = None
        self._connection = None
        self._place = None

    def can_run(self, command, environment):
        """Whether the command is a script of this Python, and does not depend on the start of the interpreter."""
        is_script = len(command) > 1 and command[0] == sys.executable and str(command[1]).endswith(".py")
        return is_script and not any(n.startswith(_AT_START) and not n.startswith(_LATER) for n in environment)

    def client(self):
        """The beginning of a command that goes on with the arguments of Python."""
        self._start()
        return [str(self._place / "client"), sys.executable, f"sonde-warm-python-{self._server.pid}"]

    def run(self, command, directory, environment, timeout):
        """As subprocess.run with captured text."""
        self._start()
        arguments = [str(part) for part in command[1:]]
        fields = [str(len(arguments)), *arguments, str(directory)]
        fields += [f"{name}={value}" for name, value in environment.items()]
        message = b"".join(os.fsencode(field) + b"\0" for field in fields)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            socket.send_fds(self._connection, [message], [out.fileno(), error.fileno()])
            pid = self._answer()
            self._connection.settimeout(timeout)
            try:
                status = self._answer()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._server.kill()
                self._server.wait()  # _start() must see that it has ended
                raise subprocess.TimeoutExpired(command, timeout) from None
            texts = [_text(file) for file in (out, error)]
        return subprocess.CompletedProcess(command, os.waitstatus_to_exitcode(status), *texts)

    def _answer(self):
        answer = self._connection.recv(100)
        if not answer:
            raise RuntimeError("the interpreter that the tests share has ended")
        return int(answer)

    def _start(self):
        if self._server is not None and self._server.poll() is None:
            self._connection.settimeout(None)
            return
        self._connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = ("SONDE_", "PYTHONUNBUFFERED")  # the forks alone obey these
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        with other:
            self._server = subprocess.Popen(
                [sys.executable, self._programs() / "server.pyc", str(other.fileno()), json.dumps([_AT_START, _LATER])],
                pass_fds=[other.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._answer()

    def _programs(self):
        """The directory with server and client."""
        if self._place is None:
            self._files = tempfile.TemporaryDirectory(prefix="warm-python-")  # removed with this process
            self._place = pathlib.Path(self._files.name)
            # A compiled file: the name of its source is the one that it was compiled with.
            code = compile(_SERVER.read_text(encoding="utf-8"), "<frozen warm python>", "exec")
            (self._place / "server.pyc").write_bytes(importlib._bootstrap_external._code_to_timestamp_pyc(code))
            compiler = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", self._place / "client", _CLIENT]
            subprocess.run(compiler, check=True)
        return self._place


def _text(file):
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")
