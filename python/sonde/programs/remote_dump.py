"""Mirrors a dump at a URL for the command, which asks on standard input; if the interpreter lacks Sonde, a message
instead of a traceback.
"""

import json
import os
import sys


def main() -> int:
    """Returns the exit status."""
    try:
        from sonde.remote.service import serve
    except ImportError as error:
        message = (
            "dumps at URLs need Sonde's Python package, which {} lacks ({}): pip install 'tensorsonde[s3]'".format(
                sys.executable, error
            )
        )
        number = json.loads(sys.stdin.readline() or "{}").get("number", 0)
        os.write(0, (json.dumps({"number": number, "error": message, "status": 3}) + "\n").encode())
        return 3
    return serve()


if __name__ == "__main__":
    sys.exit(main())
