"""`sonde gather` in the requested interpreter; if that lacks Sonde, a message instead of a traceback.

Arguments: the request, as sonde.gather.main() takes it.
"""

import sys


def main(request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde import gather
    except ImportError as error:
        print(
            f"sonde: error: sonde gather needs Sonde's Python package, which {sys.executable} lacks ({error}): "
            "pip install tensorsonde there",
            file=sys.stderr,
        )
        return 2
    return gather.main(request)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
