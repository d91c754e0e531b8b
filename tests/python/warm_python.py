"""Runs scripts in forks of one interpreter that has PyTorch: to import it takes two seconds, longer than most tests.

The fork has the environment, directory, arguments and output of a process of its own, and `__main__` is the script. At
its first `import torch` PyTorch calls what it calls at the end of a real import. Frames of this file are named
`<frozen …>`, so that nobody takes them for the program's. A test that needs an interpreter of its own, or its end, is
marked `cold`.

A command that itself starts an interpreter, as `sonde run -- python train.py` does, gets WarmPython.client(): a small
program that passes its script, environment, directory and output on to a fork, and ends as the fork does. It may be
called as `python` is, with -c, -m and -u too.
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


def _at_start(variables):
    names = [name for name in variables if name.startswith(_AT_START) and not name.startswith(_LATER)]
    return {name: variables[name] for name in names}


_SERVER = '''
import atexit, builtins, contextlib, ctypes, functools, gc, importlib.machinery, io, json, os, random, runpy, select
import signal, site, socket, sys, sysconfig, threading, types
import torch
import torch._dynamo  # at the first optimizer: a second and a half
import torch._inductor.async_compile, torch._inductor.codecache, torch._inductor.codegen.cpp, torch._inductor.compile_fx

gc.collect()
gc.freeze()  # a fork that looked at these objects would copy their memory
connection = socket.socket(fileno=int(sys.argv[1]))
clients = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
clients.bind(f"\\0sonde-warm-python-{os.getpid()}")
clients.listen()
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


@functools.cache
def warm_compiler():
    """What Inductor finds out in each process before its first graph: which instructions the compiler and the machine
    have, by compiling and loading six libraries, and whether its compiled header is that of this machine. It takes
    longer than most graphs."""
    with contextlib.suppress(Exception):  # no compiler: the program says so itself
        torch._inductor.codecache.CppPythonBindingsCodeCache.load_async(
            '#include <torch/csrc/inductor/cpp_prefix.h>\\nextern "C" void kernel() {}\\n', "cpu"
        )


def prepare(message):
    """Before the fork: what its program needs, and what forks can share."""
    for argument in json.loads(message)["arguments"]:
        text = argument
        if argument.endswith(".py"):
            with contextlib.suppress(OSError, UnicodeError), open(argument, encoding="utf-8") as file:
                text = file.read()
        if "torch.compile" in text or "torch._inductor" in text:
            warm_compiler()


def next_program():
    """In a fork: what to run. The first process never comes back."""
    served = set()
    while True:
        ready, _, _ = select.select([connection, clients], [], [])
        served = {pid for pid in served if os.waitpid(pid, os.WNOHANG)[0] == 0}
        if clients in ready:
            client, _ = clients.accept()
            prepare(client.recv(1 << 20, socket.MSG_PEEK))
            pid = os.fork()
            if pid == 0:
                connection.close()
                return program_of(client)
            served.add(pid)
            client.close()
        if connection in ready:
            message, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 2)
            if not message:
                os._exit(0)
            prepare(message)
            pid = os.fork()
            if pid == 0:
                connection.close()
                return json.loads(message), descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            connection.send(str(pid).encode())
            connection.send(str(os.waitpid(pid, 0)[1]).encode())


def program_of(client):
    """In a fork of the fork: what a client wants to run. The fork waits for it, and ends it if the client is gone."""
    message, descriptors, _, _ = socket.recv_fds(client, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        client.close()
        return json.loads(message), descriptors
    for descriptor in descriptors:
        os.close(descriptor)
    end = os.pidfd_open(pid)
    ready, _, _ = select.select([end, client], [], [])
    if end not in ready:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if end in ready:
        client.send(str(status).encode())
    os._exit(0)


def become(program, descriptors):
    """This process is what `python ARGUMENTS` would be; the program to run."""
    clients.close()
    for number, descriptor in enumerate(descriptors, 3 - len(descriptors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(program["directory"])
    os.environ.clear()
    os.environ.update(program["environment"])
    site.addpackage(sysconfig.get_path("purelib"), "sonde_npu.pth", None)
    sys.orig_argv = [sys.executable, *program["arguments"]]
    unbuffered = program["arguments"][0] == "-u"
    obey_variables(unbuffered)
    random.seed()  # as in a new interpreter
    del sys.modules["torch"]
    sys.meta_path.insert(0, Torch())
    return program_of_arguments(*program["arguments"][unbuffered:])


def obey_variables(unbuffered):
    """Those of _LATER."""
    if unbuffered or os.environ.get("PYTHONUNBUFFERED"):
        # As -u does: text goes through, and there is no buffer below it.
        raw = open(1, "wb", buffering=0, closefd=False)
        sys.stdout = sys.__stdout__ = io.TextIOWrapper(raw, sys.stdout.encoding, sys.stdout.errors, write_through=True)
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    places = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    names = {name.partition(".")[0] for place in places if os.path.isdir(place) for name in os.listdir(place)}
    if not names.isdisjoint({*sys.modules, "sitecustomize", "usercustomize"}):
        os.execv(sys.executable, sys.orig_argv)  # they would have been imported from there
    sys.path[1:1] = places


def program_of_arguments(first, *more):
    """The code and the variables of `__main__`."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.argv = [first, *more[first in ("-c", "-m"):]]
    if first == "-c":
        sys.path[0] = ""
        return compile(more[0], "<string>", "exec"), main.__dict__
    if first == "-m":
        sys.path[0] = os.getcwd()
        return "run(name)", {"run": runpy._run_module_as_main, "name": more[0]}
    path = os.path.abspath(first)
    sys.path[0] = os.path.dirname(path)
    main.__file__ = path
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    main.__cached__ = None
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec"), main.__dict__


