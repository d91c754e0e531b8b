"""sonde/sonde.h: hosts in C of today and of older headers, and adapters that were built for another version."""

import ctypes
import importlib.metadata
import json
import pathlib
import re
import subprocess

import numpy as np
import pytest
import tomllib

import sonde
from sonde import _core, adapter, mindspore

ROOT = pathlib.Path(__file__).parent.parent.parent
SOURCES = pathlib.Path(__file__).parent / "c_abi"
PACKAGE = pathlib.Path(sonde.__file__).parent
CURE = "install both from one version of Sonde"


def run(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False)


def compile_c(source, program, *options):
    built = run(
        *("cc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", SOURCES / source, f"-I{PACKAGE / 'include'}"),
        *(*options, PACKAGE / "libsonde.so", f"-Wl,-rpath,{PACKAGE}", "-o", program),
    )
    assert built.returncode == 0, built.stderr
    return program


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Header -> the host compiled with it."""
    directory = tmp_path_factory.mktemp("hosts")
    headers = {"today": "sonde/sonde.h", "short": "sonde_2_short.h", "1": "sonde_1.h"}
    return {
        name: compile_c("host.c", directory / name, f'-DHEADER="{header}"', f"-I{SOURCES}")
        for name, header in headers.items()
    }


@pytest.fixture
def config(tmp_path):
    common = {"dump_mode": 0, "path": str(tmp_path / "dump"), "net_name": "Net", "iteration": "all", "kernels": []}
    common |= {"saved_data": "tensor", "input_output": 0, "support_device": [0]}
    file = tmp_path / "data_dump.json"
    file.write_text(json.dumps({"common_dump_settings": common, "e2e_dump_settings": {"enable": True}}))
    return file


@pytest.mark.parametrize("header", ["today", "short"])
def test_a_host_in_c_records_with_todays_header_and_with_one_whose_structs_are_shorter(hosts, config, tmp_path, header):
    recorded = run(hosts[header], config)
    assert (recorded.returncode, recorded.stderr) == (0, "")
    assert "recorded 1 ops and" in recorded.stdout
    (output,) = (tmp_path / "dump").glob("rank_5/Net/0/0/mul.*.output.0.*.npy")
    assert np.array_equal(np.load(output), [[2, 4, 6], [8, 10, 12]])


def test_a_host_of_version_1_gets_no_table(hosts, config, tmp_path):
    refused = run(hosts["1"], config)
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", "of another version\n")
    assert not (tmp_path / "dump").exists()


def mismatch(version, size):
    library = ctypes.CDLL(str(PACKAGE / "libsonde.so"))
    library.sonde_api_mismatch.restype = ctypes.c_char_p
    text = library.sonde_api_mismatch(version, size)
    return text and text.decode()


class Table(ctypes.Structure):
    """The head of struct sonde_api, the same in every version from 2 on."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("mismatch", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)),
    )


def head():
    return Table.from_address(_core.api())


def test_the_library_says_in_one_line_what_does_not_fit():
    version, size = head().version, head().size
    assert mismatch(version, size) is None
    assert mismatch(version, size - 8) is None, "an adapter that knows fewer functions"
    text = (
        f"libsonde.so {sonde.__version__} has version {version} of the C ABI, and the adapter was built for version 1"
    )
    assert mismatch(1, size) == f"{text}; {CURE}"
    assert mismatch(version, size + 8) == (
        f"libsonde.so {sonde.__version__} is older than the adapter: its function table has {size} bytes, "
        f"and the adapter needs {size + 8}; {CURE}"
    )


def load_into_torch(address):
    import torch  # noqa: F401  its libraries are those of the adapter

    adapter.load().load(address)


def load_into_mindspore(address):
    library = ctypes.CDLL(str(PACKAGE / "_mindspore.so"))
    library.sonde_mindspore_set_engine.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    library.sonde_mindspore_set_engine.restype = ctypes.c_char_p
    info = mindspore.RunInfo(size=ctypes.sizeof(mindspore.RunInfo), host=b"a test", command=b"test")
    why_not = library.sonde_mindspore_set_engine(address, ctypes.byref(info), b"")
    if why_not is not None:
        raise RuntimeError(why_not.decode())


@pytest.fixture(params=[load_into_torch, load_into_mindspore])
def load(request):
    yield request.param
    request.param(_core.api())


def test_an_adapter_refuses_the_table_of_an_older_library(load):
    table = Table(size=4096, version=1, engine=b"0.0.9")
    with pytest.raises(RuntimeError, match=rf"has version 1 of the C ABI, .* built for version 2 or later; {CURE}$"):
        load(ctypes.addressof(table))


def test_an_adapter_asks_the_table_of_a_newer_library(load):
    line = ctypes.create_string_buffer(b"libsonde.so 9.9 has version 3 of the C ABI")
    asked = []

    def answer(version, size):
        asked.append((version, size))
        return ctypes.addressof(line)

    table = Table(size=4096, version=3, engine=b"9.9", mismatch=Table._fields_[3][1](answer))
    with pytest.raises(RuntimeError, match=r"^libsonde\.so 9\.9 has version 3 of the C ABI$"):
        load(ctypes.addressof(table))
    assert asked == [(head().version, head().size)]


def test_an_adapter_takes_a_table_that_has_grown(load):
    grown = ctypes.create_string_buffer(head().size + 64)
    ctypes.memmove(grown, _core.api(), head().size)
    Table.from_buffer(grown).size += 64
    load(ctypes.addressof(grown))


def test_the_mirror_of_run_info_lies_as_the_struct_does(tmp_path):
    printed = run(compile_c("run_info.c", tmp_path / "run_info")).stdout.split()
    offsets = dict(zip(printed[::2], map(int, printed[1::2]), strict=True))
    total = offsets.pop("total")
    assert {name: getattr(mindspore.RunInfo, name).offset for name, _ in mindspore.RunInfo._fields_} == offsets
    assert ctypes.sizeof(mindspore.RunInfo) == total


def test_every_version_is_the_one_in_cmakelists(hosts, config):
    version = re.search(r"project\(sonde VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == version
    assert sonde.__version__ == version
    assert importlib.metadata.version("tensorsonde") == version
    assert run(hosts["today"], config).stdout.splitlines()[0] == version
    assert (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1].startswith(version)
