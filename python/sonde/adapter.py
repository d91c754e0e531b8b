"""Finds the library that watches PyTorch (`_sonde_torch`), or builds it where it is used.

It is compiled against one torch and one Python: their inner structures differ between minor versions. scripts/setup
builds it into the package; elsewhere the first use builds it into the user's cache, with the host's own compiler. An
untested PyTorch is accepted if the adapter's self-test passes (self_test.py).
    python -m sonde.adapter build       # build now
    python -m sonde.adapter build --libtorch DIR    # the one for C++ programs with the libtorch in DIR (libtorch.py)
    python -m sonde.adapter status      # the existing adapters, as JSON
"""

import argparse
import concurrent.futures
import contextlib
import errno
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import re
import runpy
import shlex
import shutil
import signal
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:  # scripts/sanitize runs this file by itself
    from .library import Library

# The sources in adapters/torch compile with every torch from the oldest on. They know the frames of these Pythons.
OLDEST_TORCH = (2, 6)
PYTHON_MINORS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Versions that the tests of capture ran with (docs/versions.md); the self-test decides about others.
TESTED_TORCH_MINORS = ("2.6", "2.9", "2.13", "2.15")
TESTED_PYTHON_MINORS = ("3.10", "3.11", "3.12", "3.13", "3.14")

_PACKAGE = pathlib.Path(__file__).resolve().parent
_SOURCES = _PACKAGE / "adapters" / "torch"
_INCLUDE = _PACKAGE / "include"
_BUILT = _PACKAGE / "adapters" / "built"  # beside the code that loads it, under the same rules
_NAME = "_sonde_torch"


class AdapterError(Exception):
    """No adapter for this torch and Python; the text contains the reason and a cure."""


def load() -> "Library":
    """The extension module `_sonde_torch` for the torch of this process. Raises AdapterError."""
    if _NAME not in sys.modules:
        torch = find_torch()
        library = find_or_build(torch)
        try:
            if not torch.is_tested or _python_minor() not in TESTED_PYTHON_MINORS:
                _require_self_test(torch, library)
            load_file(library)
        finally:
            if library.parent not in (_BUILT, _own_cache()):  # built for this run only, which has it open by now
                shutil.rmtree(library.parent, ignore_errors=True)
    loaded: Library = sys.modules[_NAME]
    return loaded


def load_file(library: pathlib.Path) -> None:
    """Imports `library` as the module `_sonde_torch`. Raises AdapterError."""
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(library))
    spec = importlib.util.spec_from_file_location(_NAME, loader.path, loader=loader)
    assert spec is not None
    try:
        if _is_cut_off(library):
            raise ImportError("it is cut off")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        cure = "delete it, and the next run builds it again"
        raise AdapterError(f"cannot load the adapter '{library}': {error}; {cure}") from error
    sys.modules[_NAME] = module


def _is_cut_off(library: pathlib.Path) -> bool:
    """Whether a segment reaches beyond the end of the file, as after a full disk: loading it would end the training by
    SIGBUS. The loader itself refuses a file that is not 64-bit ELF."""
    content = library.read_bytes()
    if len(content) < 64 or not content.startswith(b"\x7fELF\x02"):
        return False
    (start,) = struct.unpack_from("=Q", content, 32)
    size, count = struct.unpack_from("=HH", content, 54)
    if start + size * count > len(content):
        return True
    for entry in range(start, start + size * count, size):
        offset, _, _, length = struct.unpack_from("=8x4Q", content, entry)
        if offset + length > len(content):
            return True
    return False


def find_or_build(torch: "Torch | None" = None) -> pathlib.Path:
    """The path of the library: in the package, in the user's cache, or built now. Raises AdapterError."""
    torch = torch or find_torch()
    refuse_strangers(torch)
    found = find(torch)
    return found or build(torch, _cache_directory(), announce=True)


def find(torch: "Torch") -> pathlib.Path | None:
    """The path of a library already built for `torch` and this Python; None if there is none."""
    for directory in (_BUILT, _own_cache()):
        if directory is not None and _usable(library := directory / _file_name(torch)):
            return library
    return None


