"""The PyTorch that an adapter is for: found without importing it. Knows the versions that Sonde supports, and what is
compiled and linked for each."""

import importlib.util
import os
import pathlib
import platform
import re
import runpy
import sys
import sysconfig

from .own_files import reason

# The sources in adapters/torch compile with every torch from the oldest on. They know the frames of these Pythons.
OLDEST_TORCH = (2, 6)
PYTHON_MINORS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Versions that the tests of capture ran with (docs/versions.md); the self-test decides about others.
TESTED_TORCH_MINORS = ("2.6", "2.9", "2.13", "2.15")
TESTED_PYTHON_MINORS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PACKAGE = pathlib.Path(__file__).resolve().parent
SOURCES = PACKAGE / "adapters" / "torch"
NAME = "_sonde_torch"


class AdapterError(Exception):
    """No adapter for this torch and Python; the text contains the reason and a cure."""


class Torch:
    """The torch this Python would import, found without importing it, and what its adapter is made of."""

    name = NAME
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
        return sorted(SOURCES.glob("*.cpp"))

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
            raise AdapterError(f"cannot build the adapter: its sources are missing from '{SOURCES}'; reinstall sonde")

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
        common = (source for source in SOURCES.glob("*.cpp") if source.stem not in OF_PYTHON)
        return sorted([*common, *(SOURCES.parent / "libtorch").glob("*.cpp")])

    def include_directories(self) -> list[str]:
        """The headers of others, without warnings."""
        include = self.directory / "include"
        return [str(include), str(include / "torch" / "csrc" / "api" / "include")]

    def link_flags(self) -> list[str]:
        """Finds libtorch and the engine where they were when it was built."""
        paths = [self.directory / "lib", PACKAGE]
        found = [flag for path in paths for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
        return [*found, "-Wl,--no-as-needed", *(f"-l{name}" for name in (*self.libraries, "sonde"))]

    def refuse_strangers(self) -> None:
        """Any Python may build it."""
        self.refuse_version()

    def check_headers(self) -> None:
        """Raise AdapterError if headers or libraries are missing."""
        self.check_torch()


# Files of adapters/torch that libtorch's adapter has others for, or does without.
OF_PYTHON = {
    "compiled_python",
    "ddp_buckets",
    "first_model",
    "frames",
    "memory",
    "model_tensors",
    "module",
    "place",
    "python_program",
}


def find_libtorch(directory: str) -> Libtorch:
    """The libtorch in `directory`. Raises AdapterError when there is none."""
    path = pathlib.Path(directory).absolute()
    header = path / "include" / "torch" / "headeronly" / "version.h"
    if not header.exists():  # PyTorch up to 2.7
        header = path / "include" / "torch" / "csrc" / "api" / "include" / "torch" / "version.h"
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise AdapterError(f"cannot find libtorch in '{path}': {reason(error)}") from None
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


def _refuse_python() -> None:
    python = python_minor()
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


def python_minor() -> str:
    """`3.11`, of this Python."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
