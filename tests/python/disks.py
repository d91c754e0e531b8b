"""Full and failing disks for tests: full_disk.c, for processes that preload it."""

import ctypes
import functools
import os
import pathlib
import subprocess
import tempfile

from processes import preloading

_SOURCE = pathlib.Path(__file__).with_name("full_disk.c")


@functools.cache
def _library():
    place = tempfile.TemporaryDirectory(prefix="full-disk-")  # removed with this process
    path = pathlib.Path(place.name) / "full_disk.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", path, _SOURCE], check=True)
    return path, place


def environment():
    """The environment of a process that may call spoil(): it and its forks can import this file."""
    return os.environ | {"LD_PRELOAD": preloading(_library()[0]), "PYTHONPATH": str(_SOURCE.parent)}


def is_preloaded():
    return hasattr(ctypes.CDLL(None), "spoil_disk")


def spoil(directory, *, bytes=-1, writes=-1, late=False):
    """From now on the disk takes so many bytes below the directory, or so many writes; late: close() reports it."""
    limits = ctypes.c_longlong(bytes), ctypes.c_longlong(writes), ctypes.c_int(late)
    ctypes.CDLL(None).spoil_disk(str(directory).encode(), *limits)
