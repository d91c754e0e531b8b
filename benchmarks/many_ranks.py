"""The analysis of many ranks: processor time of a rank, the part that one process does, memory.

    .venv/bin/python benchmarks/many_ranks.py --ranks 64 256 1024
    .venv/bin/python benchmarks/many_ranks.py --verb verify

Two ranks train for --steps steps with statistics, and rank 1 goes wrong. The other ranks are hard links of rank 0,
which gets the bad values by an all_reduce: every rank has a bad step."""

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRAINING = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(),
                          torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
steps = int(sys.argv[1])
for step in range(steps):
    data = torch.randn(8, 16)
    if dist.get_rank() == 1 and step == steps * 6 // 10:
        data = data / 0 * 0
    optimizer.zero_grad()
    net(data).pow(2).mean().backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
"""


def record(directory, steps):
    (directory / "train.py").write_text(TRAINING)
    training = ["torchrun", "--nproc-per-node", "2", str(directory / "train.py"), str(steps)]
    command = ["sonde", "run", "--saved-data", "statistic", "--out", str(directory / "two"), "--", *training]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return directory / "two"


def link_ranks(two, dump, count):
    """`count` ranks, whose files are links of those of two."""
    for rank in range(count):
        source = two / ("rank_1" if rank == 1 else "rank_0")
        shutil.copytree(source, dump / f"rank_{rank}", copy_function=os.link)
    time.sleep(3)  # an index waits until a dump is at rest


def measured(command, environment):
    """The output of a command, its seconds, those of the processor, those of its first process alone, and the MB of its
    largest process."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    report = f"{environment['XDG_CACHE_HOME']}.time"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, report, *command], env=environment, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    own, kilobytes = Path(report).read_text().split()
    return done.stdout, time.monotonic() - began, processor, float(own), int(kilobytes) / 1024


MEASURED = """
import os, sys
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
ticks = open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()[11:13]
_, status, used = os.wait4(child, 0)
own = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
open(sys.argv[1], "w").write(f"{own} {used.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def runs_of(verb, dump, alone):
    """The command of each part, by its name."""
    question = ["sonde", verb[0], str(dump), *verb[1:], "--json"]
    if verb[0] == "verify":  # its parts are not indices
        return {"side by side": [*question, "--engine", "local"], "one process": question}
    side_by_side = [*question, "--engine", "local"]
    searched = verb[0] == "first-bad"  # the search of a rank is a part, too
    runs = {"journals side by side": side_by_side} if searched else {}
    runs |= {"indices": ["sonde", "index", str(dump), "--engine", "local"], "indices alone": question}
    runs |= {"side by side": side_by_side} if searched else {}
    return runs | ({"one process, no index": question} if alone else {})


def of_size(two, directory, ranks, asked):
    """Measures a dump of so many ranks; all of it is removed."""
    dump, cache = directory / "dump", directory / "cache"
    link_ranks(two, dump, ranks)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    cache.mkdir()
    numbers, answers = {"ranks": ranks}, set()
    print(f"\n{ranks:<24}{'seconds':>10}{'processor':>11}{'a rank, ms':>12}{'serial':>9}{'MB':>8}")
    for label, command in runs_of(asked.verb.split(), dump, asked.alone).items():
        index = {"SONDE_INDEX": "off"} if label.startswith("one process") else {}
        out, seconds, processor, serial, memory = measured(command, {**environment, **index})
        if label != "indices":
            answers.add(out)
        numbers[label] = {"seconds": seconds, "processor": processor, "serial": serial, "megabytes": memory}
        milliseconds = processor / ranks * 1000
        print(f"{label:24}{seconds:10.2f}{processor:11.2f}{milliseconds:12.2f}{serial:9.2f}{memory:8.0f}")
    numbers["bytes"] = sum(path.stat().st_size for path in cache.rglob("*.sqlite"))
    print(f"indices: {numbers['bytes'] / 1e6:.0f} MB; answers equal: {len(answers) == 1}")
    shutil.rmtree(dump)
    shutil.rmtree(cache)
    return numbers


def exponent(points):
    """Of the power of the ranks with which something grows: the slope of the logarithms."""
    xs, ys = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    middle, level = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - middle) * (y - level) for x, y in zip(xs, ys, strict=True))
    return slope / sum((x - middle) ** 2 for x in xs)


def print_growth(sizes):
    for label in (name for name, value in sizes[0].items() if isinstance(value, dict)):
        grows = [
            exponent([(size["ranks"], max(size[label][what], 0.01)) for size in sizes])
            for what in ("processor", "serial", "megabytes")
        ]
        print(f"{label}: grows with ranks^ {grows[0]:.2f} processor, {grows[1]:.2f} serial, {grows[2]:.2f} memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1024], help="several: also the growth")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--verb", default="first-bad", help="with its options")
    parser.add_argument("--directory", help="for the dump and the indices, which are removed at the end")
    parser.add_argument("--alone", action="store_true", help="also one process without indices")
    parser.add_argument("--json", help="a file for the numbers")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.directory) as name:
        directory = Path(name)
        two = record(directory, asked.steps)
        files = [path for path in (two / "rank_0").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        print(f"a rank: {size / 1e6:.2f} MB in {len(files)} files")
        sizes = [of_size(two, directory, ranks, asked) for ranks in asked.ranks]
    if len(sizes) > 1:
        print()
        print_growth(sizes)
    if asked.json:
        Path(asked.json).write_text(json.dumps({"rank": {"bytes": size, "files": len(files)}, "sizes": sizes}))


if __name__ == "__main__":
    main()
