"""Directories and files of this user that no other user can change or exchange: what is loaded from them was written
here."""

import errno
import os
import pathlib
import stat
from typing import IO


def own_directory(directory: pathlib.Path, make: bool = False) -> pathlib.Path:
    """real_path() of a directory of this user that others cannot put anything into. Raises OSError."""
    path = real_path(directory, make)
    _check_place(path, os.lstat(path), is_last=True)
    return path


def real_path(directory: pathlib.Path, make: bool = False) -> pathlib.Path:
    """The path of `directory` without links, of which only root and this user can exchange a part: what is checked
    there is what is loaded later. Raises OSError for a link of another user, or a directory on the way that others may
    change. `make`: makes missing directories, whose mode is never left to the umask."""
    at, names, links = pathlib.Path("/"), list(reversed(directory.absolute().parts[1:])), 0
    _check_place(at, os.lstat(at))
    while names:
        name = names.pop()
        place = at.parent if name == ".." else at / name
        status = _made(place) if make else os.lstat(place)
        if not stat.S_ISLNK(status.st_mode):
            _check_place(place, status)
            at = place
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
        if status.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, f"it is a symbolic link of user {status.st_uid}", str(place))
        target = pathlib.PurePath(os.readlink(place))
        at = pathlib.Path("/") if target.is_absolute() else at
        names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return at


def _made(directory: pathlib.Path) -> os.stat_result:
    if not os.path.lexists(directory):
        directory.mkdir(mode=0o700, exist_ok=True)
    return os.lstat(directory)


_MOST_LINKS = 40  # as the kernel


def _check_place(place: pathlib.Path, status: os.stat_result, is_last: bool = False) -> None:
    """Raise OSError unless `place` is a directory in which others cannot exchange what belongs to this user or root;
    the last one is this user's, and others can put nothing into it."""
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    if status.st_uid not in ((os.geteuid(),) if is_last else (0, os.geteuid())):
        raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(place))
    # A user's private group, as assumed by umask 002, has no other members.
    others = status.st_mode & (0o002 if status.st_gid == os.getegid() and not is_last else 0o022)
    if others and (is_last or not status.st_mode & stat.S_ISVTX):
        mode = stat.S_IMODE(status.st_mode)
        raise PermissionError(errno.EPERM, f"others may write to it (mode {mode:04o})", str(place))


def open_lock(directory: pathlib.Path) -> IO[bytes]:
    """The file `.lock`, only used as a lock: it is never emptied, and anything but a file of this user is refused."""
    path = directory / ".lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = open(path, "r+b", buffering=0, opener=lambda name, _: os.open(name, flags, 0o600))  # noqa: SIM115
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        file.close()
        raise PermissionError(errno.EPERM, f"expected a file of user {os.geteuid()}", str(path))
    return file


def usable(library: pathlib.Path) -> bool:
    """False for a library that another user could have put there; it is not loaded."""
    try:
        status = library.lstat()  # not of a link's target
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o022


def reason(error: OSError) -> str:
    """The file and what is wrong with it."""
    return f"'{error.filename}': {error.strerror}" if error.filename else str(error)
