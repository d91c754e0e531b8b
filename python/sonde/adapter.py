"""Finds the library that watches PyTorch (`_sonde_torch`), or builds it where it is used.

It is compiled against one torch and one Python: their inner structures differ between minor versions. scripts/setup
builds it into the package; elsewhere the first use builds it into the user's cache, with the host's own compiler. An
untested PyTorch is accepted if the adapter's self-test passes (self_test.py).
    python -m sonde.adapter build       # build now
    python -m sonde.adapter build --libtorch DIR    # the one for C++ programs with the libtorch in DIR (libtorch.py)
    python -m sonde.adapter status      # the existing adapters, as JSON
"""

import argparse
import contextlib
import fcntl
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import adapter_build
from .distribution import complaint_about_another
from .own_files import open_lock, own_directory, real_path, reason, usable
from .torch_installation import (
    NAME,
    PACKAGE,
    TESTED_PYTHON_MINORS,
    AdapterError,
    Torch,
    find_libtorch,
    find_torch,
    python_minor,
)

if TYPE_CHECKING:
    from .library import Library

_BUILT = PACKAGE / "adapters" / "built"  # beside the code that loads it, under the same rules


def load() -> "Library":
    """The extension module `_sonde_torch` for the torch of this process. Raises AdapterError."""
    if NAME not in sys.modules:
        torch = find_torch()
        library = find_or_build(torch)
        try:
            if not torch.is_tested or python_minor() not in TESTED_PYTHON_MINORS:
                _require_self_test(torch, library)
            load_file(library)
        finally:
            if library.parent not in (_BUILT, _own_cache()):  # built for this run only, which has it open by now
                shutil.rmtree(library.parent, ignore_errors=True)
    loaded: Library = sys.modules[NAME]
    return loaded


def load_file(library: pathlib.Path) -> None:
    """Imports `library` as the module `_sonde_torch`. Raises AdapterError."""
    loader = importlib.machinery.ExtensionFileLoader(NAME, str(library))
    spec = importlib.util.spec_from_file_location(NAME, loader.path, loader=loader)
    assert spec is not None
    try:
        if _is_cut_off(library):
            raise ImportError("it is cut off")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except (ImportError, OSError) as error:
        cure = "delete it, and the next run builds it again"
        raise AdapterError(f"cannot load the adapter '{library}': {error}; {cure}") from error
    sys.modules[NAME] = module


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
    torch.refuse_strangers()
    found = find(torch)
    return found or build(torch, _cache_directory(), announce=True)


def find(torch: "Torch") -> pathlib.Path | None:
    """The path of a library already built for `torch` and this Python; None if there is none."""
    name = adapter_build.file_name(torch)
    for directory in (_BUILT, _own_cache()):
        if directory is not None and usable(library := directory / name):
            return library
    return None


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
        return reason(error)
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
    if directory is None or not usable(directory / name):
        return None
    try:
        return (directory / name).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _keep_result(name: str, result: str) -> None:
    """If the cache cannot be written, the next run tests again."""
    with contextlib.suppress(OSError):
        directory = own_directory(_cache_directory(), make=True)
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
            directory = own_directory(directory, make=True)
        lock = open_lock(directory)
    except OSError as error:
        try:
            temporary = real_path(pathlib.Path(tempfile.gettempdir()))
            directory = pathlib.Path(tempfile.mkdtemp(prefix="sonde-adapter-", dir=temporary))
            lock = open_lock(directory)
        except OSError as other:
            raise AdapterError(f"cannot build the adapter: {reason(error)}, and {reason(other)}; {_CURE}") from other
        if announce:
            _say(f"sonde: cannot keep the adapter: {reason(error)}; it is built for this run only; {_CURE}")
    library = directory / adapter_build.file_name(torch)
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not usable(library):  # another process may have built it while we waited
            started = time.monotonic()
            if announce:
                _say(f"sonde: building the adapter for PyTorch {torch.version} (only once) ... ", end="")
            try:
                adapter_build.compile_adapter(compiler, torch, library)
            except BaseException as error:
                _say("failed" if announce else "", end="\n" if announce else "")
                if isinstance(error, OSError):
                    raise AdapterError(f"cannot build the adapter: {reason(error)}") from error
                raise
            if announce:
                _say(f"{time.monotonic() - started:.0f} s")
    return library


def _check_can_build(torch: Torch) -> list[str]:
    """The compiler. Raises AdapterError when it, headers or libraries are missing, or the versions are unknown."""
    torch.refuse_strangers()
    compiler = adapter_build.find_compiler()
    torch.check_headers()
    return compiler


_CURE = "XDG_CACHE_HOME can name a directory of your own"


def _cache_directory() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base).absolute() / "sonde"


def _own_cache() -> pathlib.Path | None:
    """The cache's path as own_directory() gives it; None if there is none that can be used."""
    try:
        return own_directory(_cache_directory())
    except OSError:
        return None


def _say(text: str, end: str = "\n") -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text + end)
        sys.stderr.flush()


def status() -> dict[str, str]:
    """The facts about this Python for `sonde info`."""
    facts = {"python": platform.python_version(), "executable": sys.executable, "package": str(PACKAGE)}
    if another := complaint_about_another():
        facts["distribution"] = another
    try:
        torch = find_torch()
        facts["torch"] = torch.version
        torch.refuse_strangers()
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
        raise AdapterError(f"cannot build the adapter: {reason(error)}") from error


def _is_being_built() -> bool:
    """Whether a process has the lock of the user's cache."""
    directory = _own_cache()
    if directory is None:
        return False
    try:
        with open_lock(directory) as lock:
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
