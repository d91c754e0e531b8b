"""A second reader of the journal, written from docs/format.md alone: the document contains everything that both read
alike."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass, field

MAGIC = b"\x89SONDEJ\n"
VERSION = 1
HEADER_BYTES = 16
ENTRY_BYTES = 9
LONGEST_PAYLOAD = 1 << 28
STATISTICS = (
    "count",
    "nan_count",
    "positive_inf_count",
    "negative_inf_count",
    "positive_count",
    "negative_count",
    "zero_count",
)
MOMENTS = ("max", "min", "sum", "sum_squares")


class Corrupt(ValueError):
    """The bytes are not a journal, or a field does not fit into its entry."""


class Unsupported(ValueError):
    """A version that this reader does not know."""


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask, at = 0xFFFFFFFF, 0
    if len(data) >= 16:
        lanes = [prime1 + prime2 & mask, prime2, 0, -prime1 & mask]
        while at + 16 <= len(data):
            for i, word in enumerate(struct.unpack_from("<4I", data, at)):
                lanes[i] = _rotated(lanes[i] + word * prime2 & mask, 13) * prime1 & mask
            at += 16
        turns = zip(lanes, (1, 7, 12, 18), strict=True)
        value = sum(_rotated(lane, bits) for lane, bits in turns) & mask
    else:
        value = prime5
    value = value + len(data) & mask
    while at + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, at)
        value = _rotated(value + word * prime3 & mask, 17) * prime4 & mask
        at += 4
    for byte in data[at:]:
        value = _rotated(value + byte * prime5 & mask, 11) * prime1 & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


class Fields:
    """Takes fields from the front of a payload."""

    def __init__(self, payload: bytes):
        self.payload = payload
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self.payload) - self.at:
            raise Corrupt("a field ends beyond its entry")
        self.at += size
        return self.payload[self.at - size : self.at]

    def u8(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> 64:
                    break
                return value
        raise Corrupt("a varint of more than 64 bits")

    def left(self) -> int:
        return len(self.payload) - self.at

    def signed(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def f64(self) -> float:
        return struct.unpack("<d", self.take(8))[0]

    def f32(self) -> float:
        return struct.unpack("<f", self.take(4))[0]

    def text(self) -> str:
        return self.take(self.varint()).decode("utf-8", "replace")


def _statistics(fields: Fields) -> dict:
    statistics = {name: fields.varint() for name in STATISTICS}
    statistics.update({name: fields.f64() for name in MOMENTS})
    return statistics


def _compact(fields: Fields, shape: list[int]) -> dict:
    flags = fields.u8()
    if flags & 128:
        raise Corrupt("statistics with unknown flags")
    statistics = dict.fromkeys(STATISTICS, 0)
    statistics["count"] = math.prod(shape) if flags & 64 else fields.varint()
    for bit, name in ((1, "nan_count"), (2, "positive_inf_count"), (4, "negative_inf_count"), (8, "zero_count")):
        if flags & bit:
            statistics[name] = fields.varint()
    statistics["positive_count"] = fields.varint()
    others = statistics["nan_count"] + statistics["zero_count"] + statistics["positive_count"]
    statistics["negative_count"] = statistics["count"] - others
    if statistics["negative_count"] < 0:
        raise Corrupt("statistics with more elements of one kind than there are")
    limit = fields.f32 if flags & 16 else fields.f64
    statistics["max"] = limit()
    if flags & 32:
        one = statistics["max"]
        return statistics | {"min": one, "sum": one, "sum_squares": one * one}
    return statistics | {"min": limit(), "sum": fields.f64(), "sum_squares": fields.f64()}


def _tensor(fields: Fields, record: dict) -> dict:
    flags = fields.varint()
    if flags >> 15:
        raise Corrupt("a tensor with unknown flags")
    tensor = {
        "is_input": bool(flags & 1),
        "wanted": bool(flags & 2),
        "slot": fields.varint(),
        "dtype": fields.u8(),
        "shape": [fields.varint() for _ in range(fields.varint())],
        "content": fields.varint() if flags & 4 else 0,
        "source": fields.varint() if flags & 8 else None,
    }
    if flags & 8 and flags & 8192:
        tensor["source"] = record["sequence"] - tensor["source"]
        if tensor["source"] < 0:
            raise Corrupt("a source before the first record")
    tensor["source_slot"] = fields.varint() if flags & 8 else 0
    tensor["parameter"] = fields.varint() if flags & 16 else 0
    tensor["timestamp_us"] = fields.varint() if flags & 32 else 0
    if flags & 4096:
        tensor["timestamp_us"] = record["timestamp_us"]
    form = _compact if flags & 2048 else lambda fields, _: _statistics(fields)
    tensor["statistics"] = form(fields, tensor["shape"]) if flags & 64 else None
    tensor["skipped"] = fields.text() if flags & 128 else ""
    tensor["md5"] = fields.text() if flags & 256 else ""
    tensor["sha1"] = fields.text() if flags & 512 else ""
    tensor["constant"] = fields.f64() if flags & 1024 else None
    tensor["placement"] = fields.varint() if flags & 16384 else 0
    tensor["file"] = ""
    return tensor


def _record(fields: Fields) -> dict:
    record = {"kind": fields.u8(), "failed": bool(fields.u8() & 1)}
    if record["kind"] > 4:
        raise Corrupt("a record of an unknown kind")
    for name in ("sequence", "graph", "iteration", "op", "site", "thread", "timestamp_us"):
        record[name] = fields.varint()
    record["note"] = fields.text()
    record["tensors"] = [_tensor(fields, record) for _ in range(fields.varint())]
    record["attributes"] = fields.varint() if fields.left() else 0
    record["call_number"] = fields.varint() if fields.left() else 0
    return record


def _attribute(number: int, fields: Fields) -> dict:
    attribute = {"id": number, "name": fields.text(), "kind": fields.u8(), "text": fields.text()}
    attribute["integers"] = [fields.signed() for _ in range(fields.varint())]
    attribute["reals"] = [fields.f64() for _ in range(fields.varint())]
    return attribute


def _attributes(fields: Fields) -> list[dict]:
    number, count = fields.varint(), fields.varint()
    return [_attribute(number, fields) for _ in range(count)]


def _site(fields: Fields) -> dict:
    site = {"id": fields.varint(), "phase": fields.u8()}
    if site["phase"] > 4:
        raise Corrupt("a site of an unknown phase")
    for name in ("op_type", "scope", "forward_op_type"):
        site[name] = fields.text()
    site["forward_site"] = fields.varint()
    line = [fields.text(), fields.varint(), fields.text()]
    columns = [fields.varint() for _ in range(3)] if fields.left() else [0, 0, 0]
    site["trace"] = [line + columns] if line[0] else []
    for _ in range(fields.varint() if fields.left() else 0):
        site["trace"].append([fields.text(), fields.varint(), fields.text(), *(fields.varint() for _ in range(3))])
    return site


@dataclass
class Run:
    header: str = ""
    end: str = ""
    sites: list[dict] = field(default_factory=list)
    op_names: list[dict] = field(default_factory=list)
    attributes: list[dict] = field(default_factory=list)
    records: list[dict] = field(default_factory=list)
    files: list[tuple] = field(default_factory=list)
    seen: bool = False

    def take(self, kind: int, payload: bytes) -> None:
        fields = Fields(payload)
        self.seen = True
        if kind == 1:
            self.header = payload.decode("utf-8", "replace")
        elif kind == 2:
            self.sites.append(_site(fields))
        elif kind == 3:
            self.op_names.append({"id": fields.varint(), "op_type": fields.text(), "op_name": fields.text()})
        elif kind == 4:
            self.records.append(_record(fields))
        elif kind == 5:
            self.files.append(((fields.varint(), fields.u8() != 0, fields.varint()), fields.text()))
        elif kind == 6:
            self.end = payload.decode("utf-8", "replace")
        elif kind == 7:
            self.attributes += _attributes(fields)

    def join_files(self) -> None:
        slots = {
            (record["sequence"], tensor["is_input"], tensor["slot"]): tensor
            for record in self.records
            for tensor in record["tensors"]
        }
        for slot, name in self.files:
            if slot in slots:
                slots[slot]["file"] = name


@dataclass
class Journal:
    runs: list[Run] = field(default_factory=list)
    torn_bytes: int = 0
    malformed_entries: int = 0


def _is_header(data: bytes, at: int) -> bool:
    header = data[at : at + HEADER_BYTES]
    return (
        len(header) == HEADER_BYTES
        and header.startswith(MAGIC)
        and struct.unpack_from("<I", header, 12)[0] == xxh32(header[:12])
    )


def entry_bytes(data: bytes, at: int) -> int:
    """Length of the complete entry at `at`; 0 if there is none."""
    if len(data) - at < ENTRY_BYTES:
        return 0
    checksum, payload = struct.unpack_from("<II", data, at)
    size = ENTRY_BYTES + payload
    if payload > LONGEST_PAYLOAD or size > len(data) - at:
        return 0
    return size if xxh32(data[at + 4 : at + size]) == checksum else 0


def _join_supplements(journal: Journal) -> None:
    kept = []
    for run in journal.runs:
        mends = json.loads(run.header).get("mends") if '"mends"' in run.header else None
        if mends is None or mends >= len(kept):
            kept.append(run)
            continue
        for name in ("op_names", "records", "files"):
            getattr(kept[mends], name).extend(getattr(run, name))
        kept[mends].join_files()
    journal.runs = kept


def _may_be_entry(data: bytes, at: int) -> bool:
    return len(data) - at >= ENTRY_BYTES and 1 <= data[at + 8] <= 7 and entry_bytes(data, at) > 0


def read(data: bytes) -> Journal:
    """The content of a journal, run by run."""
    journal, run, at, found = Journal(), Run(), 0, False

    def close() -> None:
        if run.seen:
            run.join_files()
            journal.runs.append(run)

    while at < len(data):
        if _is_header(data, at):
            (version,) = struct.unpack_from("<I", data, at + 8)
            if version != VERSION:
                raise Unsupported(f"version {version}")
            close()
            run, found = Run(), True
            at += HEADER_BYTES
        elif size := entry_bytes(data, at):
            found = True
            if run.end or (run.seen and data[at + 8] == 1):  # its header is lost
                close()
                run = Run()
            try:
                run.take(data[at + 8], data[at + ENTRY_BYTES : at + size])
            except Corrupt:
                journal.malformed_entries += 1
            at += size
        else:
            start, at = at, at + 1
            while at < len(data) and not _is_header(data, at) and not _may_be_entry(data, at):
                at += 1
            journal.torn_bytes += at - start
    known = min(len(data), len(MAGIC))
    if not found and data[:known] != MAGIC[:known]:
        raise Corrupt("no journal")
    close()
    _join_supplements(journal)
    return journal
