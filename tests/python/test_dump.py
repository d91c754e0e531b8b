"""sonde.open: the content of a dump in Python, and `sonde export`."""

import json
import pathlib
import re
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from dumps import NAME
from processes import CLI, run_in, settings_of

import sonde
from sonde import export
from sonde.dump import Statistics, extra
from sonde.tensorboard import masked_crc32c

PROGRAM = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)


    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.fc = nn.Linear(8, 2)

        def forward(self, x):
            return self.fc(torch.relu(self.conv(x)).flatten(1))


    network = Small()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = network(torch.randn(2, 1, 4, 4)).square().mean()
        loss.backward()
        optimizer.step()
        for kind in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64):
            torch.tensor([1.5, -0.25, 3.0]).to(kind).clone()
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A dump of PyTorch: tensors and no statistics."""
    directory = tmp_path_factory.mktemp("open", numbered=True)
    (directory / "train.py").write_text(textwrap.dedent(PROGRAM))
    config = directory / "data_dump.json"
    config.write_text(json.dumps(settings_of(directory / "dump", None, None, {"saved_data": "tensor"})))
    run = run_in(directory, directory / "dump", sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    return run.dump


@pytest.fixture(scope="module")
def dump(path):
    return sonde.open(path)


def one(tensors):
    assert len(tensors) == 1, list(tensors)
    return tensors[0]


def test_a_dump_has_ranks_steps_ops_and_tensors(dump, path):
    assert dump.ranks == [0]
    assert [(step.rank, step.graph, step.step, step.ended) for step in dump.steps] == [
        (0, 0, iteration, True) for iteration in range(3)
    ]
    order = (path / "rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().split()[1:]
    assert [op.op_name for op in dump.ops.select(step=0) if not op.is_parameter] == order
    assert sorted(tensor.tensor_file for tensor in dump.tensors if tensor.tensor_file) == sorted(path.rglob("*.npy"))
    assert {tensor.skipped for tensor in dump.tensors if tensor.tensor_file is None} == {"uninitialised memory"}
    assert dump.problems == []


def test_the_values_of_a_tensor_are_those_of_its_file_and_cannot_be_changed(dump):
    tensor = one(dump.tensors.select(op_type="CONV2D", side="output", step=1))
    values = tensor.numpy()
    assert np.array_equal(values, np.load(tensor.tensor_file))
    assert (tensor.dtype, tensor.shape) == ("float32", (2, 2, 2, 2)) == (values.dtype, values.shape)
    assert not values.flags.owndata and not values.flags.writeable
    with pytest.raises(ValueError):
        values[0] = 0
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64


def test_every_file_is_somebodys_tensor(dump):
    for tensor in dump.tensors.select(step=2):
        if tensor.tensor_file is None:
            continue
        name = NAME.match(tensor.tensor_file.name)
        assert (name["type"], name["io"], int(name["slot"])) == (tensor.op.op_type, tensor.side, tensor.slot)


def test_statistics_that_the_dump_lacks_are_taken_from_the_values(dump):
    tensor = dump.tensors.select(op="fc-Linear/linear", side="output")[0]
    values = tensor.numpy().astype(np.float64)
    found = tensor.statistics
    assert isinstance(found, Statistics)
    assert (found.max, found.min, found.count) == (values.max(), values.min(), values.size)
    assert found.avg == pytest.approx(values.mean())
    assert (found.positive_count, found.nan_count) == ((values > 0).sum(), 0)


@pytest.mark.parametrize("column", [0, 1])
def test_the_document_names_the_attributes_of_an_op_and_of_a_tensor(dump, column):
    text = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text()
    rows = text.partition("| of an op | of a tensor |\n")[2].partition("\n\n")[0].splitlines()[1:]
    cells = [row.strip("| ").split(" | ")[column].partition(": ")[0] for row in rows]
    names = [name for cell in cells for name in re.findall(r"`(\w+)(?:\(\))?`", cell)]
    assert len(names) > 10
    one = (dump.ops, dump.tensors)[column][0]
    assert [name for name in names if not hasattr(one, name)] == []


def test_the_document_names_what_a_selection_takes(dump):
    text = (pathlib.Path(__file__).parents[2] / "docs/python.md").read_text()
    rows = text.partition("| selection | means |\n")[2].partition("\n\n")[0].splitlines()[1:]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    assert len(names) > 6
    for name in names:
        dump.tensors.select(**{name: 0 if name in ("step", "rank", "graph", "slot") else "output"})


@pytest.mark.parametrize(
    "selection, expected",
    [
        ({"step": 1}, lambda tensor: tensor.step == 1),
        ({"step": range(1, 3)}, lambda tensor: tensor.step >= 1),
        (
            {"op": "^Gradients/.*relu"},
            lambda tensor: tensor.op.op_name.startswith("Gradients/") and "relu" in tensor.op.op_name,
        ),
        ({"op_type": "linear"}, lambda tensor: tensor.op.op_type == "linear"),
        ({"side": "input", "slot": [0, 2]}, lambda tensor: tensor.side == "input" and tensor.slot in (0, 2)),
        ({"source": "train.py:16"}, lambda tensor: any(str(line).endswith("train.py:16") for line in tensor.op.stack)),
        ({"rank": 7}, lambda tensor: False),
    ],
)
def test_a_selection_means_what_it_says(dump, selection, expected):
    found = dump.tensors.select(**selection)
    assert list(found) == [tensor for tensor in dump.tensors if expected(tensor)]
    assert len(found) or selection == {"rank": 7}


def test_a_selection_of_a_selection_narrows_it(dump):
    narrowed = dump.tensors.select(step=1).select(side="output").select(op_type="conv2d")
    assert [tensor.name for tensor in narrowed] == ["Default/network-Small/conv-Conv2d/conv2d-op0:output.0"]


def test_only_a_part_can_be_opened(path):
    part = sonde.open(path, step=1, type="conv2d")
    assert [(op.step, op.op_type) for op in part.ops] == [(1, "conv2d")]
    assert [step.step for step in part.steps] == [0, 1, 2]


def test_what_is_no_selection_is_refused_by_name(dump):
    for selection in ({"side": "left"}, {"step": -1}, {"step": []}, {"slot": "0"}, {"op": "("}):
        with pytest.raises(ValueError, match=f"{next(iter(selection))}|regular expression"):
            dump.tensors.select(**selection)


def test_types_that_numpy_lacks_are_float32_and_their_bits_are_there(dump):
    for kind in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64"):
        tensor = next(
            each for each in dump.tensors.select(op_type="clone", step=0, side="output") if each.dtype == kind
        )
        assert tensor.numpy().dtype == ("complex64" if kind == "complex64" else "float32")
        assert tensor.numpy().tolist() == [1.5, -0.25, 3.0]


def test_bits_of_a_type_that_numpy_lacks_are_mapped(tmp_path):
    step = tmp_path / "rank_0/Net/0/0"
    step.mkdir(parents=True)
    header = b"{'descr': '<E2', 'fortran_order': False, 'shape': (3,), }".ljust(117) + b"\n"
    name = "Add.Default_Add-op0.0.0.1795310925883564.output.0.DefaultFormat.BFloat16.npy"
    bits = struct.pack("<3H", 0x3F8D, 0x4013, 0x7FC0)
    (step / name).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header + bits)
    tensor = one(sonde.open(tmp_path).tensors)
    assert tensor.dtype == "bfloat16"
    assert tensor.numpy()[:2].tolist() == [1.1015625, 2.296875] and np.isnan(tensor.numpy()[2])
    elements, kind = tensor.bits()
    assert (kind, elements.tobytes()) == ("bfloat16", bits)


def test_the_graph_says_who_reads_what(dump):
    graph = dump.graph.select(step=0)
    conv = one(dump.ops.select(op_type="conv2d", step=0))
    assert graph.nodes[0].op_type == "conv2d"
    assert [(edge.parameter, edge.to_slot) for edge in graph.inputs_of(conv)] == [
        ("data-0", 0),
        ("conv.weight", 1),
        ("conv.bias", 2),
    ]
    assert graph.readers_of(conv)[0].to_op.op_type == "relu"
    assert len(dump.graph.edges) == 3 * len(graph.edges)


def test_an_op_has_its_line_and_who_called_it(dump):
    conv = one(dump.ops.select(op_type="conv2d", step=0))
    assert conv.source.code.strip() == "return self.fc(torch.relu(self.conv(x)).flatten(1))"
    assert [line.function for line in conv.stack][:2] == ["Small.forward", "<module>"]
    assert conv.attributes["groups"] == "1"
    assert [tensor.slot for tensor in conv.inputs] == [0, 1, 2]


def test_a_table_has_a_row_for_each_and_null_where_nothing_is_known(dump):
    table = dump.tensors.to_arrow()
    rows = table.to_pylist()
    assert len(rows) == len(dump.tensors)
    for row, tensor in zip(rows[::7], list(dump.tensors)[::7], strict=True):
        assert (row["op_name"], row["side"], row["slot"], row["step"]) == (
            tensor.op.op_name,
            tensor.side,
            tensor.slot,
            tensor.step,
        )
        assert (row["dtype"], tuple(row["shape"])) == (tensor.dtype, tensor.shape)
    assert {row["max"] for row in rows if row["dtype"] == "complex64"} == {None}
    frame = dump.tensors.to_pandas()
    assert frame["max"].dropna().tolist() == [row["max"] for row in rows if row["max"] is not None]
    assert dump.ops.to_arrow().num_rows == len(dump.ops) == len(dump.ops.to_pandas())
    assert dump.graph.to_arrow().num_rows == len(dump.graph.edges) == len(dump.graph.to_pandas())


def test_a_missing_package_is_named_with_the_extra_that_brings_it(dump, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"needs pyarrow: pip install 'tensorsonde\[arrow\]'"):
        dump.ops.to_arrow()
    with pytest.raises(ImportError, match=r"needs nothing_of_that_name: pip install 'tensorsonde\[x\]'"):
        extra("nothing_of_that_name", "x", "this")


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_there(tmp_path):
    step = tmp_path / "rank_0/Net/0/0"
    step.mkdir(parents=True)
    name = "Add.Default_Add-op0.0.0.179531092588356{}.output.0.DefaultFormat.Float32.npy"
    np.save(step / name.format(1), np.ones(3, np.float32))
    (step / name.format(2)).write_bytes(b"\x93NUMPY\x01\x00\x76\x00{")
    dump = sonde.open(tmp_path)
    bad = [tensor for tensor in dump.tensors if tensor.tensor_file.name == name.format(2)]
    with pytest.raises(sonde.Error, match=name.format(2)):
        bad[0].numpy()
    rows = dump.tensors.to_arrow().to_pylist()
    assert sorted(str(row["max"]) for row in rows) == ["1.0", "None"]


def test_what_is_no_dump_is_refused(tmp_path):
    with pytest.raises(sonde.Error, match="no such directory"):
        sonde.open(tmp_path / "nothing")


def test_no_framework_is_imported(path):
    program = (
        "import sys, sonde; assert 'numpy' not in sys.modules\n"
        f"dump = sonde.open({str(path)!r}); dump.graph.edges\n"
        "[tensor.statistics for tensor in dump.tensors.select(op_type='linear')]\n"
        "print([name for name in ('torch', 'mindspore', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


# --- sonde export ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(path, tmp_path_factory):
    """Every kind of file that the command can write, from one call."""
    directory = tmp_path_factory.mktemp("export", numbered=True)
    names = ["all.parquet", "all.arrow", "all.safetensors", "all.npz", "trends/"]
    to = [argument for name in names for argument in ("--to", f"{directory}/{name}")]
    run = run_in(directory, path, CLI, "export", path, *to, "--side", "output", "--python", sys.executable, "--json")
    assert run.status == 0, run.stderr
    return directory, json.loads(run.stdout)["written"]


def test_the_command_says_what_it_wrote(exported, dump):
    _, written = exported
    outputs = dump.tensors.select(side="output")
    rows, values = len(outputs), sum(tensor.tensor_file is not None for tensor in outputs)
    assert [each["format"] for each in written] == ["parquet", "arrow", "safetensors", "npz", "tensorboard"]
    assert [each.get("rows", each.get("tensors")) for each in written[:4]] == [rows, rows, values, values]
    assert [each["without_values"] for each in written[2:4]] == [rows - values] * 2
    assert all(each["bytes"] > 0 and each["skipped"] == [] for each in written)
    assert written[4]["path"].endswith("/trends/")  # as it was asked for


def test_parquet_and_arrow_hold_the_table(exported, dump):
    from pyarrow import ipc, parquet

    directory, _ = exported
    expected = dump.tensors.select(side="output").to_arrow().to_pylist()
    assert parquet.read_table(directory / "all.parquet").to_pylist() == expected
    with ipc.open_file(directory / "all.arrow") as file:
        assert file.read_all().to_pylist() == expected


def with_values(dump):
    return [tensor for tensor in dump.tensors.select(side="output") if tensor.tensor_file is not None]


def test_npz_holds_the_values(exported, dump):
    directory, _ = exported
    arrays = np.load(directory / "all.npz")
    for tensor in with_values(dump):
        assert np.array_equal(arrays[f"step_{tensor.step}/{tensor.name}"], tensor.numpy())


def test_safetensors_keeps_narrow_floats(exported, dump):
    directory, _ = exported
    data = (directory / "all.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    bits = {"BF16": (0x3FC0, 0xBE80, 0x4040), "F8_E4M3": (0x3C, 0xA8, 0x44), "F8_E5M2": (0x3E, 0xB4, 0x42)}
    seen = set()
    for tensor in with_values(dump):
        entry = header[f"step_{tensor.step}/{tensor.name}"]
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        assert entry["shape"] == list(tensor.shape)
        if entry["dtype"] in bits:
            kind = np.uint16 if entry["dtype"] == "BF16" else np.uint8
            assert np.frombuffer(data[begin:end], kind).tolist() == list(bits[entry["dtype"]])
        elif entry["dtype"] == "F32":
            assert data[begin:end] == tensor.numpy().tobytes()
        seen.add(entry["dtype"])
    assert seen >= {*bits, "F32", "C64"}


def events(path):
    """(step, tag, value) of a file of TensorBoard, read by the format's description, with the sums checked."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + size]
        assert struct.unpack_from("<I", data, at + 8)[0] == masked_crc32c(data[at : at + 8])
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == masked_crc32c(body)
        at += 16 + size
        fields = dict(message(body))
        for _, value in message(fields.get(5, b"")):
            parts = dict(message(value))
            found.append((fields[2], parts[1].decode(), struct.unpack("<f", parts[2])[0]))
    return found


