"""The interpreter that warm_python.py starts, with PyTorch: each program of a test is a fork of it.

A program comes in one message of fields that end with NUL: how many arguments, the arguments, the directory, and the
variables as NAME=VALUE; its descriptors come with it. The tests' own socket gets the number of the process and later
its status, as waitpid() gives it; a client (warm_client.c) gets the status alone, or `python` if it must start a real
interpreter.
"""

import atexit
import builtins
import contextlib
import ctypes
import functools
import gc
import importlib.machinery
import importlib.metadata
import io
import json
import os
import random
import runpy
import select
import signal
import site
import socket
import sys
import sysconfig
import threading
import types

import torch
import torch._dynamo  # at the first optimizer: a second and a half
import torch._inductor.async_compile
import torch._inductor.codecache
import torch._inductor.codegen.cpp
import torch._inductor.compile_fx


def use_large_pages():
    """A fork copies the tables of all pages, and its end frees them: with pages of 2 MB this takes a third of the time.
    Where the kernel refuses (older than 6.1) nothing changes."""
    size, collapse = 2 << 20, 25  # MADV_COLLAPSE
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    with open("/proc/self/maps", encoding="utf-8") as file:
        areas = [line.split() for line in file]
    for addresses, access, _, _, inode, *_ in areas:
        first, last = (int(address, 16) for address in addresses.split("-"))
        if access == "rw-p" and inode == "0":
            for page in range(-(-first // size) * size, last // size * size, size):
                madvise(page, size, collapse)


BACKENDS = {"group": "torch.backends"}
backends = importlib.metadata.entry_points(**BACKENDS)
gc.collect()
gc.freeze()  # a fork that looked at these objects would copy their memory
use_large_pages()
tests = socket.socket(fileno=int(sys.argv[1]))
clients = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
clients.bind(f"\0sonde-warm-python-{os.getpid()}")
clients.listen()
tests.send(b"0")


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
        with self.entry_points_known():
            module._import_device_backends()

    @contextlib.contextmanager
    def entry_points_known(self):
        """To look for them in all distributions takes longer than the rest; PYTHONPATH may have others."""
        look = importlib.metadata.entry_points
        if not os.environ.get("PYTHONPATH"):
            importlib.metadata.entry_points = lambda **asked: backends if asked == BACKENDS else look(**asked)
        try:
            yield
        finally:
            importlib.metadata.entry_points = look


@functools.cache
def warm_compiler():
    """What Inductor finds out in each process before its first graph: which instructions the compiler and the machine
    have, by compiling and loading six libraries, and whether its compiled header is that of this machine. It takes
    longer than most graphs."""
    with contextlib.suppress(Exception):  # no compiler: the program says so itself
        torch._inductor.codecache.CppPythonBindingsCodeCache.load_async(
            '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel() {}\n', "cpu"
        )


class Program:
    """A message asks for it."""

    def __init__(self, message):
        count, *fields = (os.fsdecode(field) for field in message.split(b"\0")[:-1])
        self.arguments = fields[: int(count)]
        self.directory, *variables = fields[int(count) :]
        self.environment = dict(variable.split("=", 1) for variable in variables)

    def is_of_a_fork(self):
        """Whether a fork can be this program, with its options and the variables that an interpreter reads first."""
        first = [*self.arguments, "", ""][self.arguments[:1] == ["-u"]]
        return (first in ("-c", "-m") or first.endswith(".py")) and at_start(self.environment) == own_at_start

    def prepare(self):
        """Before the fork: what the program needs, and what forks can share."""
        for argument in self.arguments:
            text = argument
            if argument.endswith(".py"):
                with contextlib.suppress(OSError, UnicodeError), open(argument, encoding="utf-8") as file:
                    text = file.read()
            if "torch.compile" in text or "torch._inductor" in text:
                warm_compiler()


def at_start(variables):
    """Those that warm_python.py names: the interpreter or a library reads them when it starts."""
    prefixes, later = map(tuple, json.loads(sys.argv[2]))
    return {name: variables[name] for name in variables if name.startswith(prefixes) and not name.startswith(later)}


own_at_start = at_start(os.environ)
running = {}  # by descriptor of the process: its number, and the socket of who waits for it


def next_program():
    """In a fork: what to run, and its descriptors. The first process never comes back."""
    while True:
        askers = [asker for _, asker in running.values() if asker is not tests]
        ready, _, _ = select.select([tests, clients, *running, *askers], [], [])
        for end, (pid, asker) in list(running.items()):
            if end in ready:
                end_of(end, pid, asker)
            elif asker in ready and asker is not tests:  # the client is gone
                os.kill(pid, signal.SIGKILL)
                end_of(end, pid, asker)
        for listener in {tests, clients}.intersection(ready):
            asker = listener if listener is tests else listener.accept()[0]
            message, descriptors, _, _ = socket.recv_fds(asker, 1 << 20, 3)
            if message or asker is not tests:
                if forked := start(message, descriptors, asker):
                    return forked
            else:
                os._exit(0)


def end_of(end, pid, asker):
    """Passes the status on."""
    status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(OSError):
        asker.send(str(status).encode())
    os.close(end)
    if asker is not tests:
        asker.close()
    del running[end]


def start(message, descriptors, asker):
    """In the fork: the program and its descriptors; else None."""
    program = Program(message) if message else None
    if program and (asker is tests or program.is_of_a_fork()):
        program.prepare()
        pid = os.fork()
        if pid == 0:
            for end, (_, other) in running.items():
                os.close(end)
                other.close()
            asker.close()
            tests.close()
            clients.close()
            return program, descriptors
        running[os.pidfd_open(pid)] = pid, asker
        if asker is tests:
            tests.send(str(pid).encode())
    else:
        with contextlib.suppress(OSError):
            asker.send(b"python")
        asker.close()
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def become(program, descriptors):
    """This process is what `python ARGUMENTS` would be; the program to run."""
    for number, descriptor in enumerate(descriptors, 3 - len(descriptors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(program.directory)
    os.environ.clear()
    os.environ.update(program.environment)
    site.addpackage(sysconfig.get_path("purelib"), "sonde_npu.pth", None)
    sys.orig_argv = [sys.executable, *program.arguments]
    unbuffered = program.arguments[0] == "-u"
    obey_variables(unbuffered)
    random.seed()  # as in a new interpreter
    del sys.modules["torch"]
    sys.meta_path.insert(0, Torch())
    return program_of_arguments(*program.arguments[unbuffered:])


def obey_variables(unbuffered):
    """Those that a fork can still obey."""
    if unbuffered or os.environ.get("PYTHONUNBUFFERED"):
        # As -u does: text goes through, and there is no buffer below it.
        raw = io.FileIO(1, "w", closefd=False)
        sys.stdout = sys.__stdout__ = io.TextIOWrapper(raw, sys.stdout.encoding, sys.stdout.errors, write_through=True)
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    places = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    names = {name.partition(".")[0] for place in places if os.path.isdir(place) for name in os.listdir(place)}
    # Not by a set of all modules: to touch their names would copy the memory of each.
    if any(name in sys.modules or name in ("sitecustomize", "usercustomize") for name in names):
        os.execv(sys.executable, sys.orig_argv)  # they would have been imported from there
    sys.path[1:1] = places


def program_of_arguments(first, *more):
    """The code and the variables of `__main__`."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.argv = [first, *more[first in ("-c", "-m") :]]
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
