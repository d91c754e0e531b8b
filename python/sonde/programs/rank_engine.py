"""`--engine ray` and `--engine dask` in the interpreter beside the command; if that lacks Sonde, a message instead of a
traceback.

Arguments: the request, as sonde.engines.main() takes it.
"""

import sys


def main(request: str) -> int:
    """Returns the exit status."""
    try:
        from sonde.engines import main as index_ranks
    except ImportError as error:
        print(
            f"sonde: error: --engine ray and dask need Sonde's Python package, which {sys.executable} lacks ({error}): "
            "pip install 'tensorsonde[ray]' or 'tensorsonde[dask]' there",
            file=sys.stderr,
        )
        return 2
    return index_ranks(request)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
