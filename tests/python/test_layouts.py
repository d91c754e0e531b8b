"""The layouts of MindSpore 2.0, 2.3, 2.5 and 2.7, as a user sees them: files, tables, and programs that read them."""

import csv
import json
import re
import shutil

import numpy as np
import pytest

VERSIONS = ["2.0", "2.3", "2.5", "2.7"]

FRONT = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
COLUMNS_20 = (
    ",Max Value,Min Value,Avg Value,Count,Negative Zero Count,Positive Zero Count"
    ",NaN Count,Negative Inf Count,Positive Inf Count,Zero Count"
)
HEADERS = {
    "2.0": FRONT + COLUMNS_20,
    "2.3": FRONT + COLUMNS_20 + ",MD5",
    "2.5": FRONT + ",Max Value,Min Value,L2Norm Value",
    "2.7": FRONT + ",Max Value,Min Value,L2Norm Value",
}
TIME = r"\.0\.0\.\d{16}"
# For the convolution's first output, its weight, its backward operator, and data from outside.
FILES = {
    "2.0": [
        r"conv2d\.conv2d-op\d+" + TIME + r"\.output\.0\.DefaultFormat\.npy",
        r"Parameter\.conv\.weight" + TIME + r"\.output\.0\.DefaultFormat\.npy",
        r"convolution_backward\.convolution_backward-op\d+" + TIME + r"\.output\.1\.DefaultFormat\.npy",
    ],
    "2.3": [
        r"conv2d\.Default_network-Small_conv-Conv2d_conv2d-op0" + TIME + r"\.output\.0\.DefaultFormat\.npy",
        r"Parameter\.conv_weight" + TIME + r"\.output\.0\.DefaultFormat\.npy",
        r"convolution_backward\.Gradients_Default_network-Small_conv-Conv2d_gradconv2d_convolution_backward-op0"
        + TIME
        + r"\.output\.1\.DefaultFormat\.npy",
    ],
    "2.7": [
        r"conv2d\.Default_network-Small_conv-Conv2d_conv2d-op0" + TIME + r"\.output\.0\.DefaultFormat\.Float32\.npy",
        r"Parameter\.conv_weight" + TIME + r"\.output\.0\.DefaultFormat\.Float32\.npy",
        r"convolution_backward\.Gradients_Default_network-Small_conv-Conv2d_Grad_conv2d_convolution_backward-op0"
        + TIME
        + r"\.output\.1\.DefaultFormat\.Float32\.npy",
    ],
}
FILES["2.5"] = FILES["2.3"]

# Two layers of the same type and shapes: without scopes only their numbers distinguish them.
TWINS = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    mask = torch.cat([torch.full((1, 1), value) for value in (1.0, 0.0, float("nan"), float("inf"))], 1)
    for step in range(2):
        optimizer.zero_grad()
        (network(torch.randn(3, 4)) * mask.nan_to_num(0.0, 0.0) + mask * 0).nan_to_num().sum().backward()
        optimizer.step()
"""


def directory(dump, iteration=0, graph=0):
    return dump / "rank_0" / "Net" / str(graph) / str(iteration)


def table(path):
    """The header line and the rows of a statistic.csv, each row as the list of its cells."""
    lines = path.read_text().splitlines()
    return lines[0], list(csv.reader(lines[1:]))


def order(dump, graph=0):
    path = dump / "rank_0" / "execution_order" / f"ms_execution_order_graph_{graph}.csv"
    return path.read_text().splitlines()[1:]


def name_in_files(version, full_name):
    return full_name.rpartition("/")[2] if version == "2.0" else re.sub(r"[/\\. ]", "_", full_name)


def op_name(version, file_name):
    """The op_name part of a file's name, without the parts at both ends."""
    parts = 7 if version == "2.7" else 6
    return file_name.partition(".")[2].removesuffix(".npy").rsplit(".", parts)[0]


