"""Kills recorded trainings at random moments and looks whether anything that was written is lost.

    python tests/kills/run.py --kills 200

One process imports PyTorch; each training is a fork of it. Afterwards every reader has to agree: the files on disk, the
second journal reader, `sonde.open`, `sonde ls`, `sonde stats`, `sonde verify`; and once more after `--complete`.
"""

import argparse
import collections
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))

import journal_reader
import numpy as np
import torch
from processes import CLI

import sonde

KINDS = ["killed", "crashed in an operator", "aborted", "file size limit", "file size limit, signal", "full disk"]
LAYOUTS = ["mindspore-2.7", "mindspore-2.7", "mindspore-2.3", "mindspore-2.0"]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 16)
        self.out = torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.relu(self.fc(x)))


@torch.library.custom_op("kills::end", mutates_args=())
def end(x: torch.Tensor, how: str) -> torch.Tensor:
    """An operator that does what a wrong kernel does."""
    if how == "crash":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()
    return x.clone()


def train(config, kind, last_step, ready):
    """The child: trains until something ends it, or `last_step` steps."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # the message of a crash
    torch.manual_seed(0)
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    sonde.start(config)
    for step in range(last_step + 1):
        optimizer.zero_grad()
        y = network(torch.randn(4, 16))
        if step == last_step:
            y = end(y, {"crashed in an operator": "crash", "aborted": "abort"}.get(kind, ""))
        y.square().mean().backward()
        optimizer.step()
        if step == 0:
            os.write(ready, b"1")
    sonde.stop()


def limit_files(chance, with_signal):
    limit = chance.choice([600, 2000, 9000, 30000])
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL if with_signal else signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_killed(config, kind, chance):
    """Trains in a fork and ends it; gives the wait status."""
    read, write = os.pipe()
    last_step = chance.randrange(1, 12) if kind in ("crashed in an operator", "aborted") else 400
    if kind in ("file size limit", "full disk"):
        last_step = 12  # the training goes on
    delay = chance.uniform(0, 0.4)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if kind.startswith("file size"):
                limit_files(chance, kind.endswith("signal"))
            train(config, kind, last_step, write)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    os.read(read, 1)
    os.close(read)
    if kind == "killed":
        time.sleep(delay)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def sonde_says(*arguments, expect=(0,)):
    environment = os.environ | {"SONDE_INDEX": "off"}
    result = subprocess.run(
        [CLI, *map(str, arguments), "--json"], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode in expect, (arguments, result.returncode, result.stdout[-2000:], result.stderr[-2000:])
    return json.loads(result.stdout)


def tensor_files(dump):
    return {path for path in dump.rglob("*.npy") if ".dump_metadata" not in path.parts}


def contents(paths):
    return {path: hashlib.sha1(path.read_bytes()).hexdigest() for path in paths}


def entered_files(dump):
    """Files that the second journal reader knows of."""
    files = set()
    for path in dump.rglob("journal"):
        rank = path.parents[2]
        for run in journal_reader.read(path.read_bytes()).runs:
            files |= {rank / name for _, name in run.files}
    return files


def readers_agree(dump, complete):
    """All readers, of a dump that is at rest; `complete`: nothing is left to repair."""
    on_disk = tensor_files(dump)
    for path in on_disk:
        np.load(path)  # whole
        assert path.stat().st_mode & 0o777 == 0o400, path
    entered = entered_files(dump)
    assert entered <= on_disk, f"named, and not there: {sorted(entered - on_disk)[:3]}"
    opened = sonde.open(dump)
    shown = {pathlib.Path(tensor.file) for tensor in opened.tensors if tensor.file}
    assert shown == on_disk, f"lost: {sorted(on_disk - shown)[:3]}; made up: {sorted(shown - on_disk)[:3]}"
    listed = sonde_says("ls", dump)
    assert sum(step["files"] for rank in listed["ranks"] for step in rank["steps"]) == len(on_disk)
    rows = sonde_says("stats", dump, expect=(0, 1))
    recorded = sum(bool(tensor.file) or tensor.statistics is not None for tensor in opened.tensors)
    shown_rows = next(value for value in rows.values() if isinstance(value, list))
    assert len([row for row in shown_rows if not row.get("skipped")]) == recorded
    verified = sonde_says("verify", dump, "--hashes", expect=(0,) if complete else (0, 1))
    wrong = [issue for issue in verified["issues"] if issue["is_finding"]]
    assert not [issue for issue in wrong if issue["kind"] == "damaged"], wrong[:3]
    assert not complete or not wrong, wrong[:3]
    if complete:
        assert entered == on_disk
    return len(on_disk)


def check(dump):
    before = contents(tensor_files(dump))
    files = readers_agree(dump, complete=False)
    first = sonde_says("verify", dump, "--complete")
    assert contents(tensor_files(dump)) == before, "--complete touched a tensor file"
    readers_agree(dump, complete=True)
    again = sonde_says("verify", dump, "--complete")
    for what in ("made", "trimmed", "entered"):
        assert again[what] == [], (what, again[what])
    return files, len(first["entered"]), len(first["made"]) + len(first["trimmed"])


@contextlib.contextmanager
def small_disk(place, chance):
    """A file system that fills up; where mounting is forbidden, none."""
    place.mkdir()
    size = chance.choice([160, 320, 640])
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", place], check=False, capture_output=True
    )
    try:
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", place], check=True)


def one_kill(place, kind, chance):
    saved_data = chance.choice(["tensor", "full", "statistic"])
    settings = {
        "dump_mode": 0,
        "path": str(place / "disk/dump"),
        "net_name": "Net",
        "iteration": "all",
        "saved_data": saved_data,
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    common = {"common_dump_settings": settings, "e2e_dump_settings": {"enable": True}}
    layout = chance.choice(LAYOUTS)
    config = place / "config.json"
    config.write_text(json.dumps(common | {"sonde_settings": {"layout": layout}}))
    with contextlib.ExitStack() as stack:
        if kind != "full disk":
            (place / "disk").mkdir()
        elif not stack.enter_context(small_disk(place / "disk", chance)):
            kind = "file size limit"
        run_killed(str(config), kind, chance)
        dump = place / "dump"
        if (place / "disk/dump").exists():
            shutil.copytree(place / "disk/dump", dump)
    if not list(dump.rglob("journal")):
        return kind, (0, 0, 0)  # ended before its first record
    return kind, check(dump)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261122)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = collections.Counter()
    files = entered = repaired = 0
    began = time.monotonic()
    for number in range(arguments.kills):
        chance = random.Random(arguments.seed * 100003 + number)
        with tempfile.TemporaryDirectory(prefix="kills-") as place:
            kind = KINDS[number % len(KINDS)]
            try:
                kind, (of_files, of_entered, of_repaired) = one_kill(pathlib.Path(place), kind, chance)
            except AssertionError as error:
                kept = pathlib.Path(tempfile.gettempdir()) / f"kept-kill-{number}"
                shutil.copytree(place, kept, dirs_exist_ok=True)
                print(f"kill {number} ({kind}): {error}\nthe dump is kept in {kept}")
                return 1
            done[kind] += 1
            files, entered, repaired = files + of_files, entered + of_entered, repaired + of_repaired
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(done.items()))
    print(f"{sum(done.values())} kills ({kinds}): {files} tensor files, every one whole and shown by every reader")
    print(f"{entered} of them were not in the journal and were entered, {repaired} tables made again or trimmed")
    print(f"seed {arguments.seed}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
