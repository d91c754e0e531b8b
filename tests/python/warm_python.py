"""Runs scripts in forks of one interpreter that has PyTorch: to import it takes two seconds, longer than most tests.

The fork has the environment, directory, arguments and output of a process of its own, and `__main__` is the script. At
its first `import torch` PyTorch calls what it calls at the end of a real import. Frames of this file are named
`<frozen …>`, so that nobody takes them for the program's. A test that needs an interpreter of its own is marked `cold`.
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

# Variables that the interpreter or a library reads when it starts.
_AT_START = ("PYTHON", "LD_", "LANG", "LC_", "OMP_", "KMP_", "MKL_", "GOMP_", "MALLOC_", "TORCH_", "ATEN_", "ONEDNN_")

_SERVER = '''
import builtins, importlib.machinery, json, os, socket, sys, types
import torch, torch._dynamo  # the latter at the first optimizer: a second and a half

connection = socket.socket(fileno=int(sys.argv[1]))
connection.send(b"0")


class Torch:
    """`import torch` in a fork."""

    def __init__(self):
        self.spec = torch.__spec__

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name == "torch" else None

    def create_module(self, spec):
        return torch

    def exec_module(self, module):
        sys.meta_path.remove(self)
        module.__spec__ = self.spec
        module._import_device_backends()


def next_program():
    """In a fork: what to run. The first process never comes back."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 2)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            return json.loads(message), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(pid).encode())
        connection.send(str(os.waitpid(pid, 0)[1]).encode())


def become(program, descriptors):
    """This process is what `python script.py …` would be."""
    connection.close()
    for number, descriptor in enumerate(descriptors, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(program["directory"])
    os.environ.clear()
    os.environ.update(program["environment"])
    sys.argv = program["arguments"]
    sys.orig_argv = [sys.executable, *sys.argv]
    path = os.path.abspath(sys.argv[0])
    sys.path[0] = os.path.dirname(path)
    del sys.modules["torch"]
    sys.meta_path.insert(0, Torch())
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__builtins__ = builtins
    main.__cached__ = None
    sys.modules["__main__"] = main
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec"), main.__dict__


exec(*become(*next_program()))
'''


class WarmPython:
    """One for each process that runs tests; started when it is first needed."""

    def __init__(self):
        self._server = None
        self._connection = None

    def can_run(self, command, environment):
        """Whether the command is a script of this Python, and does not depend on the start of the interpreter."""
        is_script = len(command) > 1 and command[0] == sys.executable and str(command[1]).endswith(".py")
        return is_script and not any(name.startswith(_AT_START) for name in environment)

    def run(self, command, directory, environment, timeout):
        """As subprocess.run with captured text."""
        self._start()
        arguments = [str(part) for part in command[1:]]
        program = {"arguments": arguments, "directory": str(directory), "environment": environment}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            socket.send_fds(self._connection, [json.dumps(program).encode()], [out.fileno(), error.fileno()])
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
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SONDE_")}
        with tempfile.TemporaryDirectory() as place, other:
            # A compiled file: the name of its source is the one that it was compiled with.
            path = pathlib.Path(place) / "warm.pyc"
            code = compile(_SERVER, "<frozen warm python>", "exec")
            path.write_bytes(importlib._bootstrap_external._code_to_timestamp_pyc(code))
            self._server = subprocess.Popen(
                [sys.executable, path, str(other.fileno())],
                pass_fds=[other.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
            other.close()
            self._answer()  # it has read its file


def _text(file):
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")
