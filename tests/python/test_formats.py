"""Every layout and file format, written by a real training, read by numpy, by a foreign reader, and by Sonde."""

import csv
import json
import re
import shutil

import container_reader
import numpy as np
import pytest

LAYOUTS = ["mindspore-1.2", "mindspore-1.2-async", "ge", "o0", "o2", "acl", "torchair"]
CONTAINERS = ["mindspore-1.2-async", "acl", "torchair"]
# The directory of the convolution in the first step; T is the time of the run.
STEP = {
    "mindspore-1.2": "Net/device_0/iteration_1",
    "mindspore-1.2-async": "device_0/Net_graph_0/0/1",
    "ge": "T/0/Net/0/0",
    "o0": "0/T/0/0",
    "o2": "0/T/0/Net/0/0",
    "acl": "T/0/Small/0/0",
    "torchair": "worldsize1_global_rank0/T/0/graph_1/1/0",
}
TIME = re.compile(r"(?<![0-9])20[0-9]{12}(?![0-9])")
OP = "Default/network-Small/conv-Conv2d/conv2d-op0"


def plain(path, dump):
    """The path below the dump, with T for the time of the run."""
    return TIME.sub("T", path.relative_to(dump).as_posix())


def files(dump, directory=None):
    """{name: path} of the files in a directory, by default in all, outside .dump_metadata."""
    found = {}
    for path in dump.rglob("*"):
        name = plain(path, dump)
        if (
            path.is_file()
            and ".dump_metadata" not in name
            and (directory is None or name.rpartition("/")[0] == directory)
        ):
            found[name.rpartition("/")[2] if directory is not None else name] = path
    return found


def only(paths, pattern):
    hits = [path for name, path in paths.items() if re.search(pattern, name)]
    assert len(hits) == 1, (pattern, sorted(paths))
    return hits[0]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return {"in": tmp_path_factory.mktemp("kept")}


@pytest.fixture
def recorded(train, config, dump, kept):
    """recorded(layout, **config): a dump of the small training, made once; not to be changed."""

    def run(layout, key=None, sonde=None, **common):
        key = key or layout
        if key not in kept:
            settings = {"layout": layout, **(sonde or {})}
            path = config(sonde_settings=settings, **{"saved_data": "full", "file_format": "npy", **common})
            done = train(config=path)
            assert done.status == 0, done.stderr
            assert "recorded" in done.stderr, done.stderr
            kept[key] = kept["in"] / key
            dump.rename(kept[key])
        return kept[key]

    return run


def convolution(sonde, dump):
    """Rows of `sonde stats` that are the convolution's."""
    shown = sonde("stats", dump, "--select", "conv2d", "--jsonl")
    assert shown.status in (0, 1), shown.stderr
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    for row in rows:
        row["place"] = f"{row['side']}.{row['slot']}"
    return rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_step_has_the_directory_of_its_layout(recorded, layout):
    dump = recorded(layout)
    directories = {name.rpartition("/")[0] for name in files(dump)}
    assert STEP[layout] in directories, directories
    first, second = ("iteration_1", "iteration_2") if layout == "mindspore-1.2" else ("1", "2")
    assert sum(name.endswith(f"/{first}") or name.startswith("1/") for name in directories), directories
    assert sum(name.endswith(f"/{second}") or name.startswith("2/") for name in directories), directories


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sonde_reads_the_values_back(recorded, sonde, layout):
    dump = recorded(layout)
    rows = [row for row in convolution(sonde, dump) if row["place"] == "output.0"]
    assert len(rows) == 3
    first = rows[0]
    shown = sonde("show", dump, first["op_name"] + ":output.0", "--step", first["step"], "--json")
    assert shown.status == 0, shown.stderr
    seen = json.loads(shown.stdout)
    assert seen["shape"] == [2, 4, 6, 6]
    assert seen["tensor_file"]
    assert max(seen["histogram_edges"]) == pytest.approx(seen["max"], rel=1e-5)


