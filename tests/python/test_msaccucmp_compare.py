"""`sonde msaccucmp compare` and `file_compare`: every mode on small dumps, cell by cell."""

import csv
import json
import os
import struct
import subprocess

import numpy as np
import pytest
from cann_files import NUMBERS, field, shape_message

TIME = 1700000000000000


def tensor(array, is_input, *, format=2, original=(), address=0, data_type=None):
    size, original_field, address_field = (5, 6, 8) if is_input else (6, 7, 9)
    message = field(1, data_type or NUMBERS[str(array.dtype)]) + field(2, format) + field(3, shape_message(array.shape))
    message += (
        field(size, array.nbytes) + field(original_field, shape_message(original)) + field(address_field, address)
    )
    return message


def write(path, inputs=(), outputs=()):
    """A container. Each tensor is an array, or an array with further facts."""
    message, payload = b"", b""
    for number, is_input, tensors in ((4, True, inputs), (3, False, outputs)):
        for item in tensors:
            array, known = item if isinstance(item, tuple) else (item, {})
            message += field(number, tensor(array, is_input, **known))
            payload += array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(message)) + message + payload)


def compare(*arguments, command="compare", **where):
    return subprocess.run(
        ["sonde", "msaccucmp", command, *map(str, arguments)], capture_output=True, text=True, check=False, **where
    )


def cells(text):
    return text.split("|")


def rows(directory, pattern="result_*.csv"):
    (path,) = directory.glob(pattern)
    text = path.read_bytes().decode()
    assert text.endswith("\r\n")
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open(newline="") as file:
        return list(csv.reader(file))


def attribute(key, **value):
    return {"key": key, "value": value}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    """Two NPU dumps, golden npy files and a rule file."""
    root = tmp_path_factory.mktemp("dumps")
    x = np.arange(1, 13, dtype="f4").reshape(2, 6)
    image = np.arange(2 * 3 * 2 * 2, dtype="f2").reshape(2, 3, 2, 2)
    blocked = np.zeros((2, 1, 2, 2, 16), "f2")
    blocked[..., :3] = image.transpose(0, 2, 3, 1)[:, None]
    for side, factor in (("npu", 1), ("other", 2)):
        write(root / side / f"Relu.relu.1.2.{TIME + 2}", [x], [(x * factor, {"address": 99})])
        write(root / side / f"Conv.conv.1.2.{TIME + 1}", [x], [(blocked, {"format": 3, "original": image.shape})])
        write(root / side / f"Mul.only_{side}.1.2.{TIME + 3}", [x], [x])
    (root / "golden").mkdir()
    np.save(root / "golden" / f"scope_relu.0.{TIME}.npy", x)
    np.save(root / "golden" / f"conv_relu.0.{TIME}.npy", image.astype("f4") + 1)
    ops = [
        {"name": "scope/relu", "type": "Relu", "id": 1, "input": []},
        {
            "name": "conv",
            "type": "Conv",
            "id": 2,
            "input": ["scope/relu:0"],
            "attr": [attribute("_datadump_original_op_names", list={"s": ["conv_bias", "conv_relu"]})],
            "output_desc": [
                {
                    "attr": [
                        attribute("_datadump_origin_name", s="conv_relu"),
                        attribute("_datadump_origin_output_index", i=0),
                        attribute("_datadump_origin_format", s="NCHW"),
                        attribute("origin_shape", list={"i": [2, 3, 2, 2]}),
                    ]
                }
            ],
        },
        {"name": "gone", "type": "Add", "id": 3, "input": ["conv:0"]},
    ]
    (root / "rules.json").write_text(json.dumps({"graph": [{"name": "model", "op": ops}]}))
    write(root / "fused" / f"Relu.scope_relu.1.2.{TIME}", [], [x])
    write(root / "fused" / f"Conv.conv.1.2.{TIME + 1}", [x], [(blocked, {"format": 3})])
    return root


def test_two_npu_dumps(dumps, tmp_path):
    done = compare("-m", dumps / "npu", "-g", dumps / "other", "-out", tmp_path / "new", "-alg", "0,MaxAbsoluteError")
    assert done.returncode == 2  # an operator of each side is alone
    header, *found = rows(tmp_path / "new")
    assert header == cells(
        "Index|OpType|NPUDump|DataType|Address|GroundTruth|DataType|Address|TensorIndex|Shape|CosineSimilarity|"
        "MaxAbsoluteError|CompareFailReason"
    )
    assert [row[:-1] for row in found] == [
        cells("0|Conv|conv|float32|0|conv|float32|0|conv:input:0|[2,6]|1.000000|0.000000"),
        cells("0|Conv|conv|float16|0|conv|float16|0|conv:output:0|[2,1,2,2,16]|1.000000|0.000000"),
        cells("1|Relu|relu|float32|0|relu|float32|0|relu:input:0|[2,6]|1.000000|0.000000"),
        cells("1|Relu|relu|float32|99|relu|float32|99|relu:output:0|[2,6]|1.000000|12.000000"),
        cells("2|NaN|only_npu|NaN|NaN|*|NaN|NaN|NaN|NaN|NaN|NaN"),
        cells("3|NaN|*|NaN|NaN|only_other|NaN|NaN|NaN|NaN|NaN|NaN"),
    ]
    assert [bool(row[-1]) for row in found] == [False] * 4 + [True] * 2


