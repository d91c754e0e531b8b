"""sonde_settings.pack: the tensors of a step in one file, read like files of their own, and unpacked into these."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import zlib

import disks
import numpy as np
import pytest
import readers
from processes import CLI, run_in, settings_of

import sonde

TRAIN = """
    import sys, torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.ReLU(), torch.nn.Linear(400, 30))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for step in range(int(sys.argv[1])):
        optimizer.zero_grad()
        x = torch.randn(50, 300)
        y = net(x) + net(x.bfloat16().float()) + torch.zeros(600, 300)[0, 0]
        (y.bfloat16() * 2).float().square().mean().backward()
        optimizer.step()
        print("step", step, flush=True)
"""
HEAD, UNIT = 16384, 4096
KINDS = {
    "npy": ({}, {}),
    "containers": ({"file_format": "bin"}, {}),
    "raw": ({}, {"layout": "mindspore-1.2"}),
    "2.3": ({}, {"layout": "mindspore-2.3"}),
    "o2": ({}, {"layout": "o2"}),
}


def say(*arguments, expect=0):
    result = subprocess.run([CLI, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == expect, (arguments, result.returncode, result.stdout, result.stderr)
    return result


def record(directory, name, steps=2, common=None, own=None):
    dump = directory / name
    e2e = {"enable": "file_format" not in (common or {}), "trans_flag": True}
    settings = settings_of(dump, e2e, own or {}, {"saved_data": "tensor", **(common or {})})
    (directory / f"{name}.json").write_text(json.dumps(settings))
    (directory / "train.py").write_text(textwrap.dedent(TRAIN))
    config = directory / f"{name}.json"
    run = run_in(directory, dump, sys.executable, "train.py", str(steps), MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    return dump


def timeless(path):
    return re.sub(r"\d{14,16}", "TIME", path)


def tree(dump):
    """The tensor files without the times in their names, with their bytes; equal names in a row get numbers."""
    found = {}
    for path in sorted(dump.rglob("*")):
        relative = path.relative_to(dump)
        if not path.is_file() or ".dump_metadata" in relative.parts or path.suffix in (".csv", ".ir", ".pb", ".json"):
            continue
        if "sources" in relative.parts:
            continue
        found.setdefault(timeless(str(relative)), []).append((without_time(path.read_bytes()), path.stat().st_mode))
    return found


def without_time(content):
    """A container begins with the time of its op."""
    return content if content.startswith(b"\x93NUMPY") else content[64:]


def inodes(dump):
    paths = [path for path in dump.rglob("*") if path.is_file() and path.suffix in (".npy", ".bin")]
    return len(paths), len({path.stat().st_ino for path in paths})


@pytest.mark.parametrize("kind", KINDS)
def test_an_unpacked_dump_is_the_one_that_a_run_without_packs_writes(tmp_path, kind):
    common, own = KINDS[kind]
    files = record(tmp_path, "files", common=common, own=own)
    packed = record(tmp_path, "packed", common=common, own={**own, "pack": True})
    assert len(list(packed.rglob("tensors.pack"))) == len(list(packed.rglob("*.pack"))) > 0
    assert not list(packed.rglob("*.npy"))
    said = say("convert", "--unpack", packed, "--out", tmp_path / "unpacked").stdout
    assert "packs" in said or "pack " in said
    expected, found = tree(files), tree(tmp_path / "unpacked")
    assert expected.keys() == found.keys()
    for name, contents in expected.items():
        assert found[name] == contents, name
    assert inodes(tmp_path / "unpacked") == inodes(files)


def test_every_reader_shows_the_same_as_without_packs(tmp_path):
    files = record(tmp_path, "files", common={"saved_data": "full"})
    packed = record(tmp_path, "packed", common={"saved_data": "full"}, own={"pack": True})
    readers.check_packs(packed)
    assert "no difference" in say("compare", packed, files).stdout
    for verb in (("stats",), ("first-bad",), ("graph",), ("verify", "--hashes")):
        say(*verb, packed)
    mine, theirs = sonde.open(packed), sonde.open(files)
    assert len(mine.tensors) == len(theirs.tensors)
    for one, other in zip(mine.tensors, theirs.tensors, strict=True):
        assert (one.op.op_name, one.side, one.slot) == (other.op.op_name, other.side, other.slot)
        if one.tensor_file:
            assert np.array_equal(one.numpy(), other.numpy(), equal_nan=True)
    listed = [json.loads(say("ls", "--json", dump).stdout) for dump in (packed, files)]
    for key in ("files", "tensors", "bytes"):
        values = [[step[key] for rank in one["ranks"] for step in rank["steps"]] for one in listed]
        assert values[0] == values[1], key


def test_a_pack_without_its_journal_is_read_by_its_heads(tmp_path):
    packed = record(tmp_path, "packed", own={"pack": True})
    before = {tensor.tensor_file for tensor in sonde.open(packed).tensors if tensor.tensor_file}
    shutil.rmtree(packed / "rank_0" / ".dump_metadata")
    assert {tensor.tensor_file for tensor in sonde.open(packed).tensors if tensor.tensor_file} == before


def test_equal_contents_are_stored_once(tmp_path):
    packed = record(tmp_path, "packed", steps=3, own={"pack": True})
    places = {
        str(tensor.tensor_file).split(".pack/")[1].split("/")[0]
        for tensor in sonde.open(packed).tensors
        if tensor.tensor_file
    }
    named = [tensor for tensor in sonde.open(packed).tensors if tensor.tensor_file]
    assert len(places) < len(named)
    used = sum(path.stat().st_blocks * 512 for path in packed.rglob("*.pack"))
    files = record(tmp_path, "files", steps=3)
    once = {path.stat().st_ino: path.stat().st_blocks * 512 for path in files.rglob("*.npy")}
    assert used < sum(once.values()) * 1.05 + 64 * HEAD


def test_a_second_run_adds_packs_of_its_own(tmp_path):
    packed = record(tmp_path, "packed", own={"pack": True})
    first = {path: path.read_bytes() for path in packed.rglob("*.pack")}
    record(tmp_path, "packed", own={"pack": True})
    assert all(path.read_bytes() == content for path, content in first.items())
    assert {path.name for path in packed.rglob("*.pack")} == {"tensors.pack", "tensors.1.pack"}
    readers.check_packs(packed)


def test_a_killed_run_loses_nothing_that_was_written(tmp_path):
    settings = settings_of(tmp_path / "packed", None, {"pack": True}, {"saved_data": "tensor"})
    (tmp_path / "packed.json").write_text(json.dumps(settings))
    (tmp_path / "train.py").write_text(textwrap.dedent(TRAIN))
    environment = os.environ | {"MINDSPORE_DUMP_CONFIG": str(tmp_path / "packed.json")}
    command = [sys.executable, "train.py", "1000"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line == "step 3\n":
                break
        process.send_signal(signal.SIGKILL)
    files, _, _ = readers.check_packs(tmp_path / "packed")
    assert files > 100


FULL = {
    "a full disk": {"bytes": 600_000},
    "a failing disk": {"writes": 40},
    "one full when closed": {"bytes": 900_000, "late": True},
}


@pytest.mark.parametrize("how", ["a full disk", *(pytest.param(how, marks=pytest.mark.long) for how in list(FULL)[1:])])
def test_what_was_written_before_the_disk_was_full_is_read(tmp_path, how):
    dump = tmp_path / "packed"
    own = {"pack": True, "budget_bytes": 1 << 20}  # the training must not wait for memory that nobody gives back
    settings = settings_of(dump, None, own, {"saved_data": "tensor"})
    (tmp_path / "packed.json").write_text(json.dumps(settings))
    program = f"import disks, sonde\ndisks.spoil({str(dump)!r}, **{FULL[how]!r})\nsonde.start('packed.json')\n"
    program += textwrap.dedent(TRAIN) + "\nsonde.stop()\n"
    (tmp_path / "train.py").write_text(program)
    command = [sys.executable, "train.py", "8"]
    run = subprocess.run(command, cwd=tmp_path, env=disks.environment(), capture_output=True, text=True, check=True)
    assert run.stdout.count("step") == 8
    causes = [line for line in run.stderr.splitlines() if "cannot" in line]
    assert len(causes) == 1 and str(dump) in causes[0], run.stderr
    assert "tensors.pack" in causes[0] or "writes" in FULL[how], run.stderr
    files, _, _ = readers.check_packs(dump)
    assert files > 5


def a_pack(tmp_path):
    packed = record(tmp_path, "packed", own={"pack": True})
    return packed, sorted(packed.rglob("*.pack"))[0]


def rewrite(path, change):
    content = bytearray(path.read_bytes())
    change(content)
    path.chmod(0o600)
    path.write_bytes(content)


def test_a_truncated_pack_is_one_clear_complaint_and_the_rest_is_read(tmp_path):
    packed, pack = a_pack(tmp_path)
    rewrite(pack, lambda content: content.__delitem__(slice(len(content) // 2 // UNIT * UNIT, None)))
    said = say("verify", packed, expect=1).stdout
    assert "the journal names it, and it is not there" in said
    values = [tensor for tensor in sonde.open(packed).tensors if str(pack) in str(tensor.tensor_file)]
    read, lost = 0, []
    for tensor in values:
        try:
            tensor.numpy()
            read += 1
        except (OSError, ValueError, sonde.Error) as error:
            lost.append(str(error))
    assert read > 0 and lost
    assert all("the pack has" in message for message in lost), lost[0]
    unpacked = say("convert", "--unpack", packed, "--out", tmp_path / "unpacked", expect=3)
    assert "the pack has" in unpacked.stderr
    assert len(list((tmp_path / "unpacked").rglob("*.npy"))) > read


def test_a_damaged_head_is_reported_and_the_journal_still_leads_to_the_tensors(tmp_path):
    packed, pack = a_pack(tmp_path)

    def damage(content):
        content[40] ^= 0xFF

    rewrite(pack, damage)
    said = say("verify", packed, expect=1).stdout
    assert "its checksum does not match" in said
    assert all(tensor.numpy() is not None for tensor in sonde.open(packed).tensors if tensor.tensor_file)
    shutil.rmtree(packed / "rank_0" / ".dump_metadata")
    assert "its checksum does not match" in say("ls", packed, expect=3).stderr


def head(section, paths, magic=b"\x89SONDEP\n", version=1):
    text = b"".join(path + b"\0" for path in paths)
    checked = struct.pack("<QII", section, len(text), 0) + text
    whole = magic + struct.pack("<II", version, zlib.crc32(checked)) + checked
    return whole + bytes(HEAD - len(whole))


NPY = b"Net/0/0/Add.Default_add-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy"
HOSTILE = {
    "a path that leads outside": (
        head(HEAD, [b"Net/0/0/tensors.pack/64-64/../../../../etc/x.npy"]),
        "not that of a tensor",
    ),
    "another file": (head(HEAD, [b"../../../etc/tensors.pack/0-64/" + NPY]), "not that of a tensor"),
    "an absolute path": (head(HEAD, [b"/etc/tensors.pack/0-64/" + NPY]), "not that of a tensor"),
    "no pack": (head(HEAD, [b"Net/0/0/passwd/0-64/" + NPY]), "not that of a tensor"),
    "an offset beyond the end": (
        head(HEAD, [b"Net/0/0/tensors.pack/1000000-64/" + NPY]),
        "it lists 64 bytes from byte",
    ),
    "a size that overflows": (
        head(HEAD, [b"Net/0/0/tensors.pack/64-18446744073709551615/" + NPY]),
        "it lists 18446744",
    ),
    "a section without an end": (head(HEAD, [])[:-1], "breaks off"),
    "a section of no bytes": (head(0, []), "it would have 0 bytes"),
    "a section that is not whole units": (head(HEAD + 1, []), f"it would have {HEAD + 1} bytes"),
    "a huge section": (head(1 << 60, []), "it would have"),
    "another version": (head(HEAD, [], version=9), "version 9"),
    "other bytes": (b"\x00" * HEAD, "not those of a section"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_pack_is_one_clear_error(tmp_path, what):
    content, message = HOSTILE[what]
    step = tmp_path / "dump/rank_0/Net/0/0"
    step.mkdir(parents=True)
    (step / "tensors.pack").write_bytes(content)
    said = subprocess.run([CLI, "ls", tmp_path / "dump"], capture_output=True, text=True, check=False)
    lines = [line for line in said.stderr.splitlines() if "tensors.pack" in line]
    assert len(lines) == 1 and message in lines[0], said.stderr
    out = tmp_path / "out"
    subprocess.run([CLI, "convert", "--unpack", tmp_path / "dump", "--out", out], capture_output=True, check=False)
    assert not list(out.rglob("*.npy"))
    assert sorted(path.name for path in tmp_path.iterdir()) in (["dump"], ["dump", "out"])


def test_pack_needs_tensors(tmp_path):
    for saved_data in ("statistic",):
        config = tmp_path / "config.json"
        config.write_text(json.dumps(settings_of(tmp_path / "dump", None, {"pack": True}, {"saved_data": saved_data})))
        said = say("check", config, expect=2)
        assert "sonde_settings.pack: found true, and no tensors are saved" in said.stdout + said.stderr
    config.write_text(json.dumps(settings_of(tmp_path / "dump", None, {"pack": "yes"}, {"saved_data": "tensor"})))
    said = say("check", config, expect=2)
    assert "sonde_settings.pack" in said.stdout + said.stderr


def test_unpacking_refuses_what_it_cannot_do(tmp_path):
    packed = record(tmp_path, "packed", own={"pack": True})
    (tmp_path / "there").mkdir()
    assert "exists already" in say("convert", "--unpack", packed, "--out", tmp_path / "there", expect=2).stderr
    assert "inside the dump" in say("convert", "--unpack", packed, "--out", packed / "new", expect=2).stderr
    wrong = say("convert", "--unpack", packed, "--out", tmp_path / "new", "--type", "bin", expect=2)
    assert "--unpack copies one dump as it is" in wrong.stderr
    assert not (tmp_path / "new").exists()
