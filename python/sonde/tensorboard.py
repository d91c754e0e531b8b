"""Event files of TensorBoard: records with a length, a sum of each, and one Event of protobuf in each."""

import math
import os
import socket
import struct
import time
from collections.abc import Iterable
from typing import IO


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC32C = _table()


def masked_crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), rotated by 15 bits plus a constant, as in TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes_field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _event(when: float, step: int, content: bytes) -> bytes:
    """wall_time = 1, step = 2, then file_version = 3 or summary = 5."""
    return b"\x09" + struct.pack("<d", when) + b"\x10" + _varint(step) + content


def _value(tag: str, value: float) -> bytes:
    """Summary.Value: tag = 1, simple_value = 2."""
    name = tag.encode("utf-8", "backslashreplace")
    return _bytes_field(1, _bytes_field(1, name) + b"\x15" + struct.pack("<f", _as_float32(value)))


def _as_float32(value: float) -> float:
    largest = 3.4028234663852886e38
    if -largest <= value <= largest or math.isnan(value):
        return value
    return float("inf") if value > 0 else float("-inf")


def file_name(timestamps_us: Iterable[int]) -> str:
    """TensorBoard reads files with `tfevents` in their names, and sorts by the time in them."""
    first = min((int(time_us) for time_us in timestamps_us if time_us), default=int(time.time() * 1e6))
    return f"events.out.tfevents.{first // 1_000_000:010}.{socket.gethostname()}.{os.getpid()}.sonde"


def write(file: IO[bytes], points: Iterable[tuple[int, float, str, float]]) -> int:
    """points: (step, time in seconds, tag, value), by step; those of one step are one event. Returns their number."""
    file.write(_record(_event(time.time(), 0, _bytes_field(3, b"brain.Event:2"))))
    count = 0
    key: tuple[int, float] | None = None
    summary: list[bytes] = []
    for step, when, tag, value in points:
        if key is not None and key[0] != step:
            file.write(_record(_event(key[1], key[0], _bytes_field(5, b"".join(summary)))))
            key, summary = None, []
        if key is None:
            key = (step, when)
        summary.append(_value(tag, value))
        count += 1
    if key is not None:
        file.write(_record(_event(key[1], key[0], _bytes_field(5, b"".join(summary)))))
    return count