def test_operators_with_names_of_nine_fields_come_in_the_order_of_their_times(tmp_path):
    """Of a task that is not FFTS+. The original finds no time in such a name, and takes the order of the directory."""
    x = np.ones((2, 3), "f4")
    for place in ("a", "b"):
        for number, name in enumerate(("last", "middle", "first")):
            write(tmp_path / place / f"Add.{name}.3.7.{TIME - number}.0.1.0.0", [x], [x])
    done = compare("-m", tmp_path / "a", "-g", tmp_path / "b", "-out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    head, *table = rows(tmp_path / "out")
    names = [row[head.index("NPUDump")] for row in table]
    assert list(dict.fromkeys(names)) == ["first", "middle", "last"]


def test_a_bad_file_is_a_row(dumps, tmp_path):
    for side in ("m", "g"):
        write(tmp_path / side / f"A.good.1.2.{TIME}", [], [np.ones(3, "f4")])
        write(tmp_path / side / f"A.cut.1.2.{TIME + 1}", [], [np.ones(3, "f4")])
        write(tmp_path / side / f"A.-text.1.2.{TIME + 2}", [], [(np.ones(3, "f4"), {"data_type": 13})])
    cut = tmp_path / "g" / f"A.cut.1.2.{TIME + 1}"
    cut.write_bytes(cut.read_bytes()[:-1])
    done = compare("-m", tmp_path / "m", "-g", tmp_path / "g", "-out", tmp_path / "out", "-alg", "1")
    assert done.returncode == 11
    _, good, bad, text = rows(tmp_path / "out")
    assert good[-2:] == ["0.000000", ""]
    assert bad[2] == "cut" and bad[-2] == "NaN" and "cut off" in bad[-1]
    assert text[2] == "'-text" and text[-2] == "NaN" and "STRING" in text[-1]


def test_by_rules(dumps, tmp_path):
    arguments = ["-m", dumps / "fused", "-g", dumps / "golden", "-f", dumps / "rules.json"]
    assert compare(*arguments, "-out", tmp_path, "-alg", "1", "-overflow_detection").returncode == 2
    header, *found = rows(tmp_path)
    assert header == cells(
        "Index|OpType|NPUDump|DataType|Address|GroundTruth|DataType|TensorIndex|Shape|OverFlow|MaxAbsoluteError|"
        "CompareFailReason"
    )
    both = "conv_bias,conv_relu"
    assert [row[:-1] for row in found] == [
        cells("0|Relu|scope/relu|float32|0|scope/relu|float32|scope/relu:output:0|[12]|NaN|0.000000"),
        cells(f"1|Conv|conv|float32|0|{both}|float32|conv:input:0|[12]|NaN|0.000000"),
        cells(f"1|Conv|conv|float16|0|{both}|float32|conv:output:0|[2,3,2,2]|NO|1.000000"),
        cells("2|Add|gone|NaN|NaN|gone|NaN|NaN|NaN|NaN|NaN"),
    ]


def test_range_selection_and_mapping(dumps, tmp_path):
    arguments = ["-m", dumps / "fused", "-g", dumps / "golden", "-f", dumps / "rules.json"]
    assert compare(*arguments, "-out", tmp_path / "s", "-s", "2,9", "-alg", "1").returncode == 0
    header, *found = rows(tmp_path / "s")
    assert header[:2] == ["Index", "OpSequence"]
    assert [row[:4] for row in found] == [["1", "2", "Conv", "conv"]] * 2
    assert compare(*arguments, "-out", tmp_path / "s", "-r", "3,2,1").returncode == 12
    assert compare(*arguments, "-out", tmp_path / "map", "-map").returncode == 0
    header, *found = rows(tmp_path / "map", "mapping_*.csv")
    assert header == cells("Index|OpType|NPUDump|GroundTruth|TensorIndex|NPUDumpPath|GroundTruthPath")
    conv = dumps / "fused" / f"Conv.conv.1.2.{TIME + 1}"
    assert found[1:] == [
        cells(f"1|Conv|conv|conv_bias,conv_relu|conv:input:0|{conv}|{dumps}/golden/scope_relu.0.{TIME}.npy"),
        cells(f"1|Conv|conv|conv_bias,conv_relu|conv:output:0|{conv}|{dumps}/golden/conv_relu.0.{TIME}.npy"),
        cells("2|Add|gone|gone|NaN|NaN|NaN"),
    ]


def test_advice(dumps, tmp_path):
    arguments = ["-m", dumps / "fused", "-g", dumps / "golden", "-f", dumps / "rules.json"]
    compare(*arguments, "-out", tmp_path, "-advisor")
    type_, index, advice = (tmp_path / "advisor_summary.txt").read_text().splitlines()
    assert (type_, index) == ("Detection Type: Global Consistency", "Operator Index: NA")
    assert advice.startswith("Expert Advice: ")


def test_one_operator(dumps, tmp_path):
    arguments = ["-m", dumps / "fused", "-g", dumps / "golden", "-f", dumps / "rules.json", "-op", "conv"]
    done = compare(*arguments, "-out", tmp_path, "-n", "2")
    assert done.returncode == 0 and "TopN" in done.stderr and "AbsoluteError" in done.stdout
    summary = (tmp_path / "conv_output_0_summary.txt").read_text()
    assert summary.splitlines()[:4] == [
        "TotalCount:24",
        "NPUDump:conv",
        "GroundTruth:conv_bias conv_relu",
        "Format:N C H W",
    ]
    lines = (tmp_path / "conv_output_0_0.csv").read_text().splitlines()
    assert lines[0] == "Index,N C H W,NPUDump,GroundTruth,AbsoluteError,RelativeError"
    assert lines[6] == "5,0 1 0 1,5.000000\t,6.000000\t,1.000000\t,0.166667\t"
    assert np.load(tmp_path / "conv_output_0.npy").shape == (2, 3, 2, 2)
    top = (tmp_path / "conv_output_0_relative_error_topn.csv").read_text().splitlines()
    assert top[1] == "0,0 0 0 0,0.000000\t,1.000000\t,1.000000\t,1.000000\t"


def test_a_directory_of_rules(dumps, tmp_path):
    step = tmp_path / "20240101120000" / "0" / "model" / "1" / "5"
    step.mkdir(parents=True)
    (step / f"Relu.scope_relu.1.2.{TIME}").write_bytes((dumps / "fused" / f"Relu.scope_relu.1.2.{TIME}").read_bytes())
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "model.json").write_text((dumps / "rules.json").read_text())
    paths = ["-m", tmp_path / "20240101120000", "-g", dumps / "golden", "-f", tmp_path / "rules"]
    compare(*paths, "-out", tmp_path / "out", "-alg", "1")
    assert len(rows(tmp_path / "out", "0_model_5_result_*.csv")) == 4
    assert compare(*paths, "-op", "conv").returncode == 6