@pytest.mark.parametrize("layout", CONTAINERS)
def test_containers_are_read_from_the_text_of_the_format(recorded, layout):
    dump = recorded(layout)
    found = files(dump, STEP[layout])
    stream = r"\.[0-9]+" if layout == "mindspore-1.2-async" else r"\.[0-9]+\.0"
    name = r"^conv2d\.Default_network-Small_conv-Conv2d_conv2d-op\d+" + stream + r"\.[0-9]{16}$"
    op = container_reader.read(only(found, name))
    assert op["version"] == "2.0"
    assert re.fullmatch(r"Default/network-Small/conv-Conv2d/conv2d-op\d+", op["op_name"])
    image, weight, bias = (tensor["array"] for tensor in op["inputs"])
    (output,) = (tensor["array"] for tensor in op["outputs"])
    assert (image.shape, weight.shape, bias.shape, output.shape) == ((2, 1, 8, 8), (4, 1, 3, 3), (4,), (2, 4, 6, 6))
    windows = np.lib.stride_tricks.sliding_window_view(image[:, 0].astype("f8"), (3, 3), axis=(1, 2))
    expected = np.einsum("nhwij,oij->nohw", windows, weight[:, 0]) + bias[:, None, None]
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    assert [tensor["format"] for tensor in op["inputs"]] == [0, 0, 2]  # NCHW, NCHW, ND


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_its_journal_a_dump_is_read_by_names(recorded, sonde, tmp_path, layout):
    dump = recorded(layout)
    known = {(row["step"], row["place"]): row for row in convolution(sonde, dump)}
    copy = tmp_path / "copy"
    shutil.copytree(dump, copy)
    for metadata in copy.rglob(".dump_metadata"):
        shutil.rmtree(metadata)
    rows = convolution(sonde, copy)
    assert {(row["step"], row["place"]) for row in rows} == set(known)
    for row in rows:
        same = known[row["step"], row["place"]]
        assert row["shape"] == same["shape"]
        assert row["dtype"] == same["dtype"]
        assert row["max"] == pytest.approx(same["max"], rel=1e-5)


def test_raw_files_hold_nothing_but_the_elements(recorded):
    found = files(recorded("mindspore-1.2"), STEP["mindspore-1.2"])
    name = r"^Default--network-Small--conv-Conv2d--conv2d-op\d+_output_0_shape_2_4_6_6_Float32_DefaultFormat\.bin$"
    assert np.fromfile(only(found, name), "<f4").size == 2 * 4 * 6 * 6
    assert (
        np.fromfile(only(found, r"^conv\.weight_output_0_shape_4_1_3_3_Float32_DefaultFormat\.bin$"), "<f4").size == 36
    )
    only(found, r"^cst1_output_0_shape_2_1_8_8_Float32_DefaultFormat\.bin$")


@pytest.mark.parametrize("layout", ["ge", "o0", "o2"])
def test_npy_files_of_cann_carry_the_task(recorded, layout):
    found = files(recorded(layout), STEP[layout])
    dtype = r"\.float32" if layout == "o2" else ""
    name = (
        r"^conv2d\.Default_network-Small_conv-Conv2d_conv2d-op0\.(\d+)\.0\.\d{16}\.output\.0\.NCHW" + dtype + r"\.npy$"
    )
    assert np.load(only(found, name)).shape == (2, 4, 6, 6)
    with open(found["statistic.csv"], newline="") as table:
        rows = [row for row in csv.DictReader(table) if row["Op Type"] == "conv2d"]
    task = re.search(name, only(found, name).name)[1]
    assert {row["Task ID"] for row in rows} == {task}