def end(status, number=None):
    """As an interpreter ends, but nothing is freed: that takes longer than most programs. A test of it is `cold`."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            status = status or 120
    ctypes.CDLL(None).fflush(None)
    if number is not None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(status)


def status_of(code):
    if code is None or isinstance(code, int):
        return (code or 0) & 255
    print(code, file=sys.stderr)
    return 1


program = become(*next_program())
try:
    exec(*program)
except SystemExit as exit:
    end(status_of(exit.code))
except BaseException as error:
    sys.last_type, sys.last_value, sys.last_traceback = sys.exc_info()
    sys.excepthook(*sys.exc_info())
    end(1, signal.SIGINT if isinstance(error, KeyboardInterrupt) else None)
end(0)
'''


# `python client.py ADDRESS AT_START ARGUMENTS`: what a fork cannot be is the real interpreter.
_CLIENT = """
import json, os, resource, socket, sys
address, at_start, *arguments = sys.argv[1:]
prefixes, later, wanted = json.loads(at_start)
read = [name for name in os.environ if name.startswith(tuple(prefixes)) and not name.startswith(tuple(later))]
first = [*arguments, "", ""][arguments[:1] == ["-u"]]
if not (first in ("-c", "-m") or first.endswith(".py")) or {name: os.environ[name] for name in read} != wanted:
    os.execv(sys.executable, [sys.executable, *arguments])
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect("\\0" + address)
program = {"arguments": arguments, "directory": os.getcwd(), "environment": dict(os.environ)}
socket.send_fds(connection, [json.dumps(program).encode()], [0, 1, 2])
code = os.waitstatus_to_exitcode(int(connection.recv(100)))
if code < 0:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class WarmPython:
    """One for each process that runs tests; started when it is first needed."""

    def __init__(self):
        self._server = None
        self._connection = None

    def can_run(self, command, environment):
        """Whether the command is a script of this Python, and does not depend on the start of the interpreter."""
        is_script = len(command) > 1 and command[0] == sys.executable and str(command[1]).endswith(".py")
        return is_script and not _at_start(environment)

    def client(self):
        """The beginning of a command that goes on with the arguments of Python; it takes 30 ms."""
        self._start()
        wanted = json.dumps([_AT_START, _LATER, _at_start(os.environ)])
        return [sys.executable, "-IS", "-c", _CLIENT, f"sonde-warm-python-{self._server.pid}", wanted]

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
        own = ("SONDE_", "PYTHONUNBUFFERED")  # the forks alone obey these
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
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
