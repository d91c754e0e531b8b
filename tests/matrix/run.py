"""The tests of capture with other versions of PyTorch and Python, and tests/mindspore with other versions of MindSpore.

    scripts/test --matrix                                        all of versions.txt and mindspore.txt
    .venv/bin/python tests/matrix/run.py --only 2.15.0           one version of PyTorch; or mindspore2.8.0
    .venv/bin/python tests/matrix/run.py --only 2.15.0 -- -k autograd      other arguments of pytest
    .venv/bin/python tests/matrix/run.py --newest                          the newest PyTorch, with the Python of .venv
    .venv/bin/python tests/matrix/run.py --only 2.15.0 --install           `pip install .` (pip_install.py), no tests

Each version has an environment in .venv-matrix/. scripts/extension finds its Python and compiles the extension; the
engine is that of .venv, and the adapter is compiled before the tests, which have a time limit. In the end
`pip install .` installs the package from its sources in a clean environment, with the newest PyTorch. Exit status: 0
all passed, 1 something did not, 2 an environment could not be made.
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
import pip_install

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-matrix"
PACKAGE = next((ROOT / ".venv/lib").glob("python3.*/site-packages"))
TABLE = ROOT / "build/matrix.md"
# The tests that depend on PyTorch and Python: capture, kinds of tensors, autograd, threads, harmlessness.
TESTS = ["capture", "tensor_kinds", "autograd", "threads", "unseen_writes", "unusual", "harmless", "steps", "adapter"]
# torch's own requirements, without those for GPUs; and the requirements of the tests.
NEEDED = ["filelock", "typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy", "setuptools"]
NEEDED += ["pytest", "pytest-xdist", "pytest-timeout"]
PATIENCE = 5  # times as long as in .venv: CI runs them at a low priority, beside the other tests


class CannotMake(Exception):
    """An environment could not be made; the text contains the reason."""


def run(*command, variables=None, **more):
    # The versions are named here; a machine's own constraints are meant for other environments.
    environment = {**os.environ, "PIP_CONSTRAINT": os.devnull, **(variables or {})}
    command = [str(part) for part in command]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, env=environment, **more)
    if done.returncode != 0:
        raise CannotMake(f"{' '.join(command[:6])} …: exit status {done.returncode}")
    return done


class Environment:
    def __init__(self, torch, minor):
        self.torch, self.minor, self.name = torch, minor, f"PyTorch {torch}"
        self.directory = PLACE / f"torch{torch}-python{minor}"
        self.packages = self.directory / f"lib/python{minor}/site-packages"
        self.python = self.directory / "bin/python"
        # -O1: the adapter is compiled once for each version, which is a good part of the time.
        self.variables = {"XDG_CACHE_HOME": str(self.directory / "cache"), "SONDE_ADAPTER_CXXFLAGS": "-O1"}
        self.variables["PATH"] = f"{self.directory / 'bin'}:{os.environ['PATH']}"

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
        """The package of .venv, with an extension for this Python."""
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
        run(self.python, "-m", "sonde.adapter", "build", cwd=self.directory, variables=self.variables)

    def test(self, arguments):
        arguments = arguments or [f"tests/python/test_{name}.py" for name in TESTS]
        return run_pytest(self.python, ["--dist", "worksteal", *arguments], self.variables)

    def install(self):
        """`pip install .` in a clean environment. Returns the row of the table, and whether it failed."""
        name = f"PyTorch {self.torch}, `pip install .` | {self.minor}"
        try:
            seconds = pip_install.check(self.python, self.packages)
        except pip_install.CannotInstall as error:
            print(f"error: pip install: {error}", file=sys.stderr, flush=True)
            return row(name, 0, 1, 0, 0), True
        return row(name, 1, 0, 0, seconds), False


class MindSporeEnvironment:
    """MindSpore and Sonde without PyTorch, as .venv-mindspore; pytest itself runs in .venv."""

    def __init__(self, version):
        self.version, self.minor, self.name = version, "3.11", f"MindSpore {version}"
        self.directory = PLACE / f"mindspore{version}"
        self.python = self.directory / "bin/python"

    def make(self):
        pip = [self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        if not (self.directory / ".made").exists():
            shutil.rmtree(self.directory, ignore_errors=True)
            run(ROOT / ".venv/bin/python", "-m", "venv", self.directory)
            wanted = self.directory / "requirements.txt"
            pinned = (ROOT / "requirements-mindspore.txt").read_text()
            wanted.write_text(re.sub("mindspore==.*", f"mindspore=={self.version}", pinned))
            run(*pip, "-r", wanted)
            (self.directory / ".made").touch()
        (wheel,) = (ROOT / "build/wheel").glob("tensorsonde-*.whl")
        run(*pip, "--no-deps", "--force-reinstall", wheel)

    def test(self, arguments):
        variables = {"SONDE_MINDSPORE_PYTHON": str(self.python)}
        return run_pytest(sys.executable, ["--dist", "loadfile", *(arguments or ["tests/mindspore"])], variables)


def run_pytest(python, arguments, variables):
    """(passed, failed, left out, seconds)"""
    started = time.monotonic()
    command = [python, "-m", "pytest", "-q", "-n", "auto", "-o", "addopts=", "-rfE", f"--timeout={300 * PATIENCE}"]
    environment = {**os.environ, **variables, "SONDE_TESTS_PATIENCE": str(PATIENCE)}
    done = subprocess.run(
        [*command, *arguments], check=False, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    print(done.stdout, flush=True)
    last = done.stdout.splitlines()[-1]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error|skipped)", last)}
    if done.returncode not in (0, 1) or not counts:
        raise CannotMake(f"pytest ended with status {done.returncode}")
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return counts.get("passed", 0), failed, counts.get("skipped", 0), time.monotonic() - started


def row(name, passed, failed, left_out, seconds):
    return f"| {name} | {passed} | {failed} | {left_out} | {seconds:.0f} s | {datetime.date.today()} |"


def read_list(name):
    lines = (ROOT / "tests/matrix" / name).read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="VERSION", help="one version of PyTorch or MindSpore")
    parser.add_argument(
        "--newest", action="store_true", help="the newest PyTorch, with the Python of .venv; CI does this"
    )
    parser.add_argument("--install", action="store_true", help="`pip install .`, no tests")
    parser.add_argument("pytest", nargs="*", help="for pytest, instead of the files of the matrix")
    options = parser.parse_args()
    torches = {torch: Environment(torch, minor) for torch, minor in read_list("versions.txt")}
    if options.newest:
        options.only = [*torches][-1]
        torches[options.only] = Environment(options.only, f"{sys.version_info.major}.{sys.version_info.minor}")
    versions = {
        **torches,
        **{f"mindspore{version}": MindSporeEnvironment(version) for (version,) in read_list("mindspore.txt")},
    }
    if options.only not in (None, *versions) or (options.install and options.only not in torches):
        parser.error(f"--only {options.only}: there is {', '.join(torches if options.install else versions)}")
    rows, status = [], 0
    for version in [options.only] if options.only else versions:
        environment = versions[version]
        print(f"==> {environment.name}", flush=True)
        try:
            environment.make()
            if not options.install:
                passed, failed, left_out, seconds = environment.test(options.pytest)
                rows.append(row(f"{environment.name} | {environment.minor}", passed, failed, left_out, seconds))
                status = max(status, int(failed > 0))
            if options.install or (not options.only and version == [*torches][-1]):
                installed, failed = environment.install()
                rows.append(installed)
                status = max(status, int(failed))
        except CannotMake as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
    header = "| | Python | passed | failed | left out | time | date |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(header + "\n".join(rows) + "\n")
    print(TABLE.read_text())
    return status


if __name__ == "__main__":
    sys.exit(main())
