"""Forms of a dump: layouts, containers, and a second run into the same path."""

import json
import re

import container_reader
import dumps
import numpy as np
import pytest
import trees

CONV1 = "Default/network-WithLossCell/_backbone-LeNet5/conv1-Conv2d/Conv2D-op0"
# The directory of the first step, T for the time of the run, and the name of the output of the first convolution.
PLACES = {
    "mindspore-2.0": ("rank_0/Net/0/0", r"Conv2D\.Conv2D-op\d+\.0\.0\.T\.output\.0\.DefaultFormat\.npy"),
    "o2": ("0/T/0/Net/0/0", r"Conv2D\.Default_network-.*conv1-Conv2d_Conv2D-op0\.\d+\.0\.T\.output\.0\..*\.npy"),
    "acl": ("T/0/WithLossCell/0/0", r"Conv2D\.Default_network-.*conv1-Conv2d_Conv2D-op0\.\d+\.0\.T"),
}
RUN_TIME = re.compile(r"(?<![0-9])20[0-9]{12}(?![0-9])")
FILE_TIME = re.compile(r"\.[0-9]{16}(?=\.|$)")


def find(dump, directory, name):
    """The files of a directory whose names match."""
    found = []
    for path in dump.rglob("*"):
        place, _, last = RUN_TIME.sub("T", path.relative_to(dump).as_posix()).rpartition("/")
        if place == directory and re.fullmatch(name, FILE_TIME.sub(".T", last)):
            found.append(path)
    return sorted(found)


@pytest.fixture(scope="module")
def native(case):
    case = case(saved_data="tensor", iteration="0")
    assert case.run_native("lenet", 1).status == 0
    return dumps.tensors(case.dump)[dumps.sanitised(CONV1), "output", 0]


def values(path):
    if path.suffix == ".npy":
        return np.load(path)
    (output,) = container_reader.read(path)["outputs"]
    return output["array"]


@pytest.mark.parametrize("layout", PLACES)
def test_layouts(case, native, rows, layout):
    run = case({"layout": layout}, saved_data="tensor", iteration="0", file_format="npy").run("lenet", 1)
    assert run.status == 0, run.stderr
    found = find(run.dump, *PLACES[layout])
    assert found, sorted(path.as_posix() for path in run.dump.rglob("*"))[:50]
    first = values(found[0])  # in version 2.0 the name is without the scope; the first is that of conv1
    assert first.tobytes() == native.tobytes()
    shown = rows("stats", run.dump, "--select", "Default/network-WithLossCell/**/conv1-Conv2d/Conv2D-op*")
    assert [row["shape"] for row in shown if row["side"] == "output"] == [list(first.shape)]


def test_file_format_bin_makes_containers(case, native):
    case = case({"layout": "mindspore-2.7"}, saved_data="tensor", iteration="0", file_format="bin")
    content = json.loads(case.config.read_text())
    del content["e2e_dump_settings"]  # with e2e_dump_settings tensors are npy, whatever file_format contains
    case.config.write_text(json.dumps(content))
    run = case.run("lenet", 1)
    assert run.status == 0, run.stderr
    (container,) = find(run.dump, "rank_0/Net/0/0", rf"Conv2D\.{dumps.sanitised(CONV1)}\.\d+\.0\.T")
    assert values(container).tobytes() == native.tobytes()
    assert not list(run.dump.rglob("*.npy"))


def test_a_second_run_joins_the_first(case, sonde):
    case = case(saved_data="full", iteration="0")
    runs = [case.run("lenet", 1) for _ in range(2)]
    assert [run.status for run in runs] == [0, 0], runs[1].stderr
    found = trees.files(case.dump)
    tensors = {name: len(paths) for name, paths in found.items() if name.endswith(".npy")}
    assert len(tensors) > 100
    assert set(tensors.values()) == {2}, "one of each run"
    table = dumps.statistics(case.dump)
    assert len(table) == 2 * len(tensors)
    (history,) = found["rank_0/execution_order/ms_global_execution_order_graph_0.csv"]
    assert history.read_text() == "0\n0\n"
    listed = sonde("ls", case.dump, "--json")
    (rank,) = json.loads(listed.stdout)["ranks"]
    assert len(rank["runs"]) == 2
