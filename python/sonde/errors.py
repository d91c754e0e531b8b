"""The exception that Sonde raises."""


class Error(Exception):
    """Sonde cannot do the requested work; the text names the work, the reason and a cure."""

    __module__ = "sonde"  # where its users find it