class Torch:
    """The torch this Python would import, found without importing it, and what its adapter is made of."""

    name = _NAME
    libraries: tuple[str, ...] = ("torch_cpu", "torch_python", "c10")
    # The other things that its adapter depends on: one build for each.
    abi: tuple[str, ...] = (str(sysconfig.get_config_var("SOABI")), str(sys.implementation.cache_tag))

    def __init__(self, directory: pathlib.Path, version: str, git_version: str) -> None:
        self.directory = directory
        self.version = version
        self.git_version = git_version

    @property
    def minor(self) -> str:
        """`2.13` of `2.13.0+cpu`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def is_tested(self) -> bool:
        """True for a release of a minor version in the tests of capture; false for nightly and private builds."""
        return (
            self.minor in TESTED_TORCH_MINORS and re.fullmatch(r"[0-9.]+(\+(cpu|cu[0-9]+))?", self.version) is not None
        )

    def sources(self) -> list[pathlib.Path]:
        """The files that are compiled."""
        return sorted(_SOURCES.glob("*.cpp"))

    def include_directories(self) -> list[str]:
        """The headers of others, without warnings."""
        return [str(self.directory / "include"), sysconfig.get_path("include")]

    def link_flags(self) -> list[str]:
        """Named in the library even if the linker sees no need, as with empty libraries of the right names."""
        lib = self.directory / "lib"
        # The code of packages finds the adapter by this name: python/sonde/compiled/packages.py.
        named = f"-Wl,-soname,{self.name}.so"
        return [named, "-Wl,--no-as-needed", f"-L{lib}", *(f"-l{name}" for name in self.libraries)]

    def refuse_strangers(self) -> None:
        """Raise AdapterError if the adapter does not know the inner structures of this torch or this Python."""
        _refuse_python()
        self.refuse_version()

    def refuse_version(self) -> None:
        """Raise AdapterError if this torch is too old."""
        number = re.match(r"(\d+)\.(\d+)", self.version)
        if number is None or (int(number[1]), int(number[2])) < OLDEST_TORCH:
            oldest = ".".join(map(str, OLDEST_TORCH))
            raise AdapterError(
                f"PyTorch {self.version} is not supported; this version of Sonde knows PyTorch {oldest} and later"
            )

    def check_headers(self) -> None:
        """Raise AdapterError if headers or libraries are missing."""
        if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
            raise AdapterError(
                f"cannot build the adapter: Python.h is not in '{sysconfig.get_path('include')}'; "
                "on Debian: apt install python3-dev"
            )
        self.check_torch()

    def check_torch(self) -> None:
        """The same, of torch alone."""
        if not (self.directory / "include" / "ATen" / "record_function.h").exists():
            where = f"'{self.directory}/include'"
            raise AdapterError(f"cannot build the adapter: this PyTorch has no headers in {where}; reinstall torch")
        for name in self.libraries:
            if not (self.directory / "lib" / f"lib{name}.so").exists():
                where = f"'{self.directory}/lib'"
                raise AdapterError(
                    f"cannot build the adapter: this PyTorch has no lib{name}.so in {where}; reinstall torch"
                )
        if not self.sources():
            raise AdapterError(f"cannot build the adapter: its sources are missing from '{_SOURCES}'; reinstall sonde")

    @property
    def cxx11_abi(self) -> bool:
        """Whether it was compiled with the C++11 ABI of libstdc++; wheels up to 2.6 were not."""
        try:
            text = (self.directory / "share" / "cmake" / "Torch" / "TorchConfig.cmake").read_text(errors="replace")
        except OSError:
            return True
        return "_GLIBCXX_USE_CXX11_ABI=0" not in text


class Libtorch(Torch):
    """The libtorch of a C++ program: a directory with include/ and lib/, as the package torch is, and PyTorch's archive
    for C++. Its adapter, libsonde_torch.so, is loaded before libtorch and knows no Python."""

    name = "libsonde_torch"
    libraries = ("torch_cpu", "c10")
    abi = ("",)

    def sources(self) -> list[pathlib.Path]:
        """Those of Python's adapter that know no Python, and those in their place."""
        common = (source for source in _SOURCES.glob("*.cpp") if source.stem not in _OF_PYTHON)
        return sorted([*common, *(_SOURCES.parent / "libtorch").glob("*.cpp")])

    def include_directories(self) -> list[str]:
        """The headers of others, without warnings."""
        include = self.directory / "include"
        return [str(include), str(include / "torch" / "csrc" / "api" / "include")]

    def link_flags(self) -> list[str]:
        """Finds libtorch and the engine where they were when it was built."""
        paths = [self.directory / "lib", _PACKAGE]
        found = [flag for path in paths for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
        return [*found, "-Wl,--no-as-needed", *(f"-l{name}" for name in (*self.libraries, "sonde"))]

    def refuse_strangers(self) -> None:
        """Any Python may build it."""
        self.refuse_version()

    def check_headers(self) -> None:
        """Raise AdapterError if headers or libraries are missing."""
        self.check_torch()


# Files of adapters/torch that libtorch's adapter has others for, or does without.
_OF_PYTHON = {"compiled_python", "frames", "memory", "model_tensors", "module", "place", "python_program"}


def find_libtorch(directory: str) -> Libtorch:
    """The libtorch in `directory`. Raises AdapterError when there is none."""
    path = pathlib.Path(directory).absolute()
    header = path / "include" / "torch" / "headeronly" / "version.h"
    if not header.exists():  # PyTorch up to 2.7
        header = path / "include" / "torch" / "csrc" / "api" / "include" / "torch" / "version.h"
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AdapterError(f"cannot find libtorch in '{path}': {_reason(error)}") from None
    version = re.search(r'#define TORCH_VERSION "([^"]+)"', text)
    numbers = [re.search(rf"#define TORCH_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    if version is None and None in numbers:
        raise AdapterError(f"cannot read the version of libtorch in '{header}'")
    number = version[1] if version else ".".join(match[1] for match in numbers if match)
    built = path / "build-hash"
    return Libtorch(path, number, built.read_text().strip() if built.exists() else "")


def find_torch() -> Torch:
    """The Torch of this Python. Raises AdapterError when there is none."""
    try:
        spec = importlib.util.find_spec("torch")
    except ValueError:  # somebody put a module without a spec into its place
        spec = None
    if spec is None or not spec.origin:
        raise AdapterError(f"cannot find PyTorch in {sys.executable}")
    directory = pathlib.Path(spec.origin).parent
    try:
        facts = runpy.run_path(str(directory / "version.py"))
        return Torch(directory, str(facts["__version__"]), str(facts.get("git_version")))
    except Exception as error:  # it is a program, and half of one may raise anything
        what = f"{error} ({type(error).__name__})"
        raise AdapterError(f"cannot read the version of PyTorch in '{directory}': {what}; reinstall torch") from error


def refuse_strangers(torch: Torch) -> None:
    """Raise AdapterError if the adapter does not know the inner structures of this torch or this Python."""
    torch.refuse_strangers()


def _refuse_python() -> None:
    python = _python_minor()
    if platform.python_implementation() != "CPython" or python not in PYTHON_MINORS:
        raise AdapterError(
            f"Python {platform.python_implementation()} {platform.python_version()} is not supported; "
            f"this version of Sonde knows CPython {PYTHON_MINORS[0]} to {PYTHON_MINORS[-1]}"
        )
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise AdapterError(
            f"the free-threaded build of Python {platform.python_version()} is not supported; "
            f"use the build with the GIL (python{python}, not python{python}t)"
        )


def _python_minor() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _require_self_test(torch: Torch, library: pathlib.Path) -> None:
    """The adapter was not tested with this torch, or this Python: tests it once, in a separate process, and keeps the
    result. Raises AdapterError if the test fails."""
    untried = f"Python {platform.python_version()}" if torch.is_tested else f"PyTorch {torch.version}"
    name = f"{library.stem}.self-test"
    result = _kept_result(name)
    if result is None:
        _say(f"sonde: {untried} is not a tested version; testing the adapter (only once) ... ", end="")
        result = run_self_test(library)
        _say("passed" if result == _PASSED else "failed")
        _keep_result(name, result)
    elif result == _PASSED:
        _say(f"sonde: {untried} is not a tested version; the adapter's self-test passed")
    if result != _PASSED:
        raise AdapterError(f"{untried} is not a tested version, and the adapter's self-test failed: {result}")


_PASSED = "passed"
_SELF_TEST_SECONDS = 300


def run_self_test(library: pathlib.Path) -> str:
    """`passed`, or the reason why not: a small training, recorded by `library` in a child process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SONDE_", "MINDSPORE_"))}
    environment |= {"SONDE_OFF": "1", "CUDA_VISIBLE_DEVICES": ""}
    program = "import sys; sys.path[:] = sys.argv[2:]; from sonde import self_test; self_test.main(sys.argv[1])"
    command = [sys.executable, "-c", program, str(library), *_own_path()]
    try:
        done = subprocess.run(
            command,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SELF_TEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"it was not done after {_SELF_TEST_SECONDS} s"
    except OSError as error:
        return _reason(error)
    lines = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
    if done.returncode < 0:
        return f"it was ended by {signal.Signals(-done.returncode).name}"
    if done.returncode != 0:
        return lines[-1] if lines else f"exit status {done.returncode}"
    return _PASSED if lines[-1:] == [_PASSED] else "it ended without a result"


def _own_path() -> list[str]:
    """sys.path as arguments for a child."""
    return [entry or os.getcwd() for entry in sys.path]


def _kept_result(name: str) -> str | None:
    directory = _own_cache()
    if directory is None or not _usable(directory / name):
        return None
    try:
        return (directory / name).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _keep_result(name: str, result: str) -> None:
    """If the cache cannot be written, the next run tests again."""
    with contextlib.suppress(OSError):
        directory = _own_directory(_cache_directory(), make=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=directory, delete=False) as file:
            file.write(result + "\n")
        os.replace(file.name, directory / name)


def build(torch: Torch, directory: pathlib.Path, announce: bool = False) -> pathlib.Path:
    """Compile the adapter into `directory`, unless it is there; several processes may do so at once. Returns its path.
    `announce`: prints a line on stderr, since it takes a minute. Raises AdapterError."""
    compiler = _check_can_build(torch)
    try:
        if directory == _BUILT:
            directory.mkdir(parents=True, exist_ok=True)
        else:
            directory = _own_directory(directory, make=True)
        lock = _open_lock(directory)
    except OSError as error:
        try:
            temporary = _real_path(pathlib.Path(tempfile.gettempdir()))
            directory = pathlib.Path(tempfile.mkdtemp(prefix="sonde-adapter-", dir=temporary))
            lock = _open_lock(directory)
        except OSError as other:
            raise AdapterError(f"cannot build the adapter: {_reason(error)}, and {_reason(other)}; {_CURE}") from other
        if announce:
            _say(f"sonde: cannot keep the adapter: {_reason(error)}; it is built for this run only; {_CURE}")
    library = directory / _file_name(torch)
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _usable(library):  # another process may have built it while we waited
            started = time.monotonic()
            if announce:
                _say(f"sonde: building the adapter for PyTorch {torch.version} (only once) ... ", end="")
            try:
                _compile(compiler, torch, library)
            except BaseException as error:
                _say("failed" if announce else "", end="\n" if announce else "")
                if isinstance(error, OSError):
                    raise AdapterError(f"cannot build the adapter: {_reason(error)}") from error
                raise
            if announce:
                _say(f"{time.monotonic() - started:.0f} s")
    return library


def _check_can_build(torch: Torch) -> list[str]:
    """The compiler. Raises AdapterError when it, headers or libraries are missing, or the versions are unknown."""
    refuse_strangers(torch)
    compiler = _compiler()
    torch.check_headers()
    return compiler


_CURE = "XDG_CACHE_HOME can name a directory of your own"


def _open_lock(directory: pathlib.Path) -> IO[bytes]:
    """The file `.lock`, only used as a lock: it is never emptied, and anything but a file of this user is refused."""
    path = directory / ".lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = open(path, "r+b", buffering=0, opener=lambda name, _: os.open(name, flags, 0o600))  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        file.close()
        raise PermissionError(errno.EPERM, f"expected a file of user {os.geteuid()}", str(path))
    return file


def _own_directory(directory: pathlib.Path, make: bool = False) -> pathlib.Path:
    """_real_path() of a directory of this user that others cannot put anything into. Raises OSError."""
    path = _real_path(directory, make)
    _check_place(path, os.lstat(path), is_last=True)
    return path


def _real_path(directory: pathlib.Path, make: bool = False) -> pathlib.Path:
    """The path of `directory` without links, of which only root and this user can exchange a part: what is checked
    there is what is loaded later. Raises OSError for a link of another user, or a directory on the way that others may
    change. `make`: makes missing directories, whose mode is never left to the umask."""
    at, names, links = pathlib.Path("/"), list(reversed(directory.absolute().parts[1:])), 0
    _check_place(at, os.lstat(at))
    while names:
        name = names.pop()
        place = at.parent if name == ".." else at / name
        status = _made(place) if make else os.lstat(place)
        if not stat.S_ISLNK(status.st_mode):
            _check_place(place, status)
            at = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
        if status.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, f"it is a symbolic link of user {status.st_uid}", str(place))
        target = pathlib.PurePath(os.readlink(place))
        at = pathlib.Path("/") if target.is_absolute() else at
        names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return at


def _made(directory: pathlib.Path) -> os.stat_result:
    if not os.path.lexists(directory):
        directory.mkdir(mode=0o700, exist_ok=True)
    return os.lstat(directory)


_MOST_LINKS = 40  # as the kernel


def _check_place(place: pathlib.Path, status: os.stat_result, is_last: bool = False) -> None:
    """Raise OSError unless `place` is a directory in which others cannot exchange what belongs to this user or root;
    the last one is this user's, and others can put nothing into it."""
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    if status.st_uid not in ((os.geteuid(),) if is_last else (0, os.geteuid())):
        raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(place))
    # A user's private group, as assumed by umask 002, has no other members.
    others = status.st_mode & (0o002 if status.st_gid == os.getegid() and not is_last else 0o022)
    if others and (is_last or not status.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(status.st_mode)
        raise PermissionError(errno.EPERM, f"others may write to it (mode {mode:04o})", str(place))


def _reason(error: OSError) -> str:
    return f"'{error.filename}': {error.strerror}" if error.filename else str(error)


def _compile(compiler: Sequence[str], torch: Torch, library: pathlib.Path) -> None:
    """Compiles in parallel, links once, then renames: a library under its name is always complete."""
    with tempfile.TemporaryDirectory(prefix="build-", dir=library.parent) as scratch:
        objects: list[str] = []
        jobs: list[list[str]] = []
        flags = [*_compile_flags(torch), f"-I{_INCLUDE}", f"-I{_SOURCES}"]
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
        os.chmod(built, 0o755)  # whatever the umask: see _usable
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


def _compiler() -> list[str]:
    try:
        wanted = shlex.split(os.environ.get("CXX", ""))
    except ValueError as error:
        raise AdapterError(f"cannot build the adapter: CXX is not a command: {str(error).lower()}") from error
    for candidate in [wanted] if wanted else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(candidate[0]):
            return candidate
    what = f"'{wanted[0]}' (from CXX)" if wanted else "a C++ compiler"
    raise AdapterError(f"cannot build the adapter: {what} is not installed; on Debian: apt install g++")


def _file_name(torch: Torch) -> str:
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


def _cache_directory() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base).absolute() / "sonde"


def _usable(library: pathlib.Path) -> bool:
    """False for a library that another user could have put there; it is not loaded."""
    try:
        status = library.lstat()  # not of a link's target
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def _own_cache() -> pathlib.Path | None:
    """The cache's path as _own_directory() gives it; None if there is none that can be used."""
    try:
        return _own_directory(_cache_directory())
    except OSError:
        return None


def _say(text: str, end: str = "\n") -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text + end)
        sys.stderr.flush()


def status() -> dict[str, str]:
    """The facts about this Python for `sonde info`."""
    facts = {"python": platform.python_version(), "executable": sys.executable, "package": str(_PACKAGE)}
    try:
        torch = find_torch()
        facts["torch"] = torch.version
        refuse_strangers(torch)
        library = find(torch)
        facts["adapter"] = str(library or ("being built" if _is_being_built() else "not built yet; built on first use"))
    except AdapterError as error:
        facts["problem"] = str(error)
    return facts


def build_in_background(torch: Torch) -> None:
    """Start a process that compiles the adapter into the user's cache and outlives this one. Where it fails, the first
    training names the reason. Raises AdapterError when it could not even start."""
    _check_can_build(torch)
    program = (
        "import os, sys; os.nice(10); sys.path[:] = sys.argv[1:]; from sonde import adapter; adapter.main(['build'])"
    )
    command = [sys.executable, "-c", program, *_own_path()]
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
    except OSError as error:
        raise AdapterError(f"cannot build the adapter: {_reason(error)}") from error


def _is_being_built() -> bool:
    """Whether a process has the lock of the user's cache."""
    directory = _own_cache()
    if directory is None:
        return False
    try:
        with _open_lock(directory) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m sonde.adapter`. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sonde.adapter", description="The library that watches PyTorch.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("build", help="build it now, unless it is there")
    make.add_argument("--into-package", action="store_true", help="beside the package instead of the user's cache")
    make.add_argument("--background", action="store_true", help="return at once; into the user's cache")
    verbs.add_parser("status", help="the existing adapters, as JSON")
    make.add_argument("--libtorch", metavar="DIR", help="for C++ programs: the directory of include/ and lib/")
    options = parser.parse_args(arguments)
    if options.verb == "status":
        print(json.dumps(status()))
        return 0
    try:
        torch = find_libtorch(options.libtorch) if options.libtorch else find_torch()
        if options.background and (found := find(torch)) is None:
            build_in_background(torch)
            what = f"the adapter for PyTorch {torch.version}"
            print(f"sonde: building {what} in the background; `sonde info` shows its state")
        elif options.background:
            print(found)
        else:
            directory = _BUILT if options.into_package else _cache_directory()
            found = find(torch) if options.libtorch else None
            print(found or build(torch, directory, announce=True))
    except AdapterError as error:
        print(f"sonde: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
