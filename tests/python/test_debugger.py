"""sonde.debugger: MindSpore's offline debugger as its users wrote it, over dumps of MindSpore and of PyTorch."""

import csv
import json
import math
import struct
import sys
import textwrap

import mindspore_tree
import numpy as np
import openpyxl
import pytest
from processes import run_in, settings_of

import sonde
from sonde.debugger import (
    DebuggerTensor,
    DumpAnalyzer,
    DumpParser,
    Node,
    OperatorOverflowCondition,
    OperatorWithoutEffectCondition,
    TensorAllZeroCondition,
    TensorChangeAboveThresholdCondition,
    TensorChangeBelowThresholdCondition,
    TensorOverflowCondition,
    TensorRangeCondition,
    TensorStatistic,
    TensorTooLargeCondition,
    TensorTooSmallCondition,
    TensorUnchangedCondition,
    Watchpoint,
)

WEIGHT = "optimizer.network.conv.weight"
CONV = "Default/network-Net/conv-Conv2d/Conv2D-op0"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return mindspore_tree.write(tmp_path_factory.mktemp("tree", numbered=True))


@pytest.fixture(scope="module")
def analyzer(tree):
    return DumpAnalyzer(tree)


def names(nodes):
    return [node.name for node in nodes]


def node_named(analyzer, name):
    (found,) = [node for node in analyzer.select_nodes(name) if node.name == name]
    return found


def test_ranks_and_iterations_are_those_with_data(analyzer):
    assert (analyzer.get_ranks(), analyzer.get_iterations(), analyzer.get_iterations(0)) == ([0], [0, 1], [0, 1])


def test_nodes_are_constants_parameters_and_operators_of_the_graph_file(analyzer):
    nodes = analyzer.select_nodes("")
    assert all(isinstance(node, Node) for node in nodes)
    kinds = [
        "constant" if name.startswith("cst") else "operator" if "/" in name else "parameter" for name in names(nodes)
    ]
    assert kinds == sorted(kinds, key=["constant", "parameter", "operator"].index)
    conv = node_named(analyzer, CONV)
    assert (conv.rank, conv.root_graph_id, conv.graph_name) == (0, 0, "kernel_graph0")
    assert str(conv) == f"rank: 0\ngraph_name: kernel_graph0\nnode_name: {CONV}"


def test_nodes_are_selected_by_name_or_by_line(analyzer):
    assert names(analyzer.select_nodes("Conv2D-op0")) == names(
        analyzer.select_nodes("CONV2D-OP0", case_sensitive=False)
    )
    assert names(analyzer.select_nodes("^x$", use_regex=True)) == ["x"]
    assert analyzer.select_nodes("conv2d-op0") == []
    line = next(line for line in node_named(analyzer, CONV).stack if line.file_path.endswith("train.py"))
    by_line = analyzer.select_nodes(f"train.py:{line.line_no}", select_by="code_stack")
    assert CONV in names(by_line)
    assert all(any(f"train.py:{line.line_no}" in str(each) for each in node.stack) for node in by_line)


def test_neighbours_are_those_of_the_graph(analyzer):
    conv = node_named(analyzer, CONV)
    inputs = analyzer.get_input_nodes(conv)
    assert len(inputs) >= 2 and inputs[0].kind == "parameter"
    readers = analyzer.get_output_nodes(conv)
    assert conv in analyzer.get_input_nodes(readers[0])
    assert analyzer.list_affected_nodes(conv.get_output_tensors(iterations=[0])[0]) == readers
    assert [(tensor.node, tensor.slot, tensor.iteration) for tensor in conv.get_input_tensors(1, [0])] == [
        (inputs[0], 0, 1)
    ]


def test_values_are_those_of_the_files(analyzer, tree):
    (tensor,) = analyzer.select_tensors(CONV, iterations=[1])
    (file,) = tree.glob("rank_0/Net/0/1/Conv2D.Default_network-Net_conv-Conv2d_Conv2D-op0.*.output.0.*")
    assert isinstance(tensor, DebuggerTensor)
    assert np.array_equal(tensor.value(), np.load(file))
    assert str(tensor) == f"{tensor.node}\nslot: 0\niteration: 1"
    assert analyzer.select_tensors("cst", iterations=[0])[0].value() is None


def test_an_operator_that_the_graph_calls_otherwise_has_its_files(analyzer):
    # The files of MindSpore 2.10 say Conv2DBackpropFilter-op0, its graph -op1.
    tensors = analyzer.select_tensors("Conv2DBackpropFilter", iterations=[0])
    assert tensors
    for tensor in tensors:
        assert tensor.value() is not None


