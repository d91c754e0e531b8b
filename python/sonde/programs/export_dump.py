"""`sonde export` in the requested interpreter; if that lacks a package, a message instead of a traceback.

Arguments: the request, as sonde.export.main() takes it.
"""

import sys


def main(request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde.export import main as export
    except ImportError as error:
        print(
            f"sonde: error: cannot export with {sys.executable}: {error}; install sonde and numpy there, or name an "
            "interpreter that has them: --python",
            file=sys.stderr,
        )
        return 2
    return export(request)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
