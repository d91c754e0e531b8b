"""`sonde replay` in the requested interpreter; if that lacks a package, a message instead of a traceback.

Arguments: the request, as sonde.replay.main() takes it.
"""

import sys


def main(request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde.replay import main as replay
    except ImportError as error:
        print(
            f"sonde: error: cannot run operators with {sys.executable}: {error}; install sonde and torch there, or "
            "name an interpreter that has them: --python",
            file=sys.stderr,
        )
        return 2
    return replay(request)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
