"""Runs one of the user's own rules for a pair of formats, `convert_X_to_Y.py`, for `sonde convert`.

Arguments: the script, the file of its elements (.npy), the file to write (.npy), and {"from": shape, "to": shape,
"group": number} as JSON; "group" only where the script takes one.
"""

import importlib.util
import json
import sys


def main(script: str, source: str, target: str, request_text: str) -> None:
    """Ends the program with a message if there is no NumPy, or if the script returns no array."""
    try:
        import numpy as np
    except ImportError as error:
        sys.exit(f"custom conversion scripts need NumPy, which {sys.executable} does not have: {error}")
    request = json.loads(request_text)
    spec = importlib.util.spec_from_file_location("custom_conversion", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    arguments = [request["from"], request["to"], np.load(source, allow_pickle=False)]
    if "group" in request:
        arguments.append(request["group"])
    result = module.convert(*arguments)
    if not isinstance(result, np.ndarray):
        sys.exit(f"{script}: convert() returned {type(result).__name__}; expected numpy.ndarray")
    if result.dtype.hasobject:
        sys.exit(f"{script}: convert() returned an array of Python objects")
    np.save(target, np.ascontiguousarray(result), allow_pickle=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
