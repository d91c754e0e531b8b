"""`sonde gather` and `sonde upload` in the requested interpreter; if that lacks Sonde, a message instead of a
traceback.

Arguments: `gather` or `upload`, and the request, as main() of that module takes it.
"""

import sys


def main(verb: str, request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde import gather, upload
    except ImportError as error:
        print(
            f"sonde: error: sonde {verb} needs Sonde's Python package, which {sys.executable} lacks ({error}): "
            "pip install tensorsonde there",
            file=sys.stderr,
        )
        return 2
    if verb == "gather":
        return gather.main(request)
    return upload.main(request)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
