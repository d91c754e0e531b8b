"""Dumps of MindSpore and of Sonde, compared file by file."""

import collections
import re

TIME = re.compile(r"(?<=\.)[0-9]{16}(?=\.)")
ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")


def files(dump):
    """{path below the dump, with T for the time: [files, oldest first]}, less what is Sonde's own."""
    found = collections.defaultdict(list)
    for path in sorted(dump.rglob("*")):  # all times have the same length, so this is their order
        name = path.relative_to(dump).as_posix()
        if path.is_file() and ".dump_metadata/sonde/" not in name:
            found[TIME.sub("T", name)].append(path)
    return dict(found)


def content(path):
    """The bytes of a file; graphs as text name addresses of objects, which no two runs share."""
    data = path.read_bytes()
    return ADDRESS.sub(b"0x", data) if path.suffix == ".ir" else data
