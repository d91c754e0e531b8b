"""Recording by variables alone, without a configuration: MindSpore's and GE's switches for graphs, CANN's for
exceptions.

    MS_DEV_SAVE_GRAPHS=2 python train.py     # the graphs of the first steps, in ./rank_0: names, lines, no data
    DUMP_GE_GRAPH=2 DUMP_GRAPH_PATH=/d …     # the same, in /d/pid_{pid}_deviceid_{device}/rank_0, and in GE's forms
                                             # in /d/pid_{pid}_deviceid_{device}
    ASCEND_DUMP_SCENE=aic_err_brief_dump …   # the inputs of the operator that threw
"""

import contextlib
import glob
import json
import os
from typing import Any

from . import _core

# The only stage: the program runs the graph that it wrote.
_STAGES = ("Build", "PreRunBegin")


def configuration() -> tuple[dict[str, Any] | None, str]:
    """(configuration, "") for the request of the variables; (None, reason) if it cannot be met."""
    scene = os.environ.get("ASCEND_DUMP_SCENE")
    if scene:
        return {"dump": {"dump_scene": scene}}, ""
    if _on("MS_DEV_SAVE_GRAPHS"):
        return _graphs(os.environ.get("MS_DEV_SAVE_GRAPHS_PATH") or "."), ""
    wrong = _wrong_level() or _wrong_form()
    if wrong:
        return None, wrong
    return _graphs(path_of_ge()), ""


def link_graphs(configuration: dict[str, Any]) -> None:
    """MindSpore names the graphs of MS_DEV_SAVE_GRAPHS `trace_code_graph_…`, and puts them beside `graphs` of a
    dump."""
    if not _on("MS_DEV_SAVE_GRAPHS") or os.environ.get("ASCEND_DUMP_SCENE"):
        return
    path = _core.dump_path_of(json.dumps(configuration))
    prefix = "ms_output_"
    for graph in glob.glob(os.path.join(glob.escape(path), "rank_*", "graphs", f"{prefix}trace_code_graph_*.ir")):
        graphs, name = os.path.split(graph)
        with contextlib.suppress(OSError):  # it already exists: another rank's, or an older run's
            os.link(graph, os.path.join(os.path.dirname(graphs), name.removeprefix(prefix)))


def _wrong_level() -> str:
    level = os.environ.get("DUMP_GRAPH_LEVEL") or "2"
    if level.isdigit() or any(part and part in stage for part in level.split("|") for stage in _STAGES):
        return ""
    return f"DUMP_GRAPH_LEVEL '{level}' names no stage there is here; allowed: 1 to 4, Build, PreRunBegin"


def _wrong_form() -> str:
    text = os.environ.get("DUMP_GRAPH_FORMAT") or "ge_proto"
    if forms_of_ge():
        return ""
    return f"DUMP_GRAPH_FORMAT '{text}' names no form; allowed: ge_proto, onnx, readable, joined by |"


def _on(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def ge_graphs_are_wanted() -> bool:
    """True if DUMP_GE_GRAPH asks for the graph in GE's forms."""
    return os.environ.get("DUMP_GE_GRAPH") in ("1", "2", "3") and not _wrong_level()


def forms_of_ge() -> list[str]:
    """Those that DUMP_GRAPH_FORMAT names: `ge_proto`, `onnx`, `readable`."""
    wanted = (os.environ.get("DUMP_GRAPH_FORMAT") or "ge_proto|onnx").lower().split("|")
    return [form for form in ("ge_proto", "onnx", "readable") if form in wanted]


def path_of_ge() -> str:
    """The directory for graphs in GE's forms."""
    own = f"{os.getpid()}_deviceid_{os.environ.get('LOCAL_RANK') or 0}"
    for variable, below in (
        ("DUMP_GRAPH_PATH", f"pid_{own}"),
        ("NPU_COLLECT_PATH", f"extra-info/graph/{own.replace('_deviceid', '')}"),
        ("ASCEND_WORK_PATH", f"pid_{own}"),
    ):
        if base := os.environ.get(variable):
            return os.path.join(base, below)
    return "."


def _graphs(path: str) -> dict[str, Any]:
    # Step 0: the first step of training, and of evaluation.
    text = _core.configuration(os.path.abspath(path), iteration="0", saved_data="graph", devices=64)
    made: dict[str, Any] = json.loads(text)
    return made
