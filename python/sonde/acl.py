"""The life cycle of CANN's dump interface (aclmdlInitDump, aclmdlSetDump, aclmdlFinalizeDump), for its users:

    from sonde import acl
    acl.init_dump()
    acl.set_dump("acl.json")
    ...                        # train
    acl.finalize_dump()

The same in C is in include/sonde/sonde.h: sonde_init_dump(), sonde_set_dump(), sonde_finalize_dump().
"""

from . import session
from .errors import Error

# In C the same three calls, with the same texts, are in src/record/capture/dump_life.cpp. They start the engine alone;
# these start a session, which also watches the frameworks of this process. tests/python/test_modes.py compares them.
_REPEATED = "EP0008: This API cannot be called repeatedly"

_stage = "none"  # "initialised", "set"


def init_dump() -> None:
    """Begin: before set_dump(). Raises Error if it was called before, or if a session is running."""
    global _stage
    if _stage != "none":
        raise Error(_REPEATED)
    if session.running():
        raise Error(f"{_REPEATED}: a dump was enabled when the program began")
    _stage = "initialised"


def set_dump(path: session.StrPath) -> None:
    """Record under this acl.json (or any configuration that sonde.start() takes) from now on.

    Raises Error with all errors in the file; the call may then be repeated with another file.
    """
    global _stage
    if _stage == "none":
        raise Error("EP0008: aclmdlInitDump must be executed before aclmdlSetDump")
    if _stage == "set":
        raise Error(_REPEATED)
    session.start(path)
    _stage = "set"


def finalize_dump() -> str:
    """End: all files are complete when this returns. Returns the closing line. init_dump() may follow.

    Raises Error if init_dump() was not called before.
    """
    global _stage
    if _stage == "none":
        raise Error("EP0008: aclmdlInitDump must be executed before aclmdlFinalizeDump")
    summary = session.stop() if _stage == "set" else ""
    _stage = "none"
    return summary