def test_files_are_found_by_line(tree):
    found = DumpParser(tree).get_tensor_files("TRAIN.PY", iterations=[1])
    files = found[CONV].to_dict()
    assert set(files) == {"rank_0"} and set(files["rank_0"]) == {1}
    assert [path.rsplit("/", 1)[1].split(".")[5:7] for path in files["rank_0"][1]["input"][:2]] == [
        ["input", "0"],
        ["input", "1"],
    ]
    assert all(path.startswith(str(tree)) for path in files["rank_0"][1]["output"])
    assert DumpParser(tree).get_tensor_files("no such line") == {}


def test_the_workbook_has_the_sheets_and_columns_of_the_original(analyzer, tmp_path):
    path = analyzer.export_graphs(tmp_path / "new")
    assert path.startswith(str(tmp_path / "new" / "dump_2")) and path.endswith(".xlsx")
    book = openpyxl.load_workbook(path)
    sheets = {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book}
    assert {title: rows[0] for title, rows in sheets.items()} == {
        "info": ("argument", "value"),
        "constant": ("name", "value", "downstream", "rank_id", "graph_name"),
        "parameter": ("name", "output_dtype", "output_shape", "downstream", "rank_id", "graph_name"),
        "operator": (
            *("operator", "input", "input_dtype", "input_shape", "output_dtype", "output_shape", "downstream"),
            *("name", "attrs", "scope", "full_name", "rank_id", "graph_name", "stack"),
        ),
        "statistics": ("operator", "count"),
        "source": ("stack", "operator", "full_name", "rank_id", "graph_name"),
    }
    conv = next(row for row in sheets["operator"] if row[10] == CONV)
    assert conv[0] == "Conv2D_0" and conv[1].splitlines()[1].startswith("Load_")
    assert "'pad_mode':" in conv[8] and conv[9] == CONV.rpartition("/")[0]
    assert sum(count for _, count in sheets["statistics"][1:]) == len(sheets["operator"]) - 1
    assert [row[0] for row in sheets["statistics"][1:]] == sorted(row[0] for row in sheets["statistics"][1:])
    weight = next(row for row in sheets["parameter"] if row[0] == WEIGHT)
    assert weight[1:3] == ("float32", "(2, 2, 3, 3)")


def test_a_text_that_looks_like_a_formula_is_none(tmp_path, tree, monkeypatch):
    analyzer = DumpAnalyzer(tree)
    monkeypatch.setattr(analyzer.select_nodes(WEIGHT)[0], "_name", "=1+1")
    cell = next(
        cell
        for row in openpyxl.load_workbook(analyzer.export_graphs(tmp_path))["parameter"].iter_rows()
        for cell in row
        if cell.value == "=1+1"
    )
    assert cell.data_type == "s"


# --- statistics -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pytorch(tmp_path_factory):
    """A training of PyTorch with statistics and tensors, its third loss infinite, in MindSpore 2.0's layout."""
    program = """
        import torch
        from torch import nn

        torch.manual_seed(0)
        torch.set_num_threads(1)
        network = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            loss = network(torch.randn(4, 3) * (1e30 if step == 2 else 1)).square().mean()
            loss.backward()
            optimizer.step()
    """
    directory = tmp_path_factory.mktemp("pytorch", numbered=True)
    (directory / "train.py").write_text(textwrap.dedent(program))
    config = directory / "data_dump.json"
    settings = settings_of(directory / "dump", None, {"version": "2.0"}, {"saved_data": "full"})
    config.write_text(json.dumps(settings))
    run = run_in(directory, directory / "dump", sys.executable, "train.py", MINDSPORE_DUMP_CONFIG=config)
    assert run.status == 0, run.stderr
    return run.dump


