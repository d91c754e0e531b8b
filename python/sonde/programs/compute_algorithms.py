"""Computes the user's own algorithms, `algorithm/alg_NAME.py`, for `sonde msaccucmp compare`.

Arguments: the directory that `algorithm` is in, and options as `NAME:key=value,key=value;NAME:…`. Reads requests from
descriptor 3 and answers on 4; what the scripts print goes to standard error. A request is six lengths (8 bytes each,
little-endian) and six parts: name, left path, right path, scalar ("1" or "0"), left and right values (float32). An
answer is two lengths and two texts: value, message.
"""

import sys

if __name__ == "__main__":  # without the current directory: any Python 3 must do, so there is no -P
    sys.path[:] = [place for place in sys.path if place.startswith("/")]

import importlib
import os
import struct
from typing import Any, Callable, Dict, Tuple


class Parameters:
    """The extra arguments of an algorithm: its options, and the paths, as attributes."""


class Algorithms:
    """The algorithms of a directory, imported when they are first used."""

    def __init__(self, options: str) -> None:
        self._functions: Dict[str, Callable[..., Any]] = {}
        self._options: Dict[str, Dict[str, str]] = {}
        for item in filter(None, options.split(";")):
            name, _, pairs = item.partition(":")
            known = self._options.setdefault(name.strip(), {})
            for pair in filter(str.strip, pairs.split(",")):
                key, _, value = pair.partition("=")
                known[key.strip()] = value.strip()

    def compute(  # noqa: PLR0917 - a request has six parts
        self, name: str, left_path: str, right_path: str, scalar: str, left: bytes, right: bytes
    ) -> Tuple[str, str]:
        """(value, message). Raises the algorithm's exceptions, and TypeError if it does not return two texts."""
        import numpy

        if name not in self._functions:
            self._functions[name] = importlib.import_module("algorithm.alg_" + name).compare
        args = Parameters()
        vars(args).update(
            self._options.get(name, {}),
            my_output_dump_file=left_path,
            ground_truth_dump_file=right_path,
            shape_type=0 if scalar == "1" else 1,
        )
        values = (numpy.frombuffer(part, "<f4").copy() for part in (left, right))
        answer = self._functions[name](*values, args)
        value, message = answer
        if not isinstance(value, str) or not isinstance(message, str):
            raise TypeError("compare() has to return two strings, it returned %r" % (answer,))
        return value, message


def main(directory: str, options: str) -> None:
    """Answers requests until there are no more."""
    os.dup2(2, 1)
    requests, answers = os.fdopen(3, "rb"), os.fdopen(4, "wb")
    sys.path.insert(0, directory)
    sys.dont_write_bytecode = True
    algorithms = Algorithms(options)
    while True:
        head = requests.read(48)
        if len(head) < 48:
            break
        parts = [requests.read(length) for length in struct.unpack("<6Q", head)]
        try:
            name, left_path, right_path, scalar = (part.decode() for part in parts[:4])
            answer = algorithms.compute(name, left_path, right_path, scalar, parts[4], parts[5])
        except BaseException as error:
            answer = "NaN", "algorithm %s failed: %s: %s" % (parts[0].decode(), type(error).__name__, error)
        value, message = (text.encode("utf-8", "replace") for text in answer)
        answers.write(struct.pack("<2Q", len(value), len(message)) + value + message)
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
