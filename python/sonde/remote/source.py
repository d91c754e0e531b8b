"""The files behind a URL, by fsspec: names, sizes and bytes. Requests that fail for a moment are made again."""

import base64
import contextlib
import difflib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from .urls import Address, RemoteError, filesystem_of, timeout

_ATTEMPTS = 4
_FIRST_PAUSE = 0.25  # seconds; each later one is twice as long

_LIMITED = re.compile(r"\b429\b|too ?many ?requests|throttl|request ?limit")
_BUSY = re.compile(rf"slow ?down|503|service ?unavailable|{_LIMITED.pattern}")
_FAILED = re.compile(r"\b50[0-9]\b|internal ?(server ?)?error|bad gateway")

_Answer = TypeVar("_Answer")


class Entry(NamedTuple):
    """A file or directory of the source."""

    path: str  # below the URL
    is_directory: bool
    size: int | None  # None: a web server did not say it
    version: int  # in nanoseconds: version_of()
    md5: str = ""  # of its bytes, as far as the server says it; an encrypted file's may be of other bytes

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


def version_of(size: int | None, info: dict[str, Any]) -> int:
    """The time that a file's mirror has: a number for its size, entity tag and time of change.

    So the mirror itself says which version it is. It lies between the years 2000 and 2015: such a file is not being
    written."""
    tag = next((str(info[name]) for name in ("ETag", "etag", "content_md5", "md5Hash") if info.get(name)), "")
    names = ("LastModified", "Last-Modified", "last_modified", "updated", "mtime", "created")
    changed = next((str(info[name]) for name in names if info.get(name)), "")
    digest = hashlib.blake2b(f"{size}|{tag}|{changed}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    return (946_684_800 + number % 473_385_600) * 10**9 + (number >> 32) % 10**9


def _md5_of(info: dict[str, Any]) -> str:
    tag = str(info.get("ETag") or "").strip('"')
    if re.fullmatch(r"[0-9a-f]{32}", tag):  # of an upload in one part
        return tag
    with contextlib.suppress(ValueError, TypeError):
        return base64.b64decode(info.get("md5Hash") or "", validate=True).hex()
    return ""


def md5_of_file(path: Path) -> str:
    """As Entry.md5 says it."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Source:
    """Paths are relative to the URL, with `/` between their parts; '' is the URL itself."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._fs, self._root = filesystem_of(address)

    def shown(self, path: str) -> str:
        """The URL of a file, for people."""
        return f"{self.address.shown}/{path}" if path else self.address.shown

    # --- names

    def names(self, path: str) -> list[Entry]:
        """The entries of a directory. Raises FileNotFoundError; RemoteError after some attempts."""
        return self._entries(self._try(path, lambda: self._fs.ls(self._place(path), detail=True)), path)

    def all_names(self, path: str) -> list[Entry]:
        """All files below a directory; none if there is no such directory."""
        if self.address.is_http:
            return self._walk(path)
        try:
            found = self._try(path, lambda: self._fs.find(self._place(path), detail=True))
        except FileNotFoundError:
            return []
        return [entry for entry in self._entries(list(found.values()), path) if not entry.is_directory]

    def _walk(self, path: str) -> list[Entry]:
        try:
            entries = self.names(path)
        except FileNotFoundError:
            return []
        files = [entry for entry in entries if not entry.is_directory]
        return files + [one for entry in entries if entry.is_directory for one in self._walk(entry.path)]

    def nearest(self) -> list[str]:
        """The URLs most like this one, as far as its parents may be listed."""
        if self.address.is_http:
            return []
        prefix = self.address.shown[: len(self.address.shown) - len(self._root)]
        path = self._root
        while path:
            above = path.rpartition("/")[0]
            with contextlib.suppress(Exception):  # a guess may fail
                found = [str(name).rstrip("/") for name in self._fs.ls(above, detail=False)]
                near = difflib.get_close_matches(path, found, 3, 0.6) or found[:3]
                if near:
                    return [prefix + name for name in near]
            path = above
        return []

    def _entries(self, found: list[dict[str, Any]], directory: str) -> list[Entry]:
        entries = {}
        for info in found:
            path = self._path_of(str(info["name"]))
            if path is None or path == directory:
                continue
            size = info.get("size")
            size = size if isinstance(size, int) else None
            entry = Entry(path, info.get("type") == "directory", size, version_of(size, info), _md5_of(info))
            if path not in entries or entry.is_directory:  # not a directory's own marker
                entries[path] = entry
        return list(entries.values())

    def is_file(self) -> bool:
        """Whether the URL is one file."""
        try:
            return bool(self._try("", lambda: self._fs.info(self._place("")))["type"] == "file")
        except FileNotFoundError:
            return False

    def look(self, path: str) -> Entry | None:
        """A file's size and version; None if it does not exist."""
        try:
            info = self._try(
                path, lambda: self._head(path) if self.address.is_http else self._fs.info(self._place(path))
            )
        except FileNotFoundError:
            return None
        size = info.get("size")
        return Entry(path, info.get("type") == "directory", size, version_of(size, info), _md5_of(info))

    def _head(self, path: str) -> dict[str, Any]:
        """As fsspec's info(), which leaves out the time of change."""
        from fsspec.asyn import sync

        async def ask() -> tuple[int, dict[str, str]]:
            session = await self._fs.set_session()
            async with session.head(self._fs.encode_url(self._place(path)), allow_redirects=True) as response:
                return response.status, dict(response.headers)

        status, headers = sync(self._fs.loop, ask)
        if status in (404, 410):
            raise FileNotFoundError(path)
        if status in (401, 403):
            raise PermissionError(f"{status} Forbidden" if status == 403 else "401 Unauthorized")
        if status >= 400:
            raise OSError(f"{status} from the server")
        by_name = {name.lower(): value for name, value in headers.items()}
        size = by_name.get("content-length", "")
        return {
            "size": int(size) if size.isdigit() else None,
            "ETag": by_name.get("etag"),
            "Last-Modified": by_name.get("last-modified"),
            "type": "file",
        }

    # --- bytes

    def fetch(self, path: str, to: str, progress: Callable[[int], None]) -> int:
        """Writes the bytes of a file to `to`. Returns their number; 0 and no file if it does not exist."""
        from fsspec.callbacks import Callback

        class Told(Callback):  # type: ignore[misc]  # fsspec has no types
            def relative_update(self, inc: int = 1) -> None:
                progress(inc)

        def get() -> None:
            self._fs.get_file(self._place(path), to, callback=Told())

        self._try(path, get)
        return os.path.getsize(to)

    def part(self, path: str, begin: int, end: int) -> bytes:
        """Some bytes of a file."""
        found: bytes = self._try(path, lambda: self._fs.cat_file(self._place(path), start=begin, end=end))
        if len(found) != end - begin:  # a web server may not know ranges
            found = found[begin:end] if len(found) >= end else found
        if len(found) != end - begin:
            raise RemoteError(
                f"cannot read '{self.shown(path)}': it ends after {begin + len(found)} bytes, expected {end} or more"
            )
        return found

    def put(self, path: str, blocks: Callable[[], Iterable[bytes]]) -> None:
        """Writes a file, which appears whole. `blocks` gives its bytes, for each attempt."""

        def write() -> None:
            file = self._fs.open(self._place(path), "wb")
            try:
                for block in blocks():
                    file.write(block)
            except BaseException:  # its end would make a file of the part
                with contextlib.suppress(Exception):
                    file.discard()
                file.closed = True
                raise
            file.close()

        self._try(path, write, "write")

    # --- paths

    def _place(self, path: str) -> str:
        if self.address.is_http:
            place = f"{self._root}/{quote(path)}" if path else f"{self._root}/"
            return f"{place}?{self.address.query}" if self.address.query else place
        return f"{self._root}/{path}" if path else self._root

    def _path_of(self, name: str) -> str | None:
        """None: such a path is not mirrored."""
        if self.address.is_http:
            if self.address.query:  # fsspec appends the links of a page to the whole URL of that page
                name = name.replace(f"/?{self.address.query}", "").replace(f"?{self.address.query}", "")
            name = unquote(name.partition("?")[0].partition("#")[0])
        name, root = name.rstrip("/"), unquote(self._root) if self.address.is_http else self._root
        if name.rstrip("/") == root.rstrip("/"):
            return ""
        if not name.startswith(root + "/") and root:
            return None
        path = name[len(root) :].lstrip("/") if root else name.lstrip("/")
        parts = path.split("/")
        return path if all(part not in ("", ".", "..") and "\0" not in part for part in parts) else None

    # --- failures

    def _try(self, path: str, work: Callable[[], _Answer], verb: str = "read") -> _Answer:
        pause = _FIRST_PAUSE
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return work()
            except (FileNotFoundError, NotADirectoryError):
                raise
            except RemoteError:
                raise
            except Exception as error:
                if attempt == _ATTEMPTS or _is_final(error):
                    times = f", {attempt} times" if attempt > 1 else ""
                    what = verb if path else "open dump"
                    why = self.address.clean(_reason(error, self.address, times, verb))
                    is_refused = isinstance(error, PermissionError)
                    raise RemoteError(f"cannot {what} '{self.shown(path)}': {why}", is_refused=is_refused) from None
            time.sleep(pause)
            pause *= 2
        raise AssertionError


def _is_final(error: Exception) -> bool:
    """Another attempt fails as well."""
    if isinstance(error, (PermissionError, NotImplementedError, ValueError, RecursionError)):
        return True
    kind, status = type(error).__name__, getattr(error, "status", 0)
    if "Credential" in kind or kind in ("ProfileNotFound", "ParamValidationError", "InvalidRegionError"):
        return True
    return isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)


