"""The exception that Sonde raises."""

# Paths of mirrors, and the URLs that stand for them in texts (sonde.remote).
names: dict[str, str] = {}


def named(text: str) -> str:
    """A text with URLs in place of the paths of their mirrors."""
    for path, name in names.items():
        text = text.replace(path, name)
    return text


class Error(Exception):
    """Sonde cannot do the requested work; the text names the work, the reason and a cure."""

    __module__ = "sonde"  # where its users find it

    def __init__(self, message: object = "") -> None:
        super().__init__(named(str(message)))