def test_statistics_are_the_rows_of_the_tables(pytorch):
    found = DumpAnalyzer(pytorch).select_tensor_statistics(iterations=[1])
    with open(pytorch / "rank_0/Net/0/1/statistic.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(found) == [0] and list(found[0]) == [1]
    assert [row for records in found[0][1].values() for row in records] == rows
    first = found[0][1][f"{rows[0]['Op Name']}:{rows[0]['IO']}:{rows[0]['Slot']}"][0]
    assert isinstance(first, TensorStatistic)
    assert (first.op_type, first.slot, first.max_value) == (
        rows[0]["Op Type"],
        int(rows[0]["Slot"]),
        float(rows[0]["Max Value"]),
    )
    assert first.shape == (4, 3) and first.count == 12


def test_statistics_are_measured_where_there_is_no_table(analyzer):
    found = analyzer.select_tensor_statistics(ranks=[0])
    (conv,) = found[0][1][f"{CONV}:output:0"]
    assert conv.max_value == conv.min_value > 0 and (conv.count, conv.shape) == (6, (2, 3))


def test_the_summary_counts_iterations(pytorch, tmp_path):
    analyzer = DumpAnalyzer(pytorch)
    statistics = analyzer.select_tensor_statistics()
    assert analyzer.summary_statistics(statistics, overflow_value=65500, out_path=tmp_path / "out") is None
    with open(tmp_path / "out" / "statistics_summary.csv", newline="") as file:
        rows = {row["tensor_name"]: row for row in csv.DictReader(file)}
    mean = next(row for name, row in rows.items() if row["op_type"] == "mean" and name.endswith("output:0"))
    assert list(mean.values())[3:] == ["1", "0", "0", "3", "2", "3"]  # MindSpore 2.0 has finite maxima only
    linear = next(row for name, row in rows.items() if row["op_type"] == "linear" and name.endswith("output:0"))
    assert list(linear.values())[3:] == ["0", "0", "1", "3", "2", "3"]


# --- watchpoints ----------------------------------------------------------------------------------------------------


def check(analyzer, condition, query=CONV, error_on_no_value=False, **selection):
    tensors = analyzer.select_tensors(query, **selection)
    return list(analyzer.check_watchpoints([Watchpoint(tensors, condition)], error_on_no_value))


def test_a_hit_says_what_was_set_and_what_was_found(analyzer):
    (tensor,) = analyzer.select_tensors(CONV, iterations=[1])
    value = float(tensor.value().max())
    (hit,) = check(analyzer, TensorTooLargeCondition(max_gt=value - 1, min_gt=value), iterations=[1])
    assert (hit.tensor.node.name, hit.tensor.iteration, hit.error_code, hit.error_msg) == (CONV, 1, 0, [])
    assert hit.get_threshold() == {"max_gt": value - 1, "min_gt": value}
    assert hit.get_hit_detail() == (
        f"The setting for watchpoint is max_gt = {value - 1}. The actual value of the tensor is max_gt = {value}."
    )
    assert str(hit).startswith("Watchpoint TensorTooLarge triggered on tensor:\nrank: 0\n")


def test_a_hit_of_one_parameter_is_said_as_by_the_command(tmp_path):
    dump = mindspore_tree.write(tmp_path, values=lambda number, iteration: np.full((2, 3), number + 0.5, np.float32))
    analyzer = DumpAnalyzer(dump)
    (tensor,) = analyzer.select_tensors(CONV, iterations=[1])
    limit = float(tensor.value().max()) - 0.25
    (hit,) = check(analyzer, TensorTooLargeCondition(max_gt=limit), iterations=[1])
    findings = sonde.watch(dump, f"tensor_too_large:max_gt={limit}", step=1).hits
    assert {found.detail for found in findings if found.op_name == CONV} == {hit.get_hit_detail()}


def test_changes_are_those_since_the_iteration_before(analyzer):
    (tensor,) = analyzer.select_tensors(CONV, iterations=[0])
    ratio = 1 / (float(tensor.value().mean()) + 1e-9)
    first, second = check(analyzer, TensorChangeAboveThresholdCondition(ratio / 2))
    assert (first.tensor.iteration, first.error_code, first.error_msg) == (
        0,
        4,
        ["The previous step value cannot be found."],
    )
    assert first.get_hit_detail() is None
    assert (second.tensor.iteration, second.error_code) == (1, 0)
    assert [
        hit.tensor.iteration
        for hit in check(analyzer, TensorChangeBelowThresholdCondition(ratio / 2))
        if not hit.error_code
    ] == []
    assert [hit.error_code for hit in check(analyzer, TensorUnchangedCondition(rtol=2 * ratio))] == [4, 0]


def test_nan_and_infinity_are_errors_of_conditions_that_compare(tmp_path):
    def values(number, iteration):
        return np.array([[1.0, math.nan, math.inf]] if iteration else [[0.0, 0.0, 5.0]], np.float32)

    analyzer = DumpAnalyzer(mindspore_tree.write(tmp_path, values=values))
    (bad,) = check(analyzer, TensorTooSmallCondition(max_lt=0))
    assert (bad.tensor.iteration, bad.error_code) == (1, 3)
    assert bad.error_msg == ["Tensor contains NaN.", "A tensor contains +/-INF."]
    (hit,) = check(analyzer, TensorOverflowCondition())
    assert (hit.tensor.iteration, hit.error_code, hit.get_hit_detail()) == (1, 0, "None.")
    (zero,) = check(analyzer, TensorAllZeroCondition(60), iterations=[0])
    assert "zero_percentage_ge = 66.6" in zero.get_hit_detail()
    inside = TensorRangeCondition(0, 1, range_percentage_lt=70, max_min_gt=4)
    (ranged,) = check(analyzer, inside, iterations=[0])
    assert "max_min_gt = 5.0" in ranged.get_hit_detail() and "range_percentage_lt = 66.6" in ranged.get_hit_detail()


def test_a_tensor_without_a_value_is_an_error_only_on_demand(analyzer):
    assert check(analyzer, TensorOverflowCondition(), "^cst1$", use_regex=True, iterations=[0]) == []
    (hit,) = check(analyzer, TensorOverflowCondition(), "^cst1$", True, use_regex=True, iterations=[0])
    assert (hit.error_code, hit.error_msg) == (32, ["Tensor has no value."])


def test_a_dump_of_pytorch_is_watched_all_the_same(pytorch):
    analyzer = DumpAnalyzer(pytorch)
    hits = check(analyzer, TensorOverflowCondition(), "train.py:11", select_by="code_stack")
    assert hits and {hit.tensor.iteration for hit in hits} == {2}


def test_a_dump_without_graph_files_has_the_nodes_that_were_recorded(pytorch, tmp_path):
    import shutil

    shutil.copytree(pytorch, tmp_path / "dump")
    for file in (tmp_path / "dump").rglob("graphs/*.pb"):
        file.unlink()
    with_files, without = DumpAnalyzer(pytorch), DumpAnalyzer(tmp_path / "dump")
    assert set(names(without.select_nodes("Default/"))) == {
        name for name in names(with_files.select_nodes("Default/")) if "MakeTuple" not in name
    }
    linear = node_named(without, next(name for name in names(without.select_nodes("linear-op"))))
    assert names(without.get_input_nodes(linear)) == names(
        with_files.get_input_nodes(node_named(with_files, linear.name))
    )
    assert without.export_graphs(tmp_path)


def test_a_damaged_graph_file_is_passed_over(tree, tmp_path):
    root = mindspore_tree.write(tmp_path)
    file = root / "rank_0/graphs/ms_output_trace_code_graph_0.pb"
    whole = file.read_bytes()
    for size in (0, 1, 7, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        assert CONV in names(DumpAnalyzer(root).select_nodes("")), size


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def container(values, shape):
    """A file of CANN's with one output: float32 in NC1HWC0 (docs/format.md, "Container")."""
    sizes, real = (field(1, b"".join(map(varint, each))) for each in (values.shape, shape))
    output = field(1, 1) + field(2, 3) + field(3, sizes) + field(6, values.nbytes) + field(7, real)
    header = field(1, b"1.0") + field(3, output) + field(6, b"Default/conv-Conv2d/Conv2D-op0")
    return struct.pack("<Q", len(header)) + header + values.tobytes()


def test_files_of_a_device_are_converted_under_the_names_that_mindspore_gives(tmp_path):
    step = tmp_path / "rank_0" / "Net" / "0" / "0"
    step.mkdir(parents=True)
    values = np.arange(1 * 2 * 2 * 2 * 16, dtype=np.float32).reshape(1, 2, 2, 2, 16)  # 20 channels in blocks of 16
    name = "Conv2D.Default_conv-Conv2d_Conv2D-op0.3.7.1795310925883564"
    (step / name).write_bytes(container(values, shape=(1, 20, 2, 2)))
    (step / name.replace("op0", "op1")).write_bytes(b"\x10" * 64)
    parser = DumpParser(tmp_path)
    failed = parser.convert_all_data_to_host()
    assert failed == [str(step / name.replace("op0", "op1"))]
    converted = np.load(step / "Conv2D.Conv2D-op0.3.7.1795310925883564.output.0.NCHW.npy")
    assert np.array_equal(converted, values.transpose(0, 1, 4, 2, 3).reshape(1, 32, 2, 2)[:, :20])
    assert (step / "convert_failed_file_list.txt").read_text() == f"{failed[0]}\n"
    assert (tmp_path / "convert_failed_files_summary.txt").read_text() == f"{failed[0]}\n"


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda a, tree: DumpAnalyzer(tree, mem_limit=100), ValueError, r"mem_limit must be in \[2048, 2147483647\]"),
        (lambda a, tree: DumpAnalyzer(tree, mem_limit="1"), TypeError, "mem_limit must be int or None"),
        (lambda a, tree: DumpAnalyzer(tree / "nothing"), Exception, "no such directory"),
        (lambda a, tree: a.select_nodes(3), TypeError, "query_string must be str"),
        (lambda a, tree: a.select_nodes("x", use_regex=1), TypeError, "use_regex must be bool"),
        (lambda a, tree: a.select_nodes("x", select_by="name"), ValueError, "select_by must be 'node_name' or"),
        (lambda a, tree: a.select_nodes("x", ranks="0"), TypeError, r"ranks must be int, list\[int\] or None"),
        (lambda a, tree: a.select_nodes("x", ranks=[3]), ValueError, r"ranks must be in \[0\], not 3"),
        (lambda a, tree: a.select_tensors("x", iterations=7), ValueError, r"iterations must be in \[0, 1\], not 7"),
        (lambda a, tree: a.select_tensors("x", slots=0), TypeError, r"slots must be list\[int\] or None"),
        (lambda a, tree: a.get_input_nodes("conv"), TypeError, "node must be Node"),
        (lambda a, tree: a.list_affected_nodes(1), TypeError, "tensor must be DebuggerTensor"),
        (lambda a, tree: a.check_watchpoints([1]), TypeError, "each of watchpoints must be Watchpoint"),
        (
            lambda a, tree: Watchpoint(1, TensorOverflowCondition()),
            TypeError,
            "tensors must be a list of DebuggerTensor",
        ),
        (lambda a, tree: Watchpoint([], "overflow"), TypeError, "condition must be ConditionBase"),
        (lambda a, tree: TensorTooLargeCondition(), ValueError, "at least one of its parameters abs_mean_gt, max_gt"),
        (lambda a, tree: TensorTooSmallCondition(max_lt="a"), TypeError, "max_lt must be float, not str"),
        (
            lambda a, tree: TensorRangeCondition(0, 1),
            ValueError,
            "range_percentage_lt, range_percentage_gt, max_min_lt",
        ),
        (lambda a, tree: TensorRangeCondition(range_percentage_lt=1), ValueError, "both range_start_inclusive and"),
        (lambda a, tree: TensorAllZeroCondition(None), TypeError, "zero_percentage_ge must be float"),
        (lambda a, tree: TensorAllZeroCondition(101), ValueError, "zero_percentage_ge"),
        (lambda a, tree: OperatorOverflowCondition(1), TypeError, "takes 1 positional argument"),
    ],
)
def test_arguments_that_are_not_allowed_are_named(analyzer, tree, call, error, text):
    with pytest.raises(error, match=text):
        call(analyzer, tree)


