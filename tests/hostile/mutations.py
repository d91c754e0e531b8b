"""One damage to one file of a dump, chosen by a random number."""

import os
import re
import struct

INTERESTING = [
    *(
        0,
        1,
        -1,
        127,
        128,
        255,
        256,
        32767,
        65535,
        65536,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
        2**53,
        2**63 - 1,
        2**64 - 1,
    )
]
WORDS = [
    *(b"nan", b"inf", b"-inf", b"1e999", b"-0", b"null", b"true", b"[]", b"{}", b'""', b"(999999999,999999999,9)"),
    *(b"../../../../etc/passwd", b"/dev/zero", b"\x1b]0;x\x07", b"\xff\xfe", b"\x00", "\u202e".encode()),
    *(b"a" * 5000, b"9" * 400, b"[" * 2000),
]


def _place(random, data):
    return random.randrange(len(data)) if data else 0


def truncated(random, data):
    return data[: _place(random, data)]


def flipped(random, data):
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64)) if out else 0):
        out[_place(random, out)] ^= 1 << random.randrange(8)
    return bytes(out)


def overwritten(random, data):
    """A number of 1 to 8 bytes at a place, near the front more often: headers are there."""
    form = random.choice("BHIQ")
    at = _place(random, data[: random.choice((64, 512, 1 << 30))])
    number = struct.pack("<" + form, random.choice(INTERESTING) % (1 << 8 * struct.calcsize(form)))
    return data[:at] + number + data[at + len(number) :]


def repeated(random, data):
    begin = _place(random, data)
    piece = data[begin : begin + random.choice((1, 8, 100, 4000))]
    return data[:begin] + piece * random.choice((2, 3, 200)) + data[begin:]


def removed(random, data):
    begin = _place(random, data)
    return data[:begin] + data[begin + random.choice((1, 4, 8, 100, 4000)) :]


def inserted(random, data):
    at = _place(random, data)
    return data[:at] + random.choice(WORDS) + data[at:]


def renumbered(random, data):
    """Replaces a number in a text."""
    numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data[: 1 << 20]))
    if not numbers:
        return overwritten(random, data)
    for found in sorted(random.sample(numbers, min(len(numbers), random.choice((1, 1, 3)))), key=lambda m: -m.start()):
        value = random.choice((random.choice(WORDS[:5]), str(random.choice(INTERESTING)).encode()))
        data = data[: found.start()] + value + data[found.end() :]
    return data


def reworded(random, data):
    """Replaces a word in a text."""
    words = list(re.finditer(rb"\"[^\"\n]{1,60}\"|[^,\n\"]{1,60}", data[: 1 << 20]))
    if not words:
        return inserted(random, data)
    found = random.choice(words)
    return data[: found.start()] + random.choice((random.choice(WORDS), random.choice(words)[0])) + data[found.end() :]


def emptied(_random, _data):
    return b""


def noise(random, data):
    return random.randbytes(min(len(data), 4096))


OF_CONTENT = [
    *(truncated, flipped, flipped, overwritten, overwritten, repeated, removed, inserted, emptied, noise),
    *(renumbered, renumbered, reworded, reworded),
]


def as_directory(path):
    os.unlink(path)
    os.mkdir(path)


def as_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def as_link_to_itself(path):
    os.unlink(path)
    os.symlink(os.path.basename(path), path)


def as_link_to_zeros(path):
    os.unlink(path)
    os.symlink("/dev/zero", path)


def unreadable(path):
    os.unlink(path)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o000))


def as_hole(path):
    """A file of an apparent terabyte that takes no disk space."""
    with open(path, "rb") as file:
        data = file.read(4096)
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(data)
        file.truncate(1 << 40)


def renamed(path, random):
    directory, name = os.path.split(os.fsencode(path))
    number = re.search(rb"\d+", name)
    odd = [
        *(name + b".tmp", b"x" * 250, name[: len(name) // 2], b"\x1b[31m" + name, b"\xff" + name, name + b"\n"),
        *(name.replace(b".", b""), name.replace(b"0", b"99999999999999999999")),
    ]
    if number:
        odd.append(name.replace(number[0], str(random.choice(INTERESTING)).encode(), 1))
    new = os.path.join(directory, random.choice(odd)[:255])
    if not os.path.exists(new):
        os.rename(path, new)


OF_FILE = [as_directory, as_fifo, as_link_to_itself, as_link_to_zeros, unreadable, as_hole]


def can_be_damaged(path):
    """True for a file with real content: not for the hole, a copy of which would need a terabyte of memory."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 30


def apply(random, path):
    """Damages the file; its other names keep the old content. Describes the damage."""
    kind = random.random()
    if kind < 0.06:
        change = random.choice(OF_FILE)
        change(path)
        return change.__name__
    if kind < 0.12:
        renamed(path, random)
        return "renamed"
    with open(path, "rb") as file:
        data = file.read()
    changes = [random.choice(OF_CONTENT) for _ in range(random.choice((1, 1, 1, 2)))]
    for change in changes:
        data = change(random, data)
    os.unlink(path)  # hard links share their bytes
    with open(path, "wb") as file:
        file.write(data)
    return "+".join(change.__name__ for change in changes)
