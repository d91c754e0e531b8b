"""`sonde repro` and `sonde replay` in the requested interpreter; if that lacks a package, a message instead of a
traceback.

Arguments: `repro` or `replay`, and the request, as main() of that module takes it.
"""

import sys


def main(verb: str, request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde import replay, repro
    except ImportError as error:
        print(
            f"sonde: error: cannot run operators with {sys.executable}: {error}; install sonde and torch there, or "
            "name an interpreter that has them: --python",
            file=sys.stderr,
        )
        return 2
    if verb == "repro":
        return repro.main(request)
    return replay.main(request)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
