"""The journal, read by a second reader that was written from docs/format.md alone."""

import json
import os
import re
import struct
import subprocess
from pathlib import Path

import journal_reader
import pytest
from conftest import CLI

ROOT = Path(__file__).resolve().parents[2]


def writer() -> str:
    """The C++ writer's test program, from the present build."""
    candidates = [os.environ.get("SONDE_BUILD", ""), "build", "build/release", "build/dev", "build/asan"]
    for build in filter(None, candidates):
        program = ROOT / build / "tests/engine/journal/write_sample_journal"
        if program.is_file():
            return str(program)
    pytest.fail(
        "the engine's tests are not built: no write_sample_journal in build/; run SONDE_BUILD_TESTS=ON scripts/setup"
    )


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    file = tmp_path_factory.mktemp("journal") / "journal"
    printed = subprocess.run([writer(), str(file)], capture_output=True, text=True, check=True).stdout
    return file.read_bytes(), json.loads(printed)


def with_bits(tensor: dict) -> dict:
    """Doubles as the sixteen digits of their bits, as the writer's program prints them."""
    statistics = tensor["statistics"]
    if statistics is not None:
        bits = {name: struct.pack(">d", statistics[name]).hex() for name in journal_reader.MOMENTS}
        tensor = tensor | {"statistics": statistics | bits}
    return tensor


def test_both_sides_agree_on_every_field(sample):
    data, printed = sample
    journal = journal_reader.read(data)
    assert journal.malformed_entries == 0
    assert journal.torn_bytes == printed["torn_bytes"]
    assert len(journal.runs) == len(printed["runs"]) == 2
    for run, expected in zip(journal.runs, printed["runs"], strict=True):
        assert run.header == expected["header"]
        assert run.end == expected["end"]
        assert run.sites == expected["sites"]
        assert run.op_names == expected["op_names"]
        assert run.attributes == expected["attributes"]
        records = [record | {"tensors": [with_bits(tensor) for tensor in record["tensors"]]} for record in run.records]
        assert records == expected["records"]


def test_a_cut_journal_keeps_its_whole_entries(sample):
    data, _ = sample
    whole = journal_reader.read(data)
    last = 0
    for size in range(0, len(data), 7):
        journal = journal_reader.read(data[:size])
        records = sum(len(run.records) for run in journal.runs)
        assert last <= records <= sum(len(run.records) for run in whole.runs)
        last = records


def worked_example() -> bytes:
    text = (ROOT / "docs/format.md").read_text(encoding="utf-8")
    block = text.split("### Worked example", 1)[1].split("```", 2)[1]
    lines = re.findall(r"^([0-9a-f]{4})  ((?:[0-9a-f]{2} ?)+)", block, re.MULTILINE)
    data = b""
    for offset, line in lines:
        assert int(offset, 16) == len(data), "an offset in the example is wrong"
        data += bytes.fromhex(line)
    return data


def test_the_worked_example_of_the_specification_is_a_journal():
    journal = journal_reader.read(worked_example())
    assert (journal.torn_bytes, journal.malformed_entries) == (0, 0)
    (run,) = journal.runs
    assert run.sites[0]["trace"] == [["a.py", 3, "f", 0, 0, 0]]
    assert run.op_names[0]["op_name"] == "Default/relu-op0"
    step, op = run.records
    assert (step["kind"], step["iteration"]) == (2, 5)
    assert op["tensors"][0]["shape"] == [2]
    assert op["tensors"][0]["statistics"]["max"] == 1.5


def test_the_engine_reads_the_worked_example_too(tmp_path):
    metadata = tmp_path / "rank_0/.dump_metadata/sonde"
    metadata.mkdir(parents=True)
    (metadata / "journal").write_bytes(worked_example())
    result = subprocess.run([CLI, "stats", str(tmp_path), "--jsonl"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    row = json.loads(result.stdout)
    assert (row["op_name"], row["step"], row["source_line"]) == ("Default/relu-op0", 5, 3)
    assert (row["max"], row["min"], row["zero_count"], row["shape"]) == (1.5, 0, 1, [2])


def test_foreign_files_are_refused():
    with pytest.raises(journal_reader.Corrupt):
        journal_reader.read(b"Op Type,Op Name")
    later = journal_reader.MAGIC + struct.pack("<I", 2)
    with pytest.raises(journal_reader.Unsupported):
        journal_reader.read(later + struct.pack("<I", journal_reader.xxh32(later)))
