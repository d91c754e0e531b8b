"""The exception that Sonde raises."""


class Error(Exception):
    """Sonde cannot do what was asked; the text says what, why, and what would help."""

    __module__ = "sonde"  # where its users find it
