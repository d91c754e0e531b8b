"""The tests of capture with other versions of PyTorch and Python.

    scripts/test --matrix                                        all of tests/matrix/versions.txt
    .venv/bin/python tests/matrix/run.py --only 2.15.0           one of them
    .venv/bin/python tests/matrix/run.py -- -k autograd          other arguments of pytest

Each version has an environment in .venv-matrix/. scripts/extension finds its Python and compiles the extension; the
engine is that of .venv, and the first test compiles the adapter. Exit status: 0 all tests passed, 1 some did not, 2 an
environment could not be made.
"""

import argparse
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import empty_cuda

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-matrix"
PACKAGE = ROOT / ".venv/lib/python3.11/site-packages"
TABLE = ROOT / "build/matrix.md"
# What the package needs of PyTorch and Python, and no more: capture, kinds of tensors, autograd, threads, harmlessness.
TESTS = ["capture", "tensor_kinds", "autograd", "threads", "unseen_writes", "unusual", "harmless", "steps", "adapter"]
# torch's own requirements, without those for GPUs; and what the tests need.
NEEDED = ["filelock", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy", "setuptools"]
NEEDED += ["pytest", "pytest-xdist", "pytest-timeout"]


class CannotMake(Exception):
    """An environment could not be made; the text says why."""


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], check=False, stdin=subprocess.DEVNULL, **more)
    if done.returncode != 0:
        raise CannotMake(f"{' '.join(map(str, command[:6]))} …: exit status {done.returncode}")
    return done


class Environment:
    def __init__(self, torch, minor):
        self.torch, self.minor = torch, minor
        self.directory = PLACE / f"torch{torch}-python{minor}"
        self.packages = self.directory / f"lib/python{minor}/site-packages"
        self.python = self.directory / "bin/python"

    def make(self):
        if not (self.directory / ".made").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            found = run(ROOT / "scripts/extension", self.minor, stdout=subprocess.PIPE, text=True)
            run(found.stdout.strip(), "-m", "venv", self.directory)
            pip = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            run(*pip, *NEEDED)
            run(*pip, "--no-deps", f"torch=={self.torch}")
            self._do_without_a_gpu(pip)
            (self.directory / ".made").touch()
        self._install_package()

    def _do_without_a_gpu(self, pip):
        lib = self.packages / "torch/lib"
        if not (lib / "libtorch_cuda.so").exists():
            return
        runtime = re.search(r"libcudart\.so\.(\d+)", empty_cuda.output_of("readelf", "-d", lib / "libtorch_cuda.so"))
        name = "nvidia-cuda-runtime-cu12" if runtime is None or runtime[1] == "12" else "nvidia-cuda-runtime"
        run(*pip, "--no-deps", name)
        for real in self.packages.glob("nvidia/*/lib/libcudart.so.*"):
            shutil.copy(real, lib)
        empty_cuda.put_into(lib)
        (self.packages / "lazy.pth").write_text("import sys, os; sys.setdlopenflags(os.RTLD_LAZY)\n")

    def _install_package(self):
        """That of .venv, with an extension for this Python."""
        build = self.directory / "core"
        run(ROOT / "scripts/extension", self.minor, build, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for old in list(self.packages.glob("sonde*")):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        for path in PACKAGE.glob("sonde*"):
            if path.is_dir():
                shutil.copytree(
                    path, self.packages / path.name, ignore=shutil.ignore_patterns("__pycache__", "_core.*.so", "built")
                )
            else:
                shutil.copy(path, self.packages)
        (extension,) = build.glob("_core*.so")
        shutil.copy(extension, self.packages / "sonde")
        shutil.copy(ROOT / ".venv/bin/sonde", self.directory / "bin")

    def test(self, arguments):
        """(passed, failed, left out, seconds)"""
        started = time.monotonic()
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.directory / "cache")}
        environment["PATH"] = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        options = ["-q", "-n", "auto", "--dist", "worksteal", "-o", "addopts=", "-rfE"]
        command = [self.python, "-m", "pytest", *options, *arguments]
        done = subprocess.run(command, check=False, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        counts = {
            word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", done.stdout.splitlines()[-1])
        }
        if done.returncode not in (0, 1) or not counts:
            raise CannotMake(f"pytest ended with status {done.returncode}")
        failed = counts.get("failed", 0) + counts.get("error", 0)
        return counts.get("passed", 0), failed, counts.get("skipped", 0), time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TORCH", help="one version of PyTorch")
    parser.add_argument("pytest", nargs="*", help="for pytest, instead of the files of the matrix")
    options = parser.parse_args()
    lines = (ROOT / "tests/matrix/versions.txt").read_text().splitlines()
    versions = [tuple(line.split()) for line in lines if line and not line.startswith("#")]
    chosen = [version for version in versions if options.only in (None, version[0])]
    if not chosen:
        parser.error(f"--only {options.only}: there is {', '.join(torch for torch, _ in versions)}")
    tests = options.pytest or [f"tests/python/test_{name}.py" for name in TESTS]
    rows, status = [], 0
    for torch, minor in chosen:
        print(f"==> PyTorch {torch}, Python {minor}", flush=True)
        try:
            environment = Environment(torch, minor)
            environment.make()
            passed, failed, left_out, seconds = environment.test(tests)
        except CannotMake as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
            continue
        status = max(status, int(failed > 0))
        rows.append(
            f"| {torch} | {minor} | {passed} | {failed} | {left_out} | {seconds:.0f} s | {datetime.date.today()} |"
        )
    header = (
        "| PyTorch | Python | passed | failed | left out | time | date |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    )
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(header + "\n".join(rows) + "\n")
    print(TABLE.read_text())
    return status


if __name__ == "__main__":
    sys.exit(main())
