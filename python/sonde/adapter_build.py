"""Compiles an adapter with the host's own compiler: a library under its name is always complete."""

import concurrent.futures
import contextlib
import hashlib
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

from .torch_installation import PACKAGE, SOURCES, AdapterError, Torch

_INCLUDE = PACKAGE / "include"


def compile_adapter(compiler: Sequence[str], torch: Torch, library: pathlib.Path) -> None:
    """Compiles in parallel, links once, then renames: a library under its name is always complete."""
    with tempfile.TemporaryDirectory(prefix="build-", dir=library.parent) as scratch:
        objects: list[str] = []
        jobs: list[list[str]] = []
        flags = [*_compile_flags(torch), f"-I{_INCLUDE}", f"-I{SOURCES}"]
        for unit in _write_units(torch, pathlib.Path(scratch)):
            objects.append(str(unit.with_suffix(".o")))
            jobs.append([*compiler, *flags, "-c", str(unit), "-o", objects[-1]])
        _run_all(jobs, scratch)
        built = os.path.join(scratch, library.name)
        # A symbol that this torch lacks must fail the load: found at the first call, it would end the training.
        at_once = "-Wl,-z,now"
        link = [*compiler, "-shared", at_once, "-o", built, *objects, *torch.link_flags(), *_more_flags()]
        _run_all([link], scratch)
        if not os.path.exists(built):
            raise AdapterError(f"cannot build the adapter: {compiler[0]} wrote no library; is CXX a C++ compiler?")
        os.chmod(built, 0o755)  # whatever the umask: see usable
        os.replace(built, library)


def _write_units(torch: Torch, directory: pathlib.Path) -> list[pathlib.Path]:
    """Two files that include all sources. Most of the time is for reading PyTorch's headers. Those of torch/csrc take
    five times as long as the others, so the sources that need them are one unit. This takes 32 s of processor time; a
    unit for each source took 81 s. A name in an anonymous namespace therefore belongs to all sources."""
    units: dict[str, list[str]] = {"with_autograd": [], "others": []}
    for source in torch.sources():
        heavy = re.search(r"#include <torch/(csrc|nn|optim)/", source.read_text(encoding="utf-8")) is not None
        units["with_autograd" if heavy else "others"].append(f'#include "{source}"\n')
    written = []
    for name, lines in units.items():
        if lines:
            written.append(directory / f"{name}.cpp")
            written[-1].write_text("".join(lines), encoding="utf-8")
    return written


def _compile_flags(torch: Torch) -> list[str]:
    # NDEBUG changes the layout of RecordFunction: it must be the same as in the released torch.
    flags = ["-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden"]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.cxx11_abi)}")
    system = torch.include_directories()
    return flags + [part for directory in system for part in ("-isystem", directory)] + _more_flags()


def _more_flags() -> list[str]:
    """Flags for work on Sonde: warnings as errors, sanitizers. Not CXXFLAGS, which may be meant for another
    compiler."""
    return shlex.split(os.environ.get("SONDE_ADAPTER_CXXFLAGS", ""))


def _run_all(commands: Sequence[list[str]], scratch: str) -> None:
    """Run as many at once as there are cores; raise with the compiler's output if one fails. The compiler's own files
    are in `scratch` too: others may change them in TMPDIR."""

    def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
        return _run(command, os.environ | {"TMPDIR": scratch})

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for command, done in zip(commands, pool.map(run, commands), strict=True):
            if done.returncode != 0:
                raise AdapterError(_compiler_failure(command, done.stdout))


def _run(command: list[str], environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        check=False,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def _compiler_failure(command: Sequence[str], output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    first_error = next((line for line in lines if "error" in line), lines[0] if lines else "it printed nothing")
    return f"cannot build the adapter: {command[0]}: {first_error} (to see all: python -m sonde.adapter build)"


def find_compiler() -> list[str]:
    """The command of the C++ compiler: CXX, or one with a usual name. Raises AdapterError when there is none."""
    try:
        wanted = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise AdapterError(f"cannot build the adapter: CXX is not a command: {str(error).lower()}") from error
    for candidate in [wanted] if wanted else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(candidate[0]):
            return candidate
    what = f"'{wanted[0]}' (from CXX)" if wanted else "a C++ compiler"
    raise AdapterError(f"cannot build the adapter: {what} is not installed; on Debian: apt install g++")


def file_name(torch: Torch) -> str:
    """One name per commit of torch, Python, C++ ABI and state of our sources, so that different libraries never
    collide. The builds of one commit, for CPUs and for each CUDA, have the same classes."""
    digest = hashlib.sha256()
    libstdcxx = "cxx11" if torch.cxx11_abi else "before-cxx11"
    abi = (libstdcxx, platform.machine(), torch.abi[0])
    release = torch.version.partition("+")[0]
    for part in (release, torch.git_version, *abi):
        digest.update(part.encode() + b"\0")
    folders = {source.parent for source in torch.sources()}
    headers = [header for folder in folders for header in folder.glob("*.h")]
    for source in sorted([*torch.sources(), *headers, _INCLUDE / "sonde" / "sonde.h"]):
        with contextlib.suppress(OSError):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return "-".join([torch.name, f"torch{release}", *torch.abi[1:], digest.hexdigest()[:12]]) + ".so"
