"""Dumps at URLs of fsspec, as s3://bucket/run7: mirrored into the user's cache, and read from there.

Names and journals come first. The bytes of other files come when the engine reads them."""

import os
import threading
from collections.abc import Iterable

from .. import _core, errors
from .mirror import Mirror, rank_numbers
from .urls import RemoteError, address_of, check_path, is_url

__all__ = ["RemoteError", "environment", "is_mirrored", "is_url", "local_path", "rank_numbers", "shared"]

_LOCAL = "file://"
_lock = threading.Lock()
_mirrors: dict[str, Mirror] = {}


def local_path(dump: str | os.PathLike[str], ranks: Iterable[int] = (), *, later: bool = False) -> str:
    """The path of a dump on this machine: of its mirror, if it is at a URL; `later`: journals come when they are read.
    Raises Error."""
    text = os.fspath(dump)
    if not is_url(text):
        check_path(text)
        return text
    if text.startswith(_LOCAL):
        return text[len(_LOCAL) :]
    with _lock:
        mirror = _mirrors.get(text) or Mirror(text)
        mirror.look(ranks, later=later)
        if text not in _mirrors:
            _mirrors[text] = mirror
            errors.names[str(mirror.root)] = mirror.name
        _core.add_file_source(str(mirror.root), mirror.ask)
    return str(mirror.path)


def is_mirrored(text: str | os.PathLike[str]) -> bool:
    """Whether it is a URL of another machine."""
    return is_url(text) and not os.fspath(text).startswith(_LOCAL)


def shared(url: str) -> str:
    """The URL, if other machines may get it. Raises RemoteError."""
    address = address_of(url)
    if address.secrets:
        raise RemoteError(
            f"'{address.shown}' has a credential in its URL, which is not sent to other machines: set it in the "
            "environment of the workers, or say --engine local"
        )
    return url


def environment(ranks: Iterable[int] = ()) -> dict[str, str]:
    """This process's, with what a command needs to read mirrors of this process, or these ranks of one."""
    lines = [f"{mirror.root}\t{mirror.name}\t{url}" for url, mirror in _mirrors.items()]
    wanted = " ".join(map(str, ranks))
    more = {"SONDE_MIRROR_RANKS": wanted} if wanted else {}
    return {**os.environ, **({"SONDE_MIRRORS": "\n".join(lines)} if lines else {}), **more}