@pytest.mark.parametrize("layout", ["acl", "torchair"])
def test_every_op_has_a_table_of_its_own(recorded, layout):
    dump = recorded(layout)
    found = files(dump, STEP[layout])
    table = only(found, r"^conv2d\..*\.csv$")
    assert table.with_name(table.name.removesuffix(".csv")).exists()
    lines = table.read_text().splitlines()
    assert lines[0] == "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,Max Value,Min Value,l2norm"
    rows = list(csv.DictReader(lines))
    assert [(row["Input/Output"], row["Index"], row["Shape"]) for row in rows] == [
        ("Input", "0", "2x1x8x8"),
        ("Input", "1", "4x1x3x3"),
        ("Input", "2", "4"),
        ("Output", "0", "2x4x6x6"),
    ]
    output = container_reader.read(table.with_name(table.name.removesuffix(".csv")))["outputs"][0]["array"]
    assert float(rows[3]["Max Value"]) == pytest.approx(output.max(), rel=1e-5)
    assert rows[3]["Count"] == "288"
    assert not [name for name in files(dump) if name.endswith("statistic.csv")]


def test_operators_outside_modules_lie_above_the_models(recorded):
    found = files(recorded("acl"), "T/0")
    assert any(name.startswith("mean.Default_mean-op0.") for name in found), sorted(found)
    assert not any("network-Small" in name for name in found)


def test_side_files_are_those_of_the_version(recorded):
    old = recorded("mindspore-1.2")
    assert json.loads((old / ".metadata" / "data_dump.json").read_text())["sonde_settings"]["layout"] == "mindspore-1.2"
    for name in ("graphs/ms_output_trace_code_graph_0.ir", "execution_order/ms_execution_order_graph_0.csv"):
        assert (old / "Net" / "device_0" / name).exists()
    o2 = recorded("o2")
    assert json.loads((o2 / "acl_dump_0.json").read_text())["dump"]["dump_mode"] == "all"
    for layout in ("ge", "o0", "o2", "acl", "torchair"):
        assert not [name for name in files(recorded(layout)) if "graph_0.ir" in name or "execution_order" in name]


def test_part_of_a_tree_is_opened_by_itself(recorded, sonde):
    for layout in LAYOUTS:
        dump = recorded(layout)
        first = convolution(sonde, dump)[0]["step"]
        directory = next(path.parent for name, path in files(dump).items() if name.startswith(STEP[layout] + "/"))
        rows = convolution(sonde, directory)
        assert rows and {row["step"] for row in rows} == {first}, layout


def test_a_container_is_shown_by_itself(recorded, sonde):
    path = only(files(recorded("acl"), STEP["acl"]), r"^conv2d\..*[0-9]$")
    listed = sonde("show", path)
    assert listed.status == 0, listed.stderr
    assert OP in listed.stdout
    assert re.search(r"output\.0 +FLOAT +NCHW +\(2,4,6,6\) +1152", listed.stdout)
    shown = sonde("show", path, "input.2", "--json")
    assert json.loads(shown.stdout)["shape"] == [4]
    assert sonde("show", path, "input.9").status == 3


def test_a_damaged_container_is_reported_with_its_place(recorded, sonde, tmp_path):
    path = only(files(recorded("acl"), STEP["acl"]), r"^conv2d\..*[0-9]$")
    broken = tmp_path / path.name
    broken.write_bytes(path.read_bytes()[:-10])
    shown = sonde("show", broken)
    assert shown.status == 3
    assert "it is cut off: output.0 should have 1152 bytes" in shown.stderr


KINDS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x * 1

    network = Net()
    torch.manual_seed(0)
    for kind in (torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.float16,
                 torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128):
        value = (torch.randn(2, 3) * 3).to(kind)
        network(value)
