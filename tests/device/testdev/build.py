"""Compiles the test device for the PyTorch of this Python, once: build/testdev/ keeps the library."""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FLAGS = ["-std=c++20", "-O1", "-DNDEBUG", "-fPIC", "-fvisibility=default", "-Wall", "-Wextra", "-Wno-unused-parameter"]


def library():
    """The path of the compiled library. Several processes may ask at once."""
    directory = ROOT / "build" / "testdev"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"testdev-{_digest()}.so"
    with open(directory / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _compile(path)
    return path


def _sources():
    return sorted(HERE.glob("*.cpp"))


def _digest():
    digest = hashlib.sha256(f"{torch.__version__} {torch.version.git_version} {FLAGS}".encode())
    for path in sorted([*_sources(), *HERE.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _compile(path):
    place = pathlib.Path(torch.__file__).parent
    launcher = ["ccache"] if shutil.which("ccache") else []
    compiler = [*launcher, os.environ.get("CXX", "c++")]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        running, objects = [], []
        for source in _sources():
            objects.append(os.path.join(scratch, source.stem + ".o"))
            command = [*compiler, *FLAGS, abi, "-isystem", str(place / "include"), "-c", str(source), "-o", objects[-1]]
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [process.communicate()[0] for process in running]
        if any(process.returncode for process in running):
            raise RuntimeError("cannot compile the test device:\n" + "".join(outputs))
        built = os.path.join(scratch, path.name)
        libraries = [f"-L{place / 'lib'}", "-ltorch_cpu", "-lc10"]
        subprocess.run([*compiler, "-shared", "-o", built, *objects, *libraries, "-lpthread"], check=True)
        os.replace(built, path)
