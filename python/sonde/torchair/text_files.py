"""Files of text about a graph."""

import os

from ..console import say_once


def write_text(path: str, text: str, cure: str) -> bool:
    """Writes the file under another name first, so that it appears as a whole. An error becomes one line that ends
    with `cure`; the result is then False."""
    try:
        with open(f"{path}.partial", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(f"{path}.partial", path)
    except OSError as error:
        say_once(f"sonde: cannot write '{path}': {error.strerror}; {cure}")
        return False
    return True
