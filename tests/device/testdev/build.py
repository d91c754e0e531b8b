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
    """All sources as one: most of the time is for reading PyTorch's headers. 17 s of processor time, instead of 67."""
    place = pathlib.Path(torch.__file__).parent
    launcher = ["ccache"] if shutil.which("ccache") else []
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    headers = [f"-I{HERE}", "-isystem", str(place / "include")]
    libraries = [f"-L{place / 'lib'}", "-ltorch_cpu", "-lc10", "-lpthread"]
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        unit, compiled, built = (os.path.join(scratch, f"testdev.{ending}") for ending in ("cpp", "o", "so"))
        pathlib.Path(unit).write_text("".join(f'#include "{source}"\n' for source in _sources()), encoding="utf-8")
        compiler = os.environ.get("CXX", "c++")
        _run([*launcher, compiler, *FLAGS, abi, *headers, "-c", unit, "-o", compiled])
        _run([compiler, "-shared", "-o", built, compiled, *libraries])
        os.replace(built, path)


def _run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cannot compile the test device:\n{done.stdout}")
