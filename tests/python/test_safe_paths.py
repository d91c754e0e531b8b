"""Directories that other users have prepared, commands that are started there, and a dump's facts about its user."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import CLI, preloading, run_in, settings_of

STRANGER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user: runs as root")

# Trains once for each case, in one process: `import torch` is slow. Prints the results, hex digit by hex digit.
PROGRAM = """
import json, os, sys
import sonde
import torch

torch.set_num_threads(1)


def train():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = network(torch.ones(2, 4)).square().sum()
        loss.backward()
        optimizer.step()
    return [p.detach().double().sum().item().hex() for p in network.parameters()]


results = {"bare": train()}
for name, settings in json.load(open(sys.argv[1])).items():
    sys.stderr.write(f"case {name}\\n")
    sys.stderr.flush()
    sonde.start(settings)
    results[name] = train()
    sonde.stop()
print(json.dumps(results))
"""

TREE = "rank_0", "rank_0/.dump_metadata", "rank_0/.dump_metadata/sonde"
NAMES = (
    ".",
    *TREE,
    "rank_0/Net",
    "rank_0/Net/0",
    "rank_0/Net/0/0",
    "rank_0/Net/0/0/statistic.csv",
    "rank_0/Net/0/0/mapping.csv",
    "rank_0/execution_order",
    "rank_0/execution_order/ms_execution_order_graph_0.csv",
    "rank_0/graphs",
    "rank_0/graphs/sources",
    "rank_0/graphs/steps_graph_0.csv",
    "rank_0/.dump_metadata/data_dump.json",
    "rank_0/.dump_metadata/config.json",
    "rank_0/.dump_metadata/sonde/journal",
    "rank_0/.dump_metadata/sonde/owner",
    "rank_0/.dump_metadata/sonde/partial",
    "rank_0/.dump_metadata/sonde/partial/7",
)
KINDS = ("link to a file", "link to a directory", "dangling link", "pipe", "directory")


def plant(kind, at, victim):
    if kind == "pipe":
        os.mkfifo(at)
    elif kind == "directory":
        at.mkdir(mode=0o777)
        at.chmod(0o777)
    else:
        at.symlink_to(victim / {"link to a file": "file", "link to a directory": "directory"}.get(kind, "new"))


def picture(directory):
    """Everything below it: kinds, owners, modes, times, contents."""
    seen = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        text = path.read_text() if path.is_file() and not path.is_symlink() else ""
        seen[str(path)] = (status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns, text)
    return seen


def make_victim(directory):
    (directory / "directory" / "5").mkdir(parents=True)
    for name in ("file", "directory/0", "directory/5/1", "directory/journal", "directory/owner"):
        (directory / name).write_text("precious")
    return directory


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Root trains into many places, each prepared by another user: messages, results and changes."""
    directory = tmp_path_factory.mktemp("prepared")
    victim = make_victim(directory / "victim")
    cases = {}
    for number, (name, kind) in enumerate((name, kind) for name in NAMES for kind in KINDS):
        root = directory / f"place{number}" / "dump"
        at = root if name == "." else root / name
        at.parent.mkdir(parents=True)
        plant(kind, at, victim)
        for path in [at, *at.parents]:
            if path == directory:
                break
            os.lchown(path, STRANGER, STRANGER)
        cases[f"{kind} at {name}"] = root
    before = picture(directory)
    (directory / "cases.json").write_text(
        json.dumps({n: settings_of(root, None, None, {"saved_data": "full"}) for n, root in cases.items()})
    )
    (directory / "train.py").write_text(PROGRAM)
    run = run_in(directory, directory, sys.executable, "train.py", "cases.json")
    assert run.status == 0, run.stderr
    lines = {part.splitlines()[0]: part.splitlines()[1:] for part in run.stderr.split("case ")[1:]}
    after = picture(directory)
    for name in ("cases.json", "train.py"):
        after.pop(str(directory / name))
    return {"results": json.loads(run.stdout), "lines": lines, "before": before, "after": after, "cases": cases}


@needs_root
def test_nothing_in_or_behind_a_strangers_place_changes(prepared):
    assert prepared["after"] == prepared["before"]


@needs_root
def test_the_training_goes_on_bit_by_bit(prepared):
    results = dict(prepared["results"])
    bare = results.pop("bare")
    assert {name for name, result in results.items() if result != bare} == set()


@needs_root
def test_one_line_names_the_path_the_owner_or_kind_and_the_cure(prepared):
    assert set(prepared["lines"]) == set(prepared["cases"])
    for case, lines in prepared["lines"].items():
        refusals = [line for line in lines if "cannot record to" in line]
        assert len(refusals) == 1, (case, lines)
        assert str(prepared["cases"][case].parent) in refusals[0]
        assert f"user {STRANGER}" in refusals[0] or "others may write" in refusals[0], refusals[0]
        assert "choose" in refusals[0] or "remove it" in refusals[0]


# --- commands in a directory of another user --------------------------------------------------------------------------

TRAP = "import pathlib, sys\npathlib.Path(__file__).with_name('sprung').write_text(__name__)\n"


@pytest.fixture
def trapped(tmp_path):
    """A directory whose modules would be imported by a Python that looks there first."""
    for name in ("numpy.py", "sonde.py", "json.py", "argparse.py", "torch.py", "sitecustomize.py"):
        (tmp_path / name).write_text(TRAP)
    return tmp_path


@pytest.mark.parametrize("python_path", [None, "", ":", ".", ":/nonexistent"])
@pytest.mark.parametrize("command", [["info"], ["export", ".", "--to", "out.npz"]])
def test_python_is_started_without_the_current_directory(trapped, command, python_path):
    environment = {} if python_path is None else {"PYTHONPATH": python_path}
    run = run_in(trapped, trapped, CLI, *command, **environment)
    assert "Traceback" not in run.stderr, run.stderr
    assert not (trapped / "sprung").exists(), (trapped / "sprung").read_text()
    assert command[0] != "info" or "torch" in run.stdout


