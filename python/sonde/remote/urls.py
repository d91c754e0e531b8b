"""Addresses of dumps: what of a URL may be shown, and the file system of fsspec behind it."""

import difflib
import os
import re
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from ..errors import Error

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
_NEARLY_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?=[^/])")
_DEFAULT_TIMEOUT = 30.0

# The package for a scheme that fsspec has no code for itself.
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "'tensorsonde[s3]'"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("http", "https"), "fsspec aiohttp"),
    **dict.fromkeys(("oci", "ocilake"), "ocifs"),
    "oss": "ossfs",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "webdav": "webdav4",
}
_HTTP = ("http", "https")


class RemoteError(Error):
    """A dump at a URL cannot be read; the text has no credential. `status`: the exit status of a command. `is_refused`:
    the server refuses such requests."""

    def __init__(self, message: str, status: int = 3, *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.status, self.is_refused = status, is_refused


def is_url(text: str | os.PathLike[str]) -> bool:
    """s3://bucket/run7; a path is none."""
    return _URL.match(os.fspath(text)) is not None


def check_path(text: str) -> None:
    """Raises RemoteError for s3:/bucket/run7, which lacks a slash."""
    near = _NEARLY_URL.match(text)
    if near and not os.path.lexists(text):
        raise RemoteError(
            f"cannot open dump '{text}': no such directory; did you mean '{near[1]}://{text[near.end() :]}'?"
        )


def timeout() -> float:
    """Seconds that a server may be silent."""
    try:
        return max(0.1, float(os.environ.get("SONDE_REMOTE_TIMEOUT", "") or _DEFAULT_TIMEOUT))
    except ValueError:
        return _DEFAULT_TIMEOUT


class Address(NamedTuple):
    """A URL in its parts."""

    scheme: str
    url: str  # of the directory, without a query; it may hold a password, so it stays in memory
    query: str  # of http: sent with each request
    shown: str  # without credentials
    secrets: tuple[str, ...]

    @property
    def is_http(self) -> bool:
        """Whether its file system has only what web servers say."""
        return self.scheme in _HTTP

    def clean(self, text: object) -> str:
        """One line without the secrets of the URL."""
        line = " ".join(str(text).split())
        for secret in self.secrets:
            line = line.replace(secret, "…")
        return re.sub(r"(?i)(signature|token|credential|sig)=[^&\s'\"]+", r"\1=…", line)


def address_of(url: str) -> Address:
    """Raises RemoteError for a URL that is none."""
    chain, found, last = url.rpartition("::")
    try:
        parts = urlsplit(last)
        user, _, host = parts.netloc.rpartition("@")
        is_http = parts.scheme.lower() in _HTTP
        hides_user = ":" in user or is_http
        shown_host = host if hides_user else parts.netloc
        password = user.partition(":")[2]
    except ValueError:
        raise RemoteError("cannot open dump: its URL cannot be read; expected SCHEME://BUCKET/PATH") from None
    if parts.scheme in ("s3", "s3a", "gs", "gcs") and ":" in user:
        raise RemoteError(
            f"cannot open dump '{parts.scheme}://{host}{parts.path}': its URL has a credential, which others can see; "
            "set it in the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    path = parts.path.rstrip("/")
    if not parts.netloc and not path:
        raise RemoteError(
            f"cannot open dump '{parts.scheme}://': it names no place; expected {parts.scheme}://BUCKET/PATH"
        )
    plain = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
    shown = urlunsplit((parts.scheme, shown_host, path, "", ""))
    secrets = {user if hides_user else "", password, unquote(password), parts.query}
    secrets |= {value for value in re.split("[&=]", parts.query) if len(value) >= 8}
    ordered = tuple(sorted(filter(None, secrets), key=len, reverse=True))
    prefix = chain + found
    return Address(parts.scheme.lower(), prefix + plain, parts.query if is_http else "", prefix + shown, ordered)


def filesystem_of(address: Address) -> tuple[Any, str]:
    """The file system of fsspec, and the path in it. Raises RemoteError."""
    where = f"cannot open dump '{address.shown}'"
    try:
        import fsspec
        from fsspec.core import url_to_fs
        from fsspec.registry import known_implementations
    except ImportError:
        raise RemoteError(f"{where}: URLs need fsspec: pip install {_packages(address.scheme)}") from None
    for scheme in re.split(":+", address.url.partition("://")[0]):
        if scheme not in known_implementations and scheme not in fsspec.registry:
            near = difflib.get_close_matches(scheme, known_implementations, 1, 0.5)
            cure = f"; did you mean '{near[0]}://'?" if near else "; there are s3, gs, az, https and others of fsspec"
            raise RemoteError(f"{where}: no scheme '{scheme}'{cure}")
    try:
        filesystem, path = url_to_fs(address.url, **_options(address.scheme))
    except ImportError as error:
        missing = f" ({error.name})" if error.name else ""
        raise RemoteError(
            f"{where}: '{address.scheme}://' needs a package that is missing{missing}: "
            f"pip install {_packages(address.scheme)}"
        ) from None
    except Exception as error:
        raise RemoteError(f"{where}: {address.clean(error)}") from None
    if address.scheme in ("s3", "s3a"):
        filesystem.retries = 1  # source.py tries again itself
    return filesystem, path.rstrip("/")


def _packages(scheme: str) -> str:
    return _PACKAGES.get(scheme, "fsspec")


def _options(scheme: str) -> dict[str, Any]:
    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if scheme in ("s3", "s3a"):
        seconds = timeout()
        retries = {"total_max_attempts": 1}
        return options | {
            "config_kwargs": {"connect_timeout": min(seconds, 10), "read_timeout": seconds, "retries": retries}
        }
    if scheme in _HTTP:
        import aiohttp

        # Names are quoted by us, since a dump's names may have any character.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=min(timeout(), 10), sock_read=timeout())
        return options | {"encoded": True, "client_kwargs": {"timeout": limits}}
    if scheme == "memory":
        return {}
    return options
