"""Runs the adapter's modules of a package by themselves: `import sonde` would load the engine.

python -P scripts/adapter_alone.py FOLDER/sonde build --into-package
"""

import importlib
import sys
import types


def load(package):
    """The module `sonde.adapter` in the folder `package`."""
    sonde = types.ModuleType("sonde")
    sonde.__path__ = [package]
    sys.modules["sonde"] = sonde
    return importlib.import_module("sonde.adapter")


if __name__ == "__main__":
    sys.exit(load(sys.argv[1]).main(sys.argv[2:]))
