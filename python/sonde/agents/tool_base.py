"""The rows of tool_table.py: a verb as a tool, and its options as arguments."""

from typing import NamedTuple


class Argument(NamedTuple):
    """An option of a verb."""

    name: str
    flag: str  # on the command line; a capital: an argument without a name
    type: str  # of contract/
    help: str
    is_list: bool = False
    is_required: bool = False
    is_dump: bool = False
    choices: tuple[str, ...] = ()
    separator: str = ""  # between the values of a list that are one word
    default: int | str | None = None
    least: int | None = None
    most: int | None = None

    @property
    def is_named(self) -> bool:
        """On the command line."""
        return self.flag.startswith("-")


class Tool(NamedTuple):
    """A verb."""

    name: str
    verb: str
    help: str
    from_library: bool  # the library's function gives the document that the verb prints
    answer: tuple[tuple[str, str], ...]  # members of the document, with their meaning
    arguments: tuple[Argument, ...]
    left_out: tuple[str, ...] = ()  # members of the document that an agent has no use for
