"""`sonde mcp` in the requested interpreter; if that lacks a package, a message instead of a traceback.

Arguments: the dumps.
"""

import sys


def main(*dumps: str) -> int:
    """Returns the exit status."""
    try:
        from sonde.agents.server import main as serve
    except ImportError as error:
        print(
            f"sonde: error: cannot answer agents with {sys.executable}: {error}; install tensorsonde[mcp] there, or "
            "name an interpreter that has it: --python",
            file=sys.stderr,
        )
        return 2
    return serve(dumps)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