def _reason(error: Exception, address: Address, times: str, verb: str) -> str:
    kind, text = type(error).__name__, str(error)
    status = getattr(error, "status", 0)
    lower = f"{kind} {text}".lower()
    is_s3 = address.scheme in ("s3", "s3a")
    reason = f"{text[:200] or kind}{times}"
    if "credential" in lower:
        cure = ": set AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or FSSPEC_S3_ANON=true" if is_s3 else ""
        reason = f"no credentials were found{cure}"
    elif isinstance(error, PermissionError) or status in (401, 403):
        may = "write" if verb == "write" else "list and read"
        reason = f"no permission ({text[:120] or kind}); check the credentials, and that they may {may} there"
    elif isinstance(error, TimeoutError) or "timed out" in lower or "timeout" in lower:
        reason = f"no answer within {timeout():g} s{times}; SONDE_REMOTE_TIMEOUT sets the seconds"
    elif isinstance(error, RecursionError):  # of a package that follows each redirection
        places = ": check AWS_ENDPOINT_URL and AWS_DEFAULT_REGION" if is_s3 else ""
        reason = f"the server sends each request on to another place, without an end{places}"
    elif _BUSY.search(lower) or status in (429, 503):
        number = 429 if status == 429 or _LIMITED.search(lower) else 503
        reason = f"the server is too busy ({number}){times}; try again later"
    elif _FAILED.search(lower) or 500 <= status < 600:
        reason = f"the server failed ({text[:120] or kind}){times}; try again later"
    elif "payload" in kind.lower() or "incomplete" in lower or "contentlength" in lower:
        reason = f"the transfer breaks off{times}; check the network, or copy the file there again"
    elif "connect" in kind.lower() or isinstance(error, ConnectionError) or "name or service" in lower:
        endpoint = " and AWS_ENDPOINT_URL" if is_s3 else ""
        reason = f"it cannot be reached{times} ({text[:120]}); check the network{endpoint}"
    return reason
