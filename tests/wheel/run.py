"""Installs the wheels of build/wheels/ where no compiler is, and trains with them an unseen model (training.py).

    .venv/bin/python tests/wheel/run.py                  in every environment that scripts/test --matrix has made
    .venv/bin/python tests/wheel/run.py --only 2.15.0    in one of them
    .venv/bin/python tests/wheel/run.py --here           with this Python, in an environment over its own
    python3 tests/wheel/run.py --new torch==2.14.1       with this Python, and PyTorch from PyPI (on_debian)

PATH has the environment's own commands alone. Same results, statistics as NumPy's, the command: check.py looks. Exit
status: 0 all is well, 1 something is wrong, 2 no wheel fits.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = ROOT / "build/wheels"
MATRIX = ROOT / ".venv-matrix"
FACTS = "import sys, site; print(*sys.version_info[:2], *site.getsitepackages())"


def run(*command, **more):
    return subprocess.run([str(part) for part in command], check=True, stdin=subprocess.DEVNULL, **more)


def wheel_for(minor):
    """Python 3.12 and later share one."""
    tag = f"cp3{minor}-cp3{minor}" if minor < 12 else "cp312-abi3"
    found = sorted(WHEELS.glob(f"tensorsonde-*-{tag}-manylinux*.whl"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def check(python, directory, *options):
    """Whether check.py finds nothing wrong; `python` has the wheel."""
    environment = {"PATH": str(python.parent), "HOME": str(directory), "XDG_CACHE_HOME": str(directory / "cache")}
    command = [python, ROOT / "tests/wheel/check.py", directory / "run", *options]
    return subprocess.run([str(part) for part in command], check=False, env=environment).returncode == 0


def over(python, directory):
    """An environment over that of `python`, with its PyTorch, and the wheel; its Python, or None without a wheel."""
    facts = subprocess.run([python, "-c", FACTS], check=True, capture_output=True, text=True).stdout.split()
    minor, packages = int(facts[1]), facts[2:]
    wheel = wheel_for(minor)
    if wheel is None:
        return None
    run(python, "-m", "venv", directory)
    own = directory / f"lib/python3.{minor}/site-packages"
    (own / "below.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in packages))
    run(directory / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--force-reinstall", wheel)
    return directory / "bin/python"


def new(torch, directory):
    """An environment with packages of PyPI; its Python, or None without a wheel."""
    wheel = wheel_for(sys.version_info.minor)
    if wheel is None:
        return None
    run(sys.executable, "-m", "venv", directory)
    run(directory / "bin/python", "-m", "pip", "install", "-q", torch, "numpy", wheel)
    return directory / "bin/python"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TORCH", help="one version of PyTorch")
    parser.add_argument("--here", action="store_true", help="this Python and its PyTorch, instead of the matrix")
    parser.add_argument("--new", metavar="TORCH", help="this Python and a PyTorch of PyPI, instead of the matrix")
    parser.add_argument("--compiles", action="store_true", help="expect that the wheel has no adapter for this PyTorch")
    options = parser.parse_args()
    options_of_check = ["--compiles"] if options.compiles else []
    if options.new or options.here:
        below = [pathlib.Path(sys.executable)]
    else:
        below = sorted(MATRIX.glob(f"torch{options.only or ''}*/bin/python"))
    status = 0 if below else 2
    for python in below:
        with tempfile.TemporaryDirectory(prefix="sonde-wheel-") as scratch:
            directory = pathlib.Path(scratch)
            made = new(options.new, directory / "venv") if options.new else over(python, directory / "venv")
            if made is None:
                print(f"error: no wheel in {WHEELS} for {python}; scripts/wheel makes them", file=sys.stderr)
                status = 2
            elif not check(made, directory, *options_of_check):
                status = max(status, 1)
    if not below:
        print(f"error: no environment in {MATRIX}; scripts/test --matrix makes them", file=sys.stderr)
    return status


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