def message(data):
    at = 0
    while at < len(data):
        field, wire, at = data[at] >> 3, data[at] & 7, at + 1
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            number = shift = 0
            while data[at] & 0x80:
                number, shift, at = number | (data[at] & 0x7F) << shift, shift + 7, at + 1
            number, at = number | data[at] << shift, at + 1
            if wire == 0:
                yield field, number
                continue
            size = number
        yield field, data[at : at + size]
        at += size


def test_trends_are_events_of_tensorboard(exported, dump):
    directory, _ = exported
    (file,) = (directory / "trends").rglob("*tfevents*")
    found = events(file)
    conv = dump.tensors.select(op_type="conv2d", side="output")
    trend = [(step, value) for step, tag, value in found if tag == f"max/{conv[0].name}"]
    assert trend == [(tensor.step, np.float32(tensor.statistics.max)) for tensor in conv]


def test_the_sum_of_a_record_is_crc32c():
    # RFC 3720, B.4: 32 bytes of zeros have 0x8A9136AA.
    crc = 0x8A9136AA
    assert masked_crc32c(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_names_in_an_archive_stay_in_it():
    assert export._inside("/../a/./b") == "__/__/a/__/b"


@pytest.mark.parametrize(
    "patterns, step",
    [
        (["conv2d"], None),
        (["**/fc-Linear/*", "relu*"], "0-1"),
        (["?elu"], "2|0"),
        (["*"], "2-1|0"),
        (["Default/*"], None),
        (["**"], "1-99999999999999999999|1"),
        (["**/[a-z]*"], "1"),
    ],
)
def test_export_selects_what_the_other_verbs_select(path, dump, tmp_path, patterns, step):
    steps = ["--step", step] if step else []
    select = [argument for pattern in patterns for argument in ("-s", pattern)]
    shown = run_in(tmp_path, path, CLI, "stats", path, "--jsonl", *select, *steps)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    rows = {(row["step"], row["op_name"], row["side"], row["slot"]) for row in lines if "side" in row}
    assert bool(rows) == ("[" not in patterns[0])  # a bracket is itself; this verb reports a missing op
    chosen = export._chosen(dump, {"select": patterns, "step": step})
    assert {(tensor.step, tensor.op.op_name, tensor.side, tensor.slot) for tensor in chosen} == rows


def test_a_list_that_is_none_is_refused_with_the_words_of_the_engine(dump):
    with pytest.raises(ValueError, match=re.escape("--slot '0;1': expected a list such as 3, 0-5 or 1|4")):
        export._chosen(dump, {"slot": "0;1"})


@pytest.mark.parametrize(
    "arguments, complaint, status",
    [
        (["--to", "x.foo"], "ends in none of .parquet", 2),
        (["--to", "x.npz", "--op", "nothing like it"], "no tensor is selected", 2),
        (["--to", "x.npz", "--step", "b"], "--step: 'b' names no steps; say 3, 0-5 or 1|4", 2),
        (["--to", "x.npz", "--rank", "0 | 1"], "--rank: '0 | 1' names no ranks; say 3, 0-5 or 1|4", 2),
        (["--to", "x.npz", "--graph", "-"], "no tensor is selected", 2),
        (["--to", "x.npz", "--slot", "99"], "no tensor is selected", 2),
        (["--to", "x.npz", "--table", "ops"], "can be written as parquet or arrow", 2),
        (["--to", "x.npz", "--python", "/no/such/python"], "/no/such/python", 2),
    ],
)
def test_a_request_that_cannot_be_met_is_explained(path, tmp_path, arguments, complaint, status):
    python = [] if "--python" in arguments else ["--python", sys.executable]
    run = run_in(tmp_path, path, CLI, "export", path, *arguments, *python)
    assert (run.status, complaint in run.stderr) == (status, True), run.stderr
    assert list(tmp_path.iterdir()) == []
