"""Dumps at URLs of fsspec, as s3://bucket/run7: mirrored into the user's cache, and read from there.

Names and journals come first. The bytes of other files come when the engine reads them."""

import os
import threading
from collections.abc import Iterable

from .. import _core, errors
from .mirror import Mirror
from .urls import RemoteError, check_path, is_url

__all__ = ["RemoteError", "environment", "is_url", "local_path"]

_LOCAL = "file://"
_lock = threading.Lock()
_mirrors: dict[str, Mirror] = {}


def local_path(dump: str | os.PathLike[str], ranks: Iterable[int] = ()) -> str:
    """The path of a dump on this machine: of its mirror, if it is at a URL. Raises Error."""
    text = os.fspath(dump)
    if not is_url(text):
        check_path(text)
        return text
    if text.startswith(_LOCAL):
        return text[len(_LOCAL) :]
    with _lock:
        mirror = _mirrors.get(text) or Mirror(text)
        mirror.look(ranks)
        if text not in _mirrors:
            _mirrors[text] = mirror
            errors.names[str(mirror.root)] = mirror.name
        _core.add_file_source(str(mirror.root), mirror.ask)
    return str(mirror.path)


def environment() -> dict[str, str]:
    """This process's, with what a command needs to read mirrors of this process."""
    lines = [f"{mirror.root}\t{mirror.name}\t{url}" for url, mirror in _mirrors.items()]
    return {**os.environ, **({"SONDE_MIRRORS": "\n".join(lines)} if lines else {})}