def test_msaccucmp_py_runs_the_program_of_its_own_installation_only(tmp_path):
    import sonde

    script = Path(sonde.__file__).with_name("msaccucmp.py")
    package = tmp_path / "above" / "venv" / "lib" / "python3.11" / "site-packages" / "sonde"
    package.mkdir(parents=True)
    shutil.copy(script, package)

    def program(directory, word):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "sonde").write_text(f"#!/bin/sh\necho {word}\n")
        (directory / "sonde").chmod(0o755)
        return directory

    def said(path):
        return subprocess.run(
            [sys.executable, "-I", package / "msaccucmp.py"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path / "above",
            env={"PATH": path},
        ).stdout.strip()

    for place in ("above/bin", "above/venv/lib/bin", "above/venv/lib/python3.11/bin", "bin"):
        program(tmp_path / place, "a stranger's")
    program(tmp_path / "above", "of the current directory")
    good = program(tmp_path / "good", "of the path")
    assert said(f":.:{good}") == "of the path"
    program(tmp_path / "above" / "venv" / "bin", "its own")
    assert said(f":.:{good}") == "its own"


# --- files that commands write ----------------------------------------------------------------------------------------


@pytest.fixture
def arrays(tmp_path):
    import numpy as np

    np.save(tmp_path / "a.npy", np.arange(4, dtype=np.float32))
    np.save(tmp_path / "b.npy", np.arange(1, 5, dtype=np.float32))
    make_victim(tmp_path / "victim")
    return tmp_path


def compare_into(arrays, path):
    return run_in(arrays, arrays, CLI, "compare", "a.npy", "b.npy", "--csv", path, timeout=20)


@needs_root
@pytest.mark.parametrize("kind", ["link to a file", "dangling link", "pipe", "file"])
def test_an_output_that_a_stranger_has_put_there_is_not_written_through(arrays, kind):
    path = arrays / "out.csv"
    if kind == "file":
        path.write_text("his")
    else:
        plant(kind, path, arrays / "victim")
    os.lchown(path, STRANGER, STRANGER)
    before = picture(arrays / "victim")
    run = compare_into(arrays, path)
    assert f"cannot write '{path}'" in run.stderr
    assert picture(arrays / "victim") == before
    assert kind != "file" or path.read_text() == "his"


def test_an_output_may_be_a_link_or_a_file_of_the_users_own_and_a_device(arrays):
    (arrays / "out.csv").symlink_to(arrays / "victim" / "file")
    assert "cannot write" not in compare_into(arrays, arrays / "out.csv").stderr
    text = (arrays / "victim" / "file").read_text()
    assert "precious" not in text and "," in text
    assert text.splitlines()[0] in compare_into(arrays, "/dev/stdout").stdout


# --- facts about the user in a dump -----------------------------------------------------------------------------------

TOKEN, SOURCE_WORD = "hf_Secret31337", "a_name_in_the_source"

PERSONAL = f"""
import sys
import torch

{SOURCE_WORD} = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD({SOURCE_WORD}.parameters(), lr=0.1)
{SOURCE_WORD}(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""


def bytes_below(directory):
    return b"".join(
        str(path.relative_to(directory)).encode() + b"\0" + (path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
    )


@pytest.mark.parametrize("layout", ["mindspore-2.7", "mindspore-1.2", "o2"])
def test_a_private_dump_holds_neither_the_command_line_nor_sources_nor_absolute_paths(tmp_path, layout):
    (tmp_path / "train.py").write_text(PERSONAL)
    found = {}
    for private in (False, True):
        dump = tmp_path / f"dump{private}"
        config = tmp_path / "data_dump.json"
        settings = {"layout": layout, "private": private}
        common = {"saved_data": "statistic" if layout != "mindspore-1.2" else "tensor"}
        config.write_text(json.dumps(settings_of(dump, None, settings, common)))
        run = run_in(tmp_path, dump, sys.executable, "train.py", "--token", TOKEN, MINDSPORE_DUMP_CONFIG=config)
        assert run.status == 0 and "recorded" in run.stderr, run.stderr
        everything = bytes_below(dump)
        assert b"linear" in everything
        words = {"token": TOKEN, "source": SOURCE_WORD, "path": str(tmp_path), "file": "train.py"}
        found[private] = {name for name, word in words.items() if word.encode() in everything}
    assert found[False] == {"token", "source", "path", "file"}
    assert found[True] == {"file"}, "the name of the file stays: it says which line to look at"


# --- a file that becomes shorter while it is read ---------------------------------------------------------------------

SHORTENS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  void* (*real)(void*, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
  void* mapped = real(at, bytes, protection, flags, fd, offset);
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = fd < 0 ? -1 : readlink(link, path, sizeof path - 1);
  if (length > 4 && memcmp(path + length - 4, ".npy", 4) == 0) {
    path[length] = 0;
    if (truncate(path, 100) != 0) perror(path);
  }
  return mapped;
}
"""


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error_and_no_signal(tmp_path):
    import numpy as np

    np.save(tmp_path / "a.npy", np.ones(1 << 20, np.float32))
    (tmp_path / "shorten.c").write_text(SHORTENS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "shorten.so", "shorten.c", "-ldl"], cwd=tmp_path, check=True)
    run = run_in(tmp_path, tmp_path, CLI, "show", tmp_path / "a.npy", LD_PRELOAD=preloading(tmp_path / "shorten.so"))
    assert run.status == 3, (run.status, run.stderr)
    assert "became shorter while it was read" in run.stderr
