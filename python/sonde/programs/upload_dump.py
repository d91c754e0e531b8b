"""`sonde upload` in the requested interpreter; if that lacks Sonde, a message instead of a traceback.

Arguments: the request, as sonde.upload.main() takes it.
"""

import sys


def main(request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde import upload
    except ImportError as error:
        print(
            f"sonde: error: sonde upload needs Sonde's Python package, which {sys.executable} lacks ({error}): "
            "pip install tensorsonde there",
            file=sys.stderr,
        )
        return 2
    return upload.main(request)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