def test_conditions_have_the_names_numbers_and_parameters_of_the_original():
    conditions = [
        (TensorTooLargeCondition(1, mean_gt=2), "TensorTooLarge", 15, {"abs_mean_gt": 1.0, "mean_gt": 2.0}),
        (TensorTooSmallCondition(min_lt=1), "TensorTooSmall", 16, {"min_lt": 1.0}),
        (TensorRangeCondition(max_min_gt=1), "TensorRange", 21, {"max_min_gt": 1.0}),
        (TensorOverflowCondition(), "TensorOverflow", 13, {}),
        (OperatorOverflowCondition(), "OperatorOverflow", 2, {}),
        (OperatorWithoutEffectCondition(), "OperatorWithoutEffect", 100, {}),
        (TensorAllZeroCondition(100), "TensorAllZero", 17, {"zero_percentage_ge": 100.0}),
        (TensorUnchangedCondition(), "TensorUnchanged", 20, {"rtol": 1e-5, "atol": 1e-8}),
        (
            TensorChangeBelowThresholdCondition(2),
            "TensorChangeBelowThreshold",
            19,
            {"abs_mean_update_ratio_lt": 2.0, "epsilon": 1e-9},
        ),
        (
            TensorChangeAboveThresholdCondition(2, 1e-3),
            "TensorChangeAboveThreshold",
            18,
            {"abs_mean_update_ratio_gt": 2.0, "epsilon": 1e-3},
        ),
    ]
    for condition, name, number, parameters in conditions:
        assert (condition.name, condition.condition_id, condition.param_dict) == (name, number, parameters)