@pytest.fixture
def recorded(train, config, dump):
    """recorded(version, **config): the small training under that layout; the dump's directory."""

    def run(version, source=None, **common):
        settings = {"layout": f"mindspore-{version}"}
        path = config(sonde_settings=settings, **{"iteration": "0|1", "saved_data": "full", **common})
        done = train(**({"source": source} if source else {}), config=path)
        assert done.status == 0, done.stderr
        assert "recorded" in done.stderr, done.stderr
        return dump

    return run


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Dumps of the small training for several tests, by version; "in": their directory."""
    return {"in": tmp_path_factory.mktemp("kept")}


@pytest.fixture
def small(recorded, kept):
    """small(version): a dump of the small training, made once; not to be changed."""
    return lambda version: look_up(kept, version, lambda: recorded(version))


def look_up(kept, version, make):
    if version not in kept:
        kept[version] = kept["in"] / version
        make().rename(kept[version])
    return kept[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_files_are_named_as_that_version_names_them(small, version):
    dump = small(version)
    for step in (0, 1):
        names = [path.name for path in directory(dump, step).glob("*.npy")]
        for pattern in FILES[version]:
            assert sum(re.fullmatch(pattern, name) is not None for name in names) == 1, (pattern, names)
    for path in dump.rglob("*.npy"):
        assert np.load(path).size > 0


@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_the_same_in_files_tables_and_execution_order(small, version):
    dump = small(version)
    in_order = [name_in_files(version, name) for name in order(dump)]
    assert len(in_order) == len(set(in_order))
    names = [path.name for path in directory(dump).glob("*.npy")]
    in_files = {op_name(version, name) for name in names if not name.startswith("Parameter.")}
    assert in_files <= set(in_order)
    assert any("conv2d-op" in name for name in in_files)
    _, rows = table(directory(dump) / "statistic.csv")
    if version == "2.7":
        assert {row[1] for row in rows if row[0] != "Parameter"} == set(order(dump))
    else:
        assert {row[1] for row in rows} == {op_name(version, name) for name in names}
    # and from step to step
    _, later = table(directory(dump, 1) / "statistic.csv")
    assert [row[1] for row in rows if row[0] == "conv2d"] == [row[1] for row in later if row[0] == "conv2d"]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_has_the_form_of_that_version(small, version):
    dump = small(version)
    header, rows = table(directory(dump) / "statistic.csv")
    assert header == HEADERS[version]
    width = len(HEADERS[version].split(","))
    for row in rows:
        assert len(row) == width + (1 if version in ("2.5", "2.7") else 0)
        assert row[len(FRONT.split(",")) - 1].startswith("[" if version == "2.7" else "(")
    text = (directory(dump) / "statistic.csv").read_text()
    weight = re.search(r"^Parameter,conv[._]weight,.*$", text, re.MULTILINE)[0]
    assert ('"[4,1,3,3]"' if version == "2.7" else '"(4,1,3,3)"') in weight
    assert ",float32," in weight


def mask_row(dump):
    header, rows = table(dump / "rank_0" / "Net" / "0" / "constants" / "statistic.csv")
    columns = header.split(",")
    (row,) = [row for row in rows if row[columns.index("Shape")] == "(1,4)"]
    return dict(zip(columns, row, strict=True))


def test_statistics_of_2_0_leave_out_what_is_not_finite(recorded):
    mask = mask_row(recorded("2.0", source=TWINS))
    assert mask["Max Value"] == "1" and mask["Min Value"] == "0" and mask["Avg Value"] == "0.5"
    assert mask["Count"] == "4" and mask["NaN Count"] == "1" and mask["Positive Inf Count"] == "1"
    assert mask["Positive Zero Count"] == "1"


def test_statistics_of_2_3_spread_nan(recorded):
    mask = mask_row(recorded("2.3", source=TWINS))
    assert mask["Max Value"] == mask["Min Value"] == mask["Avg Value"] == "nan"
    assert mask["Positive Zero Count"] == "2"
    assert re.fullmatch("[0-9a-f]{32}", mask["MD5"])


@pytest.mark.parametrize("version", VERSIONS)
def test_data_from_outside_lies_where_that_version_keeps_it(small, version):
    dump = small(version)
    constants = dump / "rank_0" / "Net" / "0" / "constants"
    in_step = [sorted(path.name for path in directory(dump, step).glob("Parameter.data-*")) for step in (0, 1)]
    if version == "2.7":
        assert not constants.exists()
        assert len(in_step[0]) == 1
        return
    assert in_step == [[], []]
    (path,) = constants.glob("*.npy")
    assert re.fullmatch(r"Parameter\.data-0" + TIME + r"\.output\.0\.DefaultFormat\.npy", path.name)
    (batch,) = directory(dump).glob("conv2d.*.input.0.*")
    assert np.array_equal(np.load(path), np.load(batch))
    assert path.stat().st_mode & 0o777 == 0o400
    header, rows = table(constants / "statistic.csv")
    assert header == HEADERS[version]
    assert [row[:2] for row in rows] == [["Parameter", "data-0"]]


def test_ops_of_2_0_never_share_a_number(recorded):
    dump = recorded("2.0", source=TWINS)
    numbers = [int(name.rpartition("-op")[2]) for name in order(dump)]
    assert numbers == list(range(len(numbers)))
    for step in (0, 1):
        found = {}
        for path in directory(dump, step).glob("linear.*.output.0.*"):
            found[op_name("2.0", path.name)] = np.load(path)
        assert len(found) == 2
        full_names = [name for name in order(dump) if name.rpartition("/")[2] in found]
        assert [name.split("/")[2] for name in full_names] == ["0-Linear", "1-Linear"]


@pytest.mark.parametrize("version", VERSIONS)
def test_kernels_take_the_names_that_are_found_in_the_dump(recorded, version):
    dump = recorded(version, iteration="0", saved_data="tensor")
    (conv,) = directory(dump).glob("conv2d.*.output.0.*")
    wanted = next(name for name in order(dump) if name_in_files(version, name) == op_name(version, conv.name))
    relu = next(name for name in order(dump) if "relu-op" in name)
    shutil.rmtree(dump)
    # In 2.0 the name in the file is enough.
    entries = [op_name(version, conv.name) if version == "2.0" else wanted, relu]
    recorded(version, iteration="1", saved_data="tensor", dump_mode=1, kernels=entries)
    names = {op_name(version, path.name) for path in directory(dump, 1).glob("*.npy")}
    assert names == {name_in_files(version, wanted), name_in_files(version, relu)}


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_and_history(recorded, version):
    dump = recorded(version, iteration="0|2")
    metadata = dump / "rank_0" / ".dump_metadata"
    config = (metadata / "config.json").read_text()
    assert json.loads(config) == {"device_target": "CPU", "ms_version": f"{version}.0"}
    history = dump / "rank_0" / "execution_order" / "ms_global_execution_order_graph_0.csv"
    assert history.read_text() == "0\n2\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_layout_is_read_back_with_and_without_its_journal(small, sonde, tmp_path, version):
    dump = small(version)
    without = tmp_path / "without"
    shutil.copytree(dump, without)
    shutil.rmtree(without / "rank_0" / ".dump_metadata")

    def values(where):
        """Values have six digits in the table; parameters have the same names as in the files."""
        stats = sonde("stats", "--jsonl", "--step", "0", where)
        assert stats.status == 0, stats.stderr
        rows = [json.loads(line) for line in stats.stdout.splitlines()]
        return {
            (row["op_name"].replace(".", "_"), row["side"] == "input", row["slot"]): (
                row["shape"],
                row["dtype"],
                row["phase"] == "backward",
                float(f"{row['max']:.6g}"),
            )
            for row in rows
        }

    found = values(dump)
    assert values(without) == found
    conv = next(name for name in order(dump) if "/conv2d-op" in name)
    assert {(conv, False, 0), ("conv_weight", False, 0), ("data-0", False, 0)} <= found.keys()
    assert any(backward for _, _, backward, _ in found.values())
    for where in (dump, without):
        shown = sonde("show", where, f"{conv}:output.0", "--step", "1", "--json")
        assert shown.status == 0, shown.stderr
        shown = json.loads(shown.stdout)
        assert shown["op_name"] == conv and shown["shape"] == [2, 4, 6, 6] and shown["corner"]


def test_show_finds_a_constant_by_its_file(small, sonde):
    dump = small("2.5")
    (path,) = (dump / "rank_0" / "Net" / "0" / "constants").glob("*.npy")
    shown = sonde("show", dump, path)
    assert shown.status == 0, shown.stderr
    assert "data-0" in shown.stdout.splitlines()[0]


def test_the_version_alone_settles_the_layout(train, config, dump):
    done = train(config=config(sonde_settings={"version": "2.3"}, saved_data="tensor", iteration="0"))
    assert done.status == 0, done.stderr
    names = [path.name for path in directory(dump).glob("*.npy")]
    assert any(re.fullmatch(FILES["2.3"][0], name) for name in names)


def test_a_version_that_is_not_the_layouts_is_refused(sonde, config):
    checked = sonde("check", config(sonde_settings={"layout": "mindspore-2.0", "version": "2.7"}))
    assert checked.status == 2
    assert 'layout "mindspore-2.0" is that of "1.3" to "2.0"' in checked.stderr + checked.stdout


def test_an_empty_kernels_selects_nothing_up_to_2_3_and_says_so(train, config, dump):
    done = train(config=config(sonde_settings={"version": "2.3"}, dump_mode=1, kernels=[]))
    assert done.status == 0
    assert "selects nothing" in done.stderr
    assert not list(dump.rglob("*.npy")) and not list(dump.rglob("statistic.csv"))
