"""Kills recorded trainings at random moments and checks that no written data are lost.

    python tests/kills/run.py --kills 200

One process imports PyTorch; each training is a fork of it. Afterwards every reader has to agree (readers.py).
"""

import argparse
import collections
import contextlib
import ctypes
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

import disks
import readers
import torch

import sonde

KINDS = [
    "killed",
    "crashed in an operator",
    "aborted",
    "file size limit",
    "file size limit, signal",
    "full disk",
    "failing disk",
]
ENDS = {"crashed in an operator": "crash", "aborted": "abort"}
GO_ON = ["file size limit", "full disk", "failing disk"]  # the training continues after these
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
    """An operator that crashes like a wrong kernel."""
    if how == "crash":
        ctypes.string_at(0)
    if how == "abort":
        os.abort()
    return x.clone()


def train(config, kind, last_step, ready):
    """The child: trains until it is killed, or for `last_step` steps."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # the message of a crash
    torch.manual_seed(0)
    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    sonde.start(config)
    for step in range(last_step + 1):
        optimizer.zero_grad()
        y = network(torch.randn(4, 16))
        if step == last_step and kind in ENDS:
            y = end(y, ENDS[kind])
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


def spoil_disk(at, kind, chance):
    late = chance.random() < 0.25
    if kind == "full disk":
        disks.spoil(at, bytes=chance.choice([0, 600, 9000, 60000, 300000]) + chance.randrange(500), late=late)
    else:
        disks.spoil(at, writes=chance.choice([1, 10, 60, 400]) + chance.randrange(10), late=late)


def run_killed(place, config, kind, chance):
    """Trains in a fork and ends it."""
    read, write = os.pipe()
    last_step = chance.randrange(1, 12) if kind in ENDS else 400
    if kind in GO_ON:
        last_step = 12
    delay = chance.uniform(0, 0.4)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if kind.startswith("file size"):
                limit_files(chance, kind.endswith("signal"))
            if kind.endswith("disk"):
                spoil_disk(place, kind, chance)
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
    status = os.waitpid(child, 0)[1]
    assert kind not in GO_ON or status == 0, f"the training ended with {status}"


def one_kill(place, kind, chance):
    dump = place / "dump"
    saved_data = chance.choice(["tensor", "full", "statistic"])
    settings = {
        "dump_mode": 0,
        "path": str(dump),
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
    packs = saved_data != "statistic" and chance.random() < 0.4
    config.write_text(json.dumps(common | {"sonde_settings": {"layout": layout, "pack": packs}}))
    run_killed(dump, str(config), kind, chance)
    if not list(dump.rglob("journal")):
        return 0, 0, 0  # ended before its first record
    return readers.check_packs(dump) if packs else readers.check(dump)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=20261122)
    arguments = parser.parse_args()
    if not disks.is_preloaded():
        return subprocess.run([sys.executable, *sys.argv], env=disks.environment(), check=False).returncode
    torch.set_num_threads(1)
    done = collections.Counter()
    files = entered = repaired = 0
    began = time.monotonic()
    for number in range(arguments.kills):
        chance = random.Random(arguments.seed * 100003 + number)
        with tempfile.TemporaryDirectory(prefix="kills-") as place:
            kind = KINDS[number % len(KINDS)]
            try:
                of_files, of_entered, of_repaired = one_kill(pathlib.Path(place), kind, chance)
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
