"""The operators of a dump that a verb is asked about."""

import difflib
from typing import Any

from . import _core
from .dump import Dump, Op, Ops
from .errors import Error
from .recorded_values import has_values


def ops_named(dump: Dump, name: str, step: str = "", rank: str = "") -> list[Op]:
    """The operators of this full name, of a name with this end, or of this pattern, in the order of the run. Raises
    ValueError, which names the nearest ones, if there is none."""
    operators = _called(_of_part(dump, step, rank), name)
    if operators:
        return operators
    elsewhere = [op.step for op in _called(dump.ops, name)]
    if elsewhere:
        steps = ", ".join(str(one) for one in sorted(set(elsewhere))[:8])
        raise ValueError(f"'{name}' is not in the chosen steps and ranks; it is in step {steps}")
    raise ValueError(f"no operator '{name}' in the dump{_nearest(dump, name)}")


def all_ops(dump: Dump, step: str = "", rank: str = "") -> list[Op]:
    """Every operator of these steps and ranks. Raises ValueError if there is none."""
    found = [op for op in _of_part(dump, step, rank) if not op.is_parameter]
    if not found:
        raise ValueError("no operator is in the chosen steps and ranks")
    return found


def one_name(ops: list[Op], name: str) -> list[Op]:
    """The same operators. Raises ValueError if they have several names."""
    names = sorted({op.op_name for op in ops})
    if len(names) > 1:
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        raise ValueError(f"'{name}' means {len(names)} operators: {', '.join(names[:4])}{more}; give more of the name")
    return ops


def place_of(op: Op) -> dict[str, Any]:
    """The members of an answer that say which operator it is."""
    source = op.source
    return dict(  # noqa: C408 - as the classes of answers take them
        rank=op.rank,
        graph=op.graph,
        step=op.step,
        op_name=op.op_name,
        op_type=op.op_type,
        source_file=source.file if source else "",
        source_line=source.line if source else 0,
    )


def check_values(ops: list[Op]) -> None:
    """Raises Error, with the configuration that would record them, if the dump has no values of these at all."""
    if any(has_values(op.tensors) for op in ops):
        return
    name = ops[0].op_name if len({op.op_name for op in ops}) == 1 else "OP"
    raise Error(
        f"the dump has no values of {name if name != 'OP' else 'these operators'}, only statistics or names; "
        f"record the tensors of inputs and outputs: `sonde run --saved-data tensor --kernels '{name}' --out DIR -- …`, "
        'or "tensor" as saved_data, and 0 as input_output, in the configuration'
    )


def _of_part(dump: Dump, step: str, rank: str) -> Ops:
    table = dump.tables.steps
    steps, ranks = sorted(set(table.step.tolist())), sorted(set(table.rank.tolist()))
    steps = _core.listed("--step", step, steps) if step else steps
    ranks = _core.listed("--rank", rank, ranks) if rank else ranks
    return dump.ops.select(step=steps, rank=ranks) if steps and ranks else dump.ops[:0]


def _called(ops: Ops, name: str) -> list[Op]:
    exact = ops.matching(lambda full, _type: full == name)
    ended = exact if len(exact) else ops.matching(lambda full, _type: full.endswith(f"/{name}"))
    found = ended if len(ended) else ops.matching(lambda full, kind: _core.pattern_selects(name, full, kind))
    return [op for op in found if not op.is_parameter]


def _nearest(dump: Dump, name: str) -> str:
    """Names that are alike, by as many last parts as the wanted name has."""
    parts = name.count("/") + 1
    ends = {op.op_name: "/".join(op.op_name.split("/")[-parts:]) for op in dump.ops if not op.is_parameter}
    close = difflib.get_close_matches(name, set(ends.values()), n=3, cutoff=0.6)
    alike = [full for full, end in ends.items() if end in close]
    alike.sort(key=lambda full: close.index(ends[full]))
    return f"; the nearest: {', '.join(alike[:3])}" if alike else "; `sonde ls --ops` shows all"
