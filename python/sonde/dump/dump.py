"""An open dump."""

import html
import os
from collections.abc import Sequence
from pathlib import Path

from .. import _core, remote
from ..answers import FirstBad, answer_of
from ..errors import Error, named
from ..html_table import html_table
from .graph import Graph
from .records import Problem, Step
from .rows import Ops, Tensors
from .server import LOCAL_NOTEBOOKS, Server
from .tables import Numbers, Pattern, Tables, numbers, pattern

_MOST_JUDGED = 50_000  # tensors: about a second


def open(
    path: str | os.PathLike[str],
    *,
    step: Numbers = None,
    rank: Numbers = None,
    graph: Numbers = None,
    op: Pattern = None,
    type: str | None = None,
    source: str | None = None,
) -> "Dump":
    """Opens a dump, one rank's directory, or any directory inside one; also at a URL of fsspec. Raises Error when it is
    not a dump, ValueError when the selection is wrong; a file inside one that cannot be read is one of its `problems`.

    With a selection, as `select` takes it, only those operators are there. This is useful for dumps of hundreds of
    thousands of files with an index of `sonde index`: the selected operators are then found at once.
    """
    ranks, steps, graphs = numbers("rank", rank), numbers("step", step), numbers("graph", graph)
    local = remote.local_path(path, ranks)
    try:
        core = _core.open_dump(
            local,
            ranks=ranks,
            steps=steps,
            graphs=graphs,
            op=pattern(op),
            type=type or "",
            source=source or "",
        )
    except (OSError, RuntimeError) as error:
        raise Error(str(error)) from None
    return Dump(Tables(core, Path(local)))


def _span(steps: list[int]) -> str:
    """0-2 of 0, 1, 2; 0, 5 of those two."""
    first, last = min(steps), max(steps)
    if len(steps) > 1 and last - first + 1 == len(set(steps)):
        return f"{first}-{last}"
    return ", ".join(str(step) for step in steps[:8]) + (", …" if len(steps) > 8 else "")


class Dump:
    """The result of `sonde.open`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def __repr__(self) -> str:
        ranks, core = len(self.ranks), self.tables.core
        return (
            f"<sonde.Dump {named(str(self.path))!r}: {ranks} rank{'' if ranks == 1 else 's'}, {len(self.steps)} steps, "
            f"{core.op_count()} ops, {core.tensor_count()} tensors>"
        )

    def _repr_html_(self) -> str:
        rows: dict[tuple[int, int], list[int]] = {}
        for step in self.steps:
            rows.setdefault((step.rank, step.graph), []).append(step.step)
        table = [(rank, graph, _span(steps), len(steps)) for (rank, graph), steps in rows.items()]
        core = self.tables.core
        counts = f"{core.op_count()} operators, {core.tensor_count()} tensors, {len(self.problems)} problems"
        return f"<p>{counts}</p>" + html_table(("rank", "graph", "steps", "number"), table) + self._health_html()

    def _health_html(self) -> str:
        """The card of first_bad; of a very large dump the line that asks for it, as a cell must not wait."""
        core = self.tables.core
        if core.tensor_count() > _MOST_JUDGED:
            return "<p>is it healthy? <code>sonde.first_bad(dump)</code></p>"
        try:
            document, _ = _core.first_bad(core, {})
        except (OSError, RuntimeError, ValueError) as error:
            return f"<p>{html.escape(named(str(error)))}</p>"
        return answer_of(FirstBad, named(document))._repr_html_()

    @property
    def path(self) -> Path:
        """The path that was opened; of a dump at a URL, its mirror on this machine."""
        return self.tables.path

    @property
    def ranks(self) -> list[int]:
        """Numbers of the ranks."""
        return self.tables.core.ranks()

    def directory(self, rank: int) -> Path:
        """The directory of a rank's files."""
        return Path(self.tables.core.directory(rank))

    @property
    def steps(self) -> list[Step]:
        """Every Step, by rank, in the order of the run."""
        table = self.tables.steps
        return [
            Step(rank, graph, step, bool(ended))
            for rank, graph, step, ended in zip(
                table.rank.tolist(), table.graph.tolist(), table.step.tolist(), table.ended.tolist(), strict=True
            )
        ]

    @property
    def ops(self) -> Ops:
        """Operators, and parameters and input data, in the order of the run."""
        return Ops.all_of(self.tables)

    @property
    def tensors(self) -> Tensors:
        """Inputs and outputs of all operators, in the order of the run."""
        return Tensors.all_of(self.tables)

    @property
    def graph(self) -> Graph:
        """The data flow between operators, in all steps; `graph.select(step=3)`: in one."""
        return Graph.all_of(self.tables)

    @property
    def problems(self) -> list[Problem]:
        """The files that could not be read."""
        return [Problem(named(path), named(why)) for path, why in self.tables.core.problems()]

    @property
    def notes(self) -> list[str]:
        """Ranks that the dump lacks, and versions of Sonde that differ between them, a line each."""
        return [str(note) for note in self.tables.core.notes()]

    def serve(
        self, golden: "str | os.PathLike[str] | Dump | None" = None, frame: Sequence[str] = LOCAL_NOTEBOOKS
    ) -> Server:
        """Starts `sonde serve` for the whole dump; a notebook shows the page in the cell. `golden` is a dump to compare
        with. `frame` lists the origins whose pages may show this one: that of a notebook on another machine, or ()."""
        dumps = [self.path]
        if golden is not None:
            dumps.append(golden.path if isinstance(golden, Dump) else Path(remote.local_path(golden)))
        return Server(dumps, frame)
