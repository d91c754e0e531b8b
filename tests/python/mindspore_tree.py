"""A dump of MindSpore's own: names of files and graphs are real (tests/engine/graph/mindspore), the values are not."""

import pathlib
import shutil

import numpy as np

FILES = pathlib.Path(__file__).parent.parent / "engine" / "graph" / "mindspore"


def write(root, release="2.10", network="small", iterations=(0, 1), values=None):
    """`values(number, iteration)`: the array of a file, by its number in files.txt; else one that holds the number."""
    files = FILES / release / network
    values = values or (lambda number, iteration: np.full((2, 3), number + iteration, np.float32))
    rank = root / "rank_0"
    for iteration in iterations:
        step = rank / "Net" / "0" / str(iteration)
        step.mkdir(parents=True)
        for number, name in enumerate((files / "files.txt").read_text().split()):
            np.save(step / name, values(number, iteration))
    for directory in ("graphs", "execution_order", ".dump_metadata"):
        (rank / directory).mkdir()
    shutil.copy(files / "graph.pb", rank / "graphs" / "ms_output_trace_code_graph_0.pb")
    shutil.copy(files / "execution_order.csv", rank / "execution_order" / "ms_execution_order_graph_0.csv")
    history = rank / "execution_order" / "ms_global_execution_order_graph_0.csv"
    history.write_text("".join(f"{iteration}\n" for iteration in iterations))
    (rank / ".dump_metadata" / "data_dump.json").write_text('{"common_dump_settings": {"net_name": "Net"}}')
    return root
