"""Every reader of a complete dump must agree: the files on disk, the second journal reader, `sonde.open`, `sonde ls`,
`sonde stats`, `sonde verify`; and again after `sonde verify --complete`."""

import hashlib
import json
import os
import pathlib
import subprocess

import journal_reader
import numpy as np
from processes import CLI

import sonde


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
    """Files that the second journal reader knows."""
    files = set()
    for path in dump.rglob("journal"):
        rank = path.parents[2]
        for run in journal_reader.read(path.read_bytes()).runs:
            files |= {rank / name for _, name in run.files}
    return files


def agree(dump, complete, shares=False):
    """Runs all readers on a complete dump; `complete`: nothing is left to repair; `shares`: a tensor whose own name was
    not written is shown with the file of an equal one."""
    on_disk = tensor_files(dump)
    for path in on_disk:
        np.load(path)  # whole
        assert path.stat().st_mode & 0o777 == 0o400, path
    entered = entered_files(dump)
    assert entered <= on_disk, f"named, and not there: {sorted(entered - on_disk)[:3]}"
    opened = sonde.open(dump)
    shown = {pathlib.Path(tensor.tensor_file) for tensor in opened.tensors if tensor.tensor_file}
    assert shown == on_disk, f"lost: {sorted(on_disk - shown)[:3]}; made up: {sorted(shown - on_disk)[:3]}"
    listed = sonde_says("ls", dump)
    files = sum(step["files"] for rank in listed["ranks"] for step in rank["steps"])
    assert files == len(on_disk) or (shares and files > len(on_disk)), (files, len(on_disk))
    rows = sonde_says("stats", dump, expect=(0, 1, 3))  # 3: later steps are missing
    recorded = sum(bool(tensor.tensor_file) or tensor.statistics is not None for tensor in opened.tensors)
    shown_rows = next(value for value in rows.values() if isinstance(value, list))
    assert len([row for row in shown_rows if not row.get("skipped")]) == recorded
    verified = sonde_says("verify", dump, "--hashes", expect=(0,) if complete else (0, 1))
    wrong = [issue for issue in verified["issues"] if issue["is_finding"]]
    assert not [issue for issue in wrong if issue["kind"] == "damaged"], wrong[:3]
    assert not complete or not wrong, wrong[:3]
    if complete:
        assert entered == on_disk
    return len(on_disk)


def check(dump, shares=False):
    before = contents(tensor_files(dump))
    files = agree(dump, complete=False, shares=shares)
    first = sonde_says("verify", dump, "--complete")
    assert contents(tensor_files(dump)) == before, "--complete touched a tensor file"
    agree(dump, complete=True, shares=shares)
    again = sonde_says("verify", dump, "--complete")
    for what in ("made", "trimmed", "entered"):
        assert again[what] == [], (what, again[what])
    return files, len(first["entered"]), len(first["made"]) + len(first["trimmed"])


def check_packs(dump):
    """A dump with packs: as it is, and unpacked, by every reader."""
    verified = sonde_says("verify", dump, "--hashes", expect=(0, 1))
    wrong = [
        issue for issue in verified["issues"] if issue["kind"] in ("damaged", "missing") and ".pack" in issue["path"]
    ]
    assert not wrong, wrong[:3]
    shown = {pathlib.Path(tensor.tensor_file).name for tensor in sonde.open(dump).tensors if tensor.tensor_file}
    unpacked = dump.with_name("unpacked")
    done = sonde_says("convert", "--unpack", dump, "--out", unpacked)
    assert done["lost"] == 0
    assert not list(unpacked.rglob("*.pack"))
    on_disk = {path.name for path in tensor_files(unpacked)}
    assert shown == on_disk, f"lost: {sorted(on_disk - shown)[:3]}; made up: {sorted(shown - on_disk)[:3]}"
    counts = check(unpacked, shares=True)
    sonde_says("verify", dump, "--complete")
    assert {pathlib.Path(tensor.tensor_file).name for tensor in sonde.open(dump).tensors if tensor.tensor_file} == shown
    return counts
