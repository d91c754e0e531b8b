"""Damages real dumps and asks every verb about them: each call must end in an answer or a finding.

    python tests/hostile/run.py                                  # 10,000 mutations
    python tests/hostile/run.py --mutations 200 --jobs 2
    python tests/hostile/run.py --cli build-asan/cli/sonde --memory 4000 --timeout 60
    python tests/hostile/run.py --keep /tmp/hostile              # what failed stays there, and so do the whole dumps
    python tests/hostile/run.py --keep /tmp/hostile --only 4711  # one of them again, of the same whole dumps

A call fails when it ends by a signal, with an exit status that docs/json/README.md does not name (of msaccucmp: more
than 40), after more than --timeout seconds, with more than --memory MB, with a word of a sanitizer or a traceback, with
something on its output that a terminal obeys, or with --json and no document.
Exit status: 0 none failed, 1 some did, 2 bad usage.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import mutations
import seeds
from processes import CLI

OBEYED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
COMPLAINTS = re.compile(rb"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|Traceback|terminate called")
# {D}: the damaged dump, {G}: the whole one, {F}: the damaged file, {P}: its directory, {Q}: that of the whole one,
# {O}: a directory to write to.
CALLS = [
    call.split()
    for call in """
    ls {D}
    ls {D} --ops
    stats {D}
    stats {D} -s **/*
    graph {D}
    graph {D} --dot
    show {D} {F}
    show {F}
    show {F} output.0
    show {D} conv2d-op0:output.0 --trend max,nan_count
    show {D} 0.weight --txt -
    first-bad {D}
    stomp {D}
    watch {D} --recommended
    watch {D} -c tensor_overflow
    compare {D} {G}
    compare {G} {D} --all --csv {O}/c.csv --junit {O}/c.xml
    compare {D} {G} --style msprobe --csv {O}/m.csv
    compare {D} {G} --mapping {F}
    convert {D} --out {O}/npy
    convert {F} --out {O}/npy --format NCHW
    check {F}
    index {D} --out {O}/index.sqlite
    msaccucmp convert -d {F} -out {O}
    msaccucmp overflow -d {D} -out {O}
    msaccucmp compare -m {P} -g {Q} -out {O}
    msaccucmp compare -m {Q} -g {P} -out {O}
    SAVED ls {D}
    SAVED stats {D}
    EXPORT export {D} --to {O}/all.npz
""".strip().splitlines()
]

# A file that a call writes ends at 2 GB (in blocks of 512 bytes): the copy of a hole must not fill the disk.
LIMITED = ["sh", "-c", 'ulimit -f 4194304; exec "$@"', "sh"]
WITH = {"SAVED", "EXPORT"}  # additional requirements of a call
KNOWN = {"run", "info", "completion", "help", "serve", *(word for call in CALLS for word in call[:2] if word.islower())}


def other_verbs(cli):
    """Verbs that are newer than this file are also called on the dump."""
    text = subprocess.run([cli, "--help"], capture_output=True, text=True, check=True).stdout
    return [
        [verb, "{D}"]
        for verb in re.findall(r"^  ([\w-]+)", text.split("Subcommands:")[1], re.MULTILINE)
        if verb not in KNOWN
    ]


def _megabytes(pid):
    """The memory of the process now."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize() >> 20
    except (OSError, IndexError):
        return 0


class Call:
    """One run of the command, with its time and memory."""

    def __init__(self, command, directory, options, environment):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            began = time.monotonic()
            process = subprocess.Popen(
                [*LIMITED, *command], cwd=directory, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=environment,
                start_new_session=True, restore_signals=False,
            )  # fmt: skip
            self.timed_out = False
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                self.timed_out = time.monotonic() - began > options.timeout
                if self.timed_out or _megabytes(process.pid) > options.memory * 2:  # before it has all of the machine's
                    os.killpg(process.pid, signal.SIGKILL)
                    _, status, usage = os.wait4(process.pid, 0)
                    break
                time.sleep(0.003)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.status, self.megabytes = process.returncode, usage.ru_maxrss / 1024
            self.seconds = time.monotonic() - began
            out.seek(0)
            err.seek(0)
            self.stdout, self.stderr = out.read(64 << 20), err.read(64 << 20)

    def complaint(self, command, options):
        """The reason why its end is wrong; None: it is right."""
        word = COMPLAINTS.search(self.stderr)
        obeyed = OBEYED.search(self.stdout) or OBEYED.search(self.stderr)
        wrong = {
            f"no answer after {options.timeout} s": self.timed_out,
            f"{self.megabytes:.0f} MB": self.megabytes > options.memory,
            f"ended by signal {-self.status}": self.status < 0,
            f"exit status {self.status}": self.status > (40 if "msaccucmp" in command else 3),
            f"it complains: {word and word[0]}": word,
            f"a terminal would obey {obeyed and obeyed[0]}": obeyed,
            "no JSON document": "--json" in command and not self._is_json(),
        }
        return next((what for what, is_so in wrong.items() if is_so), None)

    def _is_json(self):
        try:
            return isinstance(json.loads(self.stdout), dict)
        except ValueError:
            return False


def _copied(source, target):
    shutil.copytree(source, target, copy_function=os.link, symlinks=True)


def mutate(number, options, seed_dumps, calls):
    """One damaged dump, one call. {"number", "complaint" or None, …}."""
    chance = random.Random(f"{options.seed}:{number}")
    name = chance.choice(sorted(seed_dumps))
    place = pathlib.Path(tempfile.mkdtemp(prefix=f"{number}-", dir=options.directory))
    dump, out = place / name, place / "out"
    out.mkdir()
    _copied(seed_dumps[name], dump)
    kinds = collections.defaultdict(list)
    for path in sorted(dump.rglob("*")):
        if path.is_file():
            kinds[
                path.suffix if len(path.suffix) < 6 else "", path.parent.name if path.suffix != ".npy" else ""
            ].append(path)
    file = chance.choice(kinds[chance.choice(sorted(kinds))])
    call = list(calls[number % len(calls)])  # each in turn: by chance a short form would leave one out
    if call[0] == "EXPORT" and chance.random() < 0.9:  # a Python each time
        call = list(calls[0])
    environment = {
        key: value for key, value in os.environ.items() if key not in ("SONDE_CONFIG", "MINDSPORE_DUMP_CONFIG")
    }
    environment |= {"SONDE_INDEX": "off", "XDG_CACHE_HOME": str(out), "PYTHONWARNINGS": "ignore"}
    if call[0] == "SAVED":  # its index is damaged, not the dump
        environment["SONDE_INDEX"] = "on"
        subprocess.run([options.cli, "index", dump], env=environment, capture_output=True, check=False, timeout=60)
        file = next((path for path in sorted(out.rglob("*")) if path.is_file()), file)
    how = mutations.apply(chance, file)
    if chance.random() < 0.15 and call[0] != "SAVED":  # several at a time
        others = [path for path in dump.rglob("*") if mutations.can_be_damaged(path)]
        how += "," + mutations.apply(chance, chance.choice(others)) if others else ""
    words = {"{D}": str(dump), "{G}": str(seed_dumps[name]), "{F}": str(file), "{O}": str(out)}
    words |= {"{P}": str(file.parent), "{Q}": str(seed_dumps[name] / os.path.relpath(file.parent, dump))}
    command = [
        options.cli,
        *(re.sub(r"\{.\}", lambda found: words[found[0]], word) for word in call if word not in WITH),
    ]
    if call[0] == "EXPORT":
        command += ["--python", sys.executable]
    elif "msaccucmp" not in command and "--dot" not in command and "-" not in command and chance.random() < 0.3:
        command.append("--json")
    ended = Call(command, place, options, environment)
    result = {
        "number": number, "verb": call[1] if call[0] in WITH else call[0], "how": how, "status": ended.status,
        "file": os.fsencode(os.path.relpath(file, place)).decode(errors="replace"), "seconds": ended.seconds,
        "megabytes": ended.megabytes, "complaint": ended.complaint(command, options), "command": command,
    }  # fmt: skip
    if result["complaint"]:
        result["stderr"] = ended.stderr[-1500:].decode(errors="replace")
        print(f"{number}: {result['complaint']}: {how} of {command[1:]!a}", file=sys.stderr, flush=True)
    if not options.keep or (not result["complaint"] and options.only is None):
        subprocess.run(["chmod", "-R", "u+rwX", place], capture_output=True, check=False)
        shutil.rmtree(place, ignore_errors=True)
    return result


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no mutation after that time")
    parser.add_argument("--cli", default=CLI, help="the command (default: the one that is installed)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=10, help="seconds of one call")
    parser.add_argument("--memory", type=float, default=1000, help="MB of one call")
    parser.add_argument("--only", type=int, help="this mutation alone")
    parser.add_argument("--keep", help="directory for the dumps: the whole ones and those that failed stay")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of text")
    options = parser.parse_args(arguments)
    options.cli = shutil.which(options.cli) or parser.error(f"no command '{options.cli}'")
    options.cli = os.path.abspath(options.cli)
    return options


def main():
    options = parse(sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sonde-hostile-") as scratch:
        options.directory = options.keep or scratch
        pathlib.Path(options.directory).mkdir(parents=True, exist_ok=True)
        dumps = seeds.make(pathlib.Path(options.directory) / "seeds")
        calls = CALLS + other_verbs(options.cli)
        numbers = [options.only] if options.only is not None else range(options.mutations)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:

            def result_of(number):
                in_time = time.monotonic() - began < options.seconds
                return mutate(number, options, dumps, calls) if in_time else None

            results = [result for result in pool.map(result_of, numbers) if result]
    failed = [result for result in results if result["complaint"]]
    totals = {
        "mutations": len(results), "failed": len(failed), "seconds": round(time.monotonic() - began),
        "slowest_seconds": round(max((result["seconds"] for result in results), default=0), 2),
        "most_megabytes": round(max((result["megabytes"] for result in results), default=0)),
        "verbs": collections.Counter(result["verb"] for result in results),
        "statuses": collections.Counter(result["status"] for result in results),
        "changes": collections.Counter(how for result in results for how in re.split(r"[+,]", result["how"])),
    }  # fmt: skip
    if options.json:
        print(json.dumps({**totals, "failures": failed}, indent=1))
    else:
        for result in failed:
            print(f"{result['number']}: {result['complaint']}: {result['how']} of {result['file']!a}")
            print("    " + ascii(" ".join(result["command"])))
            print("    " + ascii(result["stderr"][-800:]))
        for name, value in totals.items():
            print(f"{name}: {dict(sorted(value.items())) if isinstance(value, dict) else value}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
