"""Packages that Sonde needs only for some purposes."""

import importlib
from typing import Any


def extra(package: str, name: str, purpose: str) -> Any:
    """Imports a package that only this purpose needs; `name` is the extra of Sonde that installs it.

    Raises ImportError, which says how to install it.
    """
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package.partition(".")[0]:
            raise
        raise ImportError(f"{purpose} needs {error.name}: pip install 'tensorsonde[{name}]'", name=error.name) from None