"""


def test_containers_hold_every_type_that_torch_computes_with(train, config, dump):
    done = train(KINDS, config=config(sonde_settings={"layout": "acl", "step": "manual"}, saved_data="tensor"))
    assert done.status == 0, done.stderr
    types = set()
    for name, path in files(dump).items():
        if "/Net/0/" not in name or not name.rpartition("/")[2].startswith("mul."):
            continue
        op = container_reader.read(path)
        factor, product = op["inputs"][0], op["outputs"][0]
        types.add(factor["type"])
        np.testing.assert_array_equal(factor["array"], product["array"])
    assert types == {11, 3, 5, 7, 8, 4, 2, 1, 12, 27, 16, 17}


def without_e2e(path, **common):
    """The configuration as an asynchronous one, which reads `file_format`."""
    content = json.loads(path.read_text())
    del content["e2e_dump_settings"]
    content["common_dump_settings"].update(common)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("layout", ["mindspore-2.0", "mindspore-2.7", "ge"])
def test_file_format_bin_makes_containers(train, config, sonde, dump, layout):
    directory = "T/0/Net/0/0" if layout == "ge" else "rank_0/Net/0/0"
    path = without_e2e(
        config(sonde_settings={"layout": layout}, saved_data="tensor"),
        op_debug_mode=0,
        file_format="bin",
        iteration="0",
    )
    done = train(config=path)
    assert done.status == 0, done.stderr
    op = container_reader.read(only(files(dump, directory), r"^conv2d\.Default_.*conv2d-op0\.[0-9]+\.0\.[0-9]{16}$"))
    assert op["outputs"][0]["array"].shape == (2, 4, 6, 6)
    assert not list(dump.rglob("*.npy"))
    (row,) = [row for row in convolution(sonde, dump) if row["place"] == "output.0"]
    assert row["max"] == pytest.approx(op["outputs"][0]["array"].max(), rel=1e-5)


def test_arguments_of_operators_are_written_beside_them(train, config, dump):
    path = config(e2e={"enable": True, "save_kernel_args": True}, dump_mode=1, kernels=["conv2d"], saved_data="tensor")
    done = train(config=path)
    assert done.status == 0, done.stderr
    found = sorted((dump / "rank_0" / "Net" / "0" / "0").glob("*.json"))
    assert [path.name for path in found] == ["conv2d.Default_network-Small_conv-Conv2d_conv2d-op0.json"]
    arguments = json.loads(found[0].read_text())
    assert arguments["stride"] == "[1, 1]"
    assert all(isinstance(value, str) for value in arguments.values())
    assert found[0].read_text() == json.dumps(arguments, indent=4, sort_keys=True)


OVERFLOW = """
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.full((3,), 1e30))

        def forward(self, x):
            return (x * self.weight) * self.weight


    network = Net()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with torch.no_grad():
        network(torch.ones(3))
"""


@pytest.mark.parametrize("layout", ["acl", "o0", "o2"])
def test_an_overflow_has_its_record(train, config, dump, layout):
    path = config(
        sonde_settings={"layout": layout, "step": "forward"}, saved_data="tensor", op_debug_mode=3, file_format="npy"
    )
    done = train(OVERFLOW, config=path)
    assert done.status == 0, done.stderr
    found = files(dump)
    record = only(found, r"/Opdebug\.Node_OpDebug\.")
    task = record.name.split(".")[2]
    assert only(found, rf"/mul\..*mul-op1\.{task}\.0\.[0-9]{{16}}(\.output\.0\.ND(\.float32)?\.npy)?$")
    assert not [name for name in found if "mul-op0" in name]
    if layout != "acl":
        core = json.loads(record.read_text())["AI Core"]
        assert (core["task_id"], core["status"]) == (int(task), 32)
    else:
        words = container_reader.read(record)["outputs"][0]["array"].view("<u8")
        assert (words[34], words[130]) == (int(task), 32)


def test_an_overflow_of_an_asynchronous_dump_of_two_point_zero_has_its_record_beside_npy_files(train, config, dump):
    settings = {"layout": "mindspore-2.0", "step": "forward"}
    path = without_e2e(config(sonde_settings=settings), saved_data="tensor", op_debug_mode=3, file_format="npy")
    done = train(OVERFLOW, config=path)
    assert done.status == 0, done.stderr
    found = files(dump)
    record = only(found, r"^rank_0/Net/1/0/Opdebug\.Node_OpDebug\..*\.output\.0\.json$")
    task = record.name.split(".")[2]
    assert json.loads(record.read_text())["AI Core"]["task_id"] == int(task)
    only(found, rf"^rank_0/Net/1/0/mul\.mul-op\d+\.{task}\.0\.[0-9]{{16}}\.output\.0\.ND\.npy$")
