"""Tables in notebooks."""

import html
from collections.abc import Iterable, Sequence


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of HTML. Texts are escaped: those of a dump may have any origin."""

    def row(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + row(columns, "th") + "".join(row(cells, "td") for cells in rows) + "</table>"