def test_own_algorithms(dumps, tmp_path):
    (tmp_path / "own" / "algorithm").mkdir(parents=True)
    (tmp_path / "own" / "algorithm" / "alg_Sum.py").write_text(
        "def compare(left, right, args):\n    return f'{(left - right).sum():.1f}', args.note\n"
    )
    paths = ["-m", dumps / "npu", "-g", dumps / "other", "-out", tmp_path]
    compare(*paths, "-c", tmp_path / "own", "-alg", "Sum,1", "-a", "Sum:note=hello")
    header, *found = rows(tmp_path)
    assert header[10:12] == ["Sum", "MaxAbsoluteError"]
    assert found[3][10:] == ["-78.0", "12.000000", "hello"]


def test_own_algorithms_run_without_the_modules_of_the_current_directory(dumps, tmp_path):
    (tmp_path / "own" / "algorithm").mkdir(parents=True)
    (tmp_path / "own" / "algorithm" / "alg_Sum.py").write_text(
        "def compare(left, right, args):\n    return f'{(left - right).sum():.1f}', ''\n"
    )
    for name in ("numpy.py", "struct.py", "importlib.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'sprung')!r}, 'w').close()\n")
    paths = ["-m", dumps / "npu", "-g", dumps / "other", "-out", tmp_path]
    compare(*paths, "-c", tmp_path / "own", "-alg", "Sum", cwd=tmp_path, env={**os.environ, "PYTHONPATH": ":."})
    assert not (tmp_path / "sprung").exists()
    assert rows(tmp_path)[4][10] == "-78.0"


def test_two_files(tmp_path):
    np.save(tmp_path / "a.npy", np.array([1, 2, 4], "f4"))
    np.save(tmp_path / "b.npy", np.array([2, 2, 2], "f4"))
    paths = ["-m", tmp_path / "a.npy", "-g", tmp_path / "b.npy", "-out", tmp_path]
    assert compare(*paths, command="file_compare").returncode == 0
    (result,) = tmp_path.glob("file_result_*.txt")
    assert result.read_text().splitlines()[:3] == [
        "CosineSimilarity: 0.881917",
        "MaxAbsoluteError: 2.000000",
        "AccumulatedRelativeError: 1.500000",
    ]
    assert compare(*paths[:3], tmp_path / "b.txt", *paths[4:], command="file_compare").returncode == 24


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (["-f", "rules.json"], 6),  # -cf is missing
        (["-r", "1,2,1"], 6),
        (["-o", "0"], 6),
        (["-alg", "nothing"], 31),
        (["-alg", "1", "99"], 2),
        (["-max", "many"], 2),
        (["-op", "absent"], 2),
    ],
)
def test_refusals(dumps, tmp_path, more, status):
    more = [dumps / word if word == "rules.json" else word for word in more]
    assert compare("-m", dumps / "npu", "-g", dumps / "other", "-out", tmp_path, *more).returncode == status
