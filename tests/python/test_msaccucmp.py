"""`sonde msaccucmp convert` and `overflow`, and msaccucmp.py: the original's files, and intended differences."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import cann_files as cann
import numpy as np
import pytest
import torch

NAME = "Conv2D.conv1.3.7.1700000000000000"


@pytest.fixture
def convert(sonde, tmp_path):
    """Converts one file with these bytes; returns the status, stderr and the written files, by name."""

    def run(data, *options, name=NAME):
        dump = tmp_path / "dump"
        dump.mkdir(exist_ok=True)
        (dump / name).write_bytes(data)
        out = tmp_path / "out"
        done = sonde("msaccucmp", "convert", "-d", dump / name, "-out", out, *options)
        done.files = {path.name.removeprefix(name + "."): path for path in out.iterdir()} if out.exists() else {}
        return done

    return run


def only(done, name):
    assert list(done.files) == [name], done.stderr
    return np.load(done.files[name])


def test_everything_a_container_holds_gets_its_file(convert):
    data = cann.container(
        [np.arange(6, dtype=np.float32).reshape(2, 3)], [np.int8([1, 2])], buffers=[b"buffer"], spaces=[b"log", b""],
        attributes=[("user_tag", "no json")], general=[b"\1\2\3"],
    )  # fmt: skip
    done = convert(data)
    assert done.status == 0, done.stderr
    assert set(done.files) == {
        "input.0.npy", "input.1.npy", "output.0.npy", "l1buffer.0.bin", "space.0.bin", "space.1.bin"
    }  # fmt: skip
    assert np.load(done.files["input.0.npy"]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.load(done.files["input.1.npy"]).tolist() == [1, 2, 3]  # described among the inputs, stored last
    assert np.load(done.files["output.0.npy"]).tolist() == [1, 2]
    assert done.files["l1buffer.0.bin"].read_bytes() == b"buffer"
    assert done.files["space.0.bin"].read_bytes() == b"log"
    assert done.files["input.0.npy"].stat().st_mode & 0o777 == 0o600


HIFLOAT8 = {0x00: 0.0, 0x08: 1.0, 0x88: -1.0, 0x6F: np.inf, 0xEF: -np.inf, 0x80: np.nan, 0x01: 2.0**-22, 0x07: 2.0**-16,
            0x6E: 2.0**15,
            0x7F: 2.0**-15 * 1.5, 0x10: 2.0, 0x18: 0.5, 0x13: 2 * 1.375, 0x20: 4.0, 0x40: 16.0}  # fmt: skip
TYPES = [
    (cann.BF16, np.uint16([0x3F80, 0xC040]).tobytes(), "float32", [1, -3]),
    (cann.HIFLOAT8, bytes(HIFLOAT8), "float32", list(HIFLOAT8.values())),
    (cann.E5M2, bytes([0x3C, 0xFC, 0x7D]), "float32", [1, -np.inf, np.nan]),
    (cann.E4M3, bytes([0x38, 0x7F, 0xFE]), "float32", [1, np.nan, -448]),
    (cann.E8M0, bytes([127, 128, 255]), "float32", [1, 2, np.nan]),
    (cann.E3M2, bytes([0b11_001100, 0b0000_0111, 0b100000_00]), "float32", [1, 28, 0.0, -0.0]),
    (cann.E2M3, bytes([0b11_001000, 0b0000_0111]), "float32", [1, 7.5]),
    (cann.E2M1, bytes([0x72, 0x0F]), "float32", [1, 6, -6]),
    (cann.E1M2, bytes([0x74, 0x0F]), "float32", [1, 1.75, -1.75]),
    (cann.INT4, bytes([0x8F, 0x07]), "int8", [-1, -8, 7]),
    (30, bytes([0b00_10_11_01]), "int8", [1, -1, -2, 0]),
    (31, bytes([0b00_10_11_01]), "uint8", [1, 3, 2, 0]),
    (cann.UINT1, bytes([0b10110000, 0b10000000]), "uint8", [1, 0, 1, 1, 0, 0, 0, 0, 1]),
    (cann.COMPLEX32, np.float16([1, -2]).tobytes(), "complex64", [1 - 2j]),
    (23, struct.pack("<q", 7), "int64", [7]),
    (19, struct.pack("<h", -7), "int16", [-7]),
    (14, b"\xff", "int8", [-1]),
]


def test_every_type_is_decoded(convert):
    data = cann.container([cann.Tensor(data, number, (len(values),)) for number, data, _, values in TYPES])
    done = convert(data)
    assert done.status == 0, done.stderr
    for slot, (number, _, dtype, values) in enumerate(TYPES):
        array = np.load(done.files[f"input.{slot}.npy"])
        assert str(array.dtype) == dtype, number
        np.testing.assert_array_equal(array, np.array(values, dtype), err_msg=str(number))


def test_scalars_empty_tensors_and_more_bytes_than_needed(convert):
    data = cann.container(
        [cann.Tensor(np.float32([3.5]), shape=()), np.zeros((2, 0, 3), np.float16),
         cann.Tensor(np.arange(32, dtype=np.int32), shape=(3, 2)), cann.Tensor(b"abc", 0, (9,))]
    )  # fmt: skip
    done = convert(data)
    arrays = [np.load(done.files[f"input.{slot}.npy"]) for slot in range(4)]
    assert [(str(a.dtype), a.shape) for a in arrays] == [
        ("float32", (1,)), ("float16", (2, 0, 3)), ("int32", (3, 2)), ("int8", (3,))
    ]  # fmt: skip


def test_one_bad_tensor_does_not_lose_the_others(convert):
    good = np.float32([1, 2])
    data = cann.container([cann.Tensor(b"abcd", cann.STRING, (4,)), good, cann.Tensor(good, shape=(3,))], [good])
    done = convert(data)
    assert set(done.files) == {"input.1.npy", "output.0.npy"}
    assert done.status == 11  # of the last
    assert "input.0: element type STRING is not numeric" in done.stderr
    assert "input.2: (3) of FLOAT take 12 bytes; it has 8" in done.stderr


def test_what_is_whole_of_a_truncated_file_is_written(convert):
    data = cann.container([np.float32([1, 2])], [np.float32([3, 4])])
    done = convert(data[:-1])
    assert done.status == 11
    assert only(done, "input.0.npy").tolist() == [1, 2]
    assert "output.0 should have 8 bytes from byte" in done.stderr


@pytest.mark.parametrize(
    ("data", "status"), [(b"", 11), (b"12345678", 11), (b"\xff" * 40, 11), (b"\1" + b"\0" * 7 + b"\xff", 11)]
)
def test_files_that_are_no_dumps(convert, data, status):
    done = convert(data)
    assert (done.status, done.files) == (status, {})


@pytest.mark.parametrize(
    ("options", "name"),
    [((), "input.0.npy"), (("-t", "bin"), "input.0.6.float16.ND.bin"), (("-t", "pt"), "input.0.pt"),
     (("-f", "NCHW"), "input.0.1x2x3x1.npy"), (("-f", "NCHW", "-t", "bin"), "input.0.1_2_3_1.float16.NCHW.bin")],
)  # fmt: skip
def test_names(convert, options, name):
    shape, cann_format = ((1, 3, 1, 2), cann.NHWC) if "-f" in options else ((2, 3), cann.ND)
    done = convert(
        cann.container([cann.Tensor(np.arange(6, dtype=np.float16), shape=shape, cann_format=cann_format)]), *options
    )
    assert (done.status, list(done.files)) == (0, [name]), done.stderr


def test_mindspores_names_take_the_operators_own(convert, tmp_path):
    done = convert(cann.container([np.float32([1])], op_name="Default/net/conv1-op3"), "-t", "msnpy")
    assert done.status == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == [
        "Conv2D.conv1-op3.3.7.1700000000000000.input.0.ND.npy"
    ]


def test_a_name_too_long_is_a_hash_that_mapping_csv_explains(convert, tmp_path):
    long = "T." + "x" * 225 + ".1.2.1700000000000000"
    done = convert(cann.container([np.float32([1])]), name=long)
    assert done.status == 0, done.stderr
    line = (tmp_path / "out" / "mapping.csv").read_text().strip()
    short, full = line.split(",")
    assert full == long + ".input.0.npy"
    assert np.load(tmp_path / "out" / short).tolist() == [1]
    import uuid

    assert short == uuid.uuid3(uuid.NAMESPACE_DNS, full).hex + ".npy"


def test_torch_loads_what_is_written_for_it(convert):
    arrays = [np.arange(6, dtype=t).reshape(2, 3) for t in (np.float32, np.float16, np.int8, np.uint8, np.int32)]
    inputs = [*arrays, cann.Tensor(np.uint16([1, 2]), 6), cann.Tensor(np.uint16([0x3F80]), cann.BF16),
              cann.Tensor(np.float32([3]), shape=()), np.zeros((0, 2), np.float32)]  # fmt: skip
    done = convert(cann.container(inputs), "-t", "pt")
    assert done.status == 0, done.stderr
    loaded = [torch.load(done.files[f"input.{slot}.pt"], weights_only=True) for slot in range(len(inputs))]
    for array, value in zip(arrays, loaded, strict=False):
        assert value.tolist() == array.tolist()
        assert str(value.dtype) == f"torch.{array.dtype}"
    assert [str(v.dtype) for v in loaded[5:]] == ["torch.uint16", "torch.float32", "torch.float32", "torch.float32"]
    assert [tuple(v.shape) for v in loaded[5:]] == [(2,), (1,), (1,), (0, 2)]
    assert torch.load(done.files["input.0.pt"], weights_only=True, mmap=True).sum() == 15


def test_the_real_shape_decides_which_axis_is_cropped(convert):
    image = np.arange(2 * 3 * 4 * 20, dtype=np.float16).reshape(2, 20, 3, 4)
    padded = np.zeros((2, 32, 3, 4), np.float16)
    padded[:, :20] = image
    blocked = padded.reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2)
    for original in ((2, 20, 3, 4), (2, 3, 4, 20), (3, 4, 20, 2)):
        done = convert(
            cann.container([cann.Tensor(blocked, cann_format=cann.NC1HWC0, original=original)]), "-f", "NCHW"
        )
        assert done.status == 0, done.stderr
        assert np.array_equal(only(done, "input.0.2x20x3x4.npy"), image), original


def test_plain_formats_are_never_cropped(convert):
    image = np.arange(32, dtype=np.float32).reshape(1, 2, 2, 8)
    done = convert(cann.container([cann.Tensor(image, cann_format=cann.NHWC, original=(1, 2, 2, 8))]), "-f", "NCHW")
    assert np.array_equal(only(done, "input.0.1x8x2x2.npy"), image.transpose(0, 3, 1, 2))


def test_a_real_shape_that_fits_nothing_keeps_the_padding_and_says_so(convert):
    done = convert(
        cann.container(
            [cann.Tensor(np.zeros((1, 1, 2, 2, 16), np.float16), cann_format=cann.NC1HWC0, original=(9, 9, 9, 9))]
        ),
        "-f",
        "NCHW",
    )
    assert only(done, "input.0.1x16x2x2.npy").shape == (1, 16, 2, 2)
    assert "the padding stays" in done.stderr


def test_fractal_nz_of_rank_4(convert):
    matrix = np.arange(2 * 3 * 20 * 18, dtype=np.float32).reshape(2, 3, 20, 18)
    padded = np.zeros((2, 3, 32, 32), np.float32)
    padded[:, :, :20, :18] = matrix
    blocked = padded.reshape(2, 3, 2, 16, 2, 16).transpose(0, 1, 4, 2, 3, 5)
    done = convert(
        cann.container([cann.Tensor(blocked, cann_format=cann.FRACTAL_NZ, original=matrix.shape)]), "-f", "ND"
    )
    assert np.array_equal(only(done, "input.0.2x3x20x18.npy"), matrix)


def test_statuses_of_what_cannot_be(convert, sonde, tmp_path):
    plain = cann.container([np.float32([[1, 2]])])
    cases = {
        ("-f", "NCHW"): 22, ("-f", "XX"): 6, ("-s", "1,2"): 6, ("-f", "ND", "-s", "1"): 23, ("-f", "ND", "-i", "5"): 12,
        ("-f", "ND", "-i", "x"): 6, ("-t", "zip"): 2, ("--o", "x"): 2,
    }  # fmt: skip
    for options, status in cases.items():
        assert convert(plain, *options).status == status, options
    assert sonde("msaccucmp").status == 6
    assert sonde("msaccucmp", "unknown").status == 2
    assert sonde("msaccucmp", "convert", "-out", tmp_path).status == 2
    assert sonde("msaccucmp", "convert", "-d", tmp_path / "absent").status == 3
    assert sonde("msaccucmp", "convert", "-d", tmp_path / "a b").status == 2


def test_a_directory_lists_what_failed(sonde, tmp_path):
    dump, out = tmp_path / "dump", tmp_path / "out"
    dump.mkdir()
    (dump / "A.a.1.2.1700000000000000").write_bytes(cann.container([np.float32([[1, 2]])]))
    (dump / "B.b.1.2.1700000000000001").write_bytes(
        cann.container([cann.Tensor(np.zeros((1, 2, 2, 2), np.float32), cann_format=cann.NCHW)])
    )
    (dump / "mapping.csv").write_text("1,x\n")
    done = sonde("msaccucmp", "convert", "-d", dump, "-out", out, "--format", "NHWC")
    assert done.status == 22
    assert (out / "convert_failed_file_list.txt").read_text() == f"{dump}/A.a.1.2.1700000000000000,input:0\n"
    assert (out / "B.b.1.2.1700000000000001.input.0.1x2x2x2.npy").exists()


def test_dumps_of_small_devices(convert):
    weights, values = np.float32([[1, 2], [3, 4]]), np.uint8([7, 8, 9])
    data = cann.nano([(weights, (2, 2))], [(values, None)])
    done = convert(data)
    assert done.status == 0, done.stderr
    assert np.load(done.files["input.0.npy"]).tolist() == weights.tolist()
    assert np.load(done.files["output.0.npy"]).tolist() == [7, 8, 9]
    assert convert(data + b"x").status == 39


def test_slices_of_threads_have_their_own_shapes(convert):
    slices = [
        [[{"lower": 0, "higher": 2}, {"lower": 0, "higher": 3}]],
        [[{"lower": 2, "higher": 3}, {"lower": 0, "higher": 3}]],
    ]
    attribute = json.dumps(
        {"threadMode": 1, "slice_instance_num": 2, "input_tensor_slice": slices, "output_tensor_slice": [[], []]}
    )
    data = cann.container([cann.Tensor(np.arange(9, dtype=np.float32), shape=(3, 3))], attributes=[("a", attribute)])
    name = "Add.add1.1.2.1700000000000000.4.5.{}.0"
    done = convert(data, name=name.format(1))
    assert np.load(done.files["input.0.npy"]).tolist() == [[0, 1, 2]], done.stderr
    assert convert(data, name="Add.add1.1.x.0").status == 3


def test_npy_and_six_fields_are_accepted(convert, tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.float32([[1, 2], [3, 4]])))
    done = convert((tmp_path / "a.npy").read_bytes(), name="a.0.17.npy")
    assert only(done, "output.0.npy").tolist() == [[1, 2], [3, 4]]
    assert convert(cann.container([np.float32([1])]), name="Add.add.7.1.2.1700000000000000").status == 0


def test_scripts_of_the_users_go_before_our_rules(convert, tmp_path):
    scripts = tmp_path / "scripts" / "format_convert"
    scripts.mkdir(parents=True)
    (scripts / "convert_NCHW_to_NHWC.py").write_text(
        "import numpy\n"
        "def convert(shape_from, shape_to, array):\n"
        "    return numpy.full((1, 2), array.sum(), array.dtype)\n"
    )
    image = cann.container([cann.Tensor(np.ones((1, 2, 2, 2), np.float32), cann_format=cann.NCHW)])
    done = convert(image, "-f", "NHWC", "-c", scripts.parent)
    assert only(done, "input.0.1x2.npy").tolist() == [[8, 8]], done.stderr
    (scripts / "convert_NCHW_to_NHWC.py").write_text(
        "def convert(shape_from, shape_to, array):\n    return 'no array'\n"
    )
    failed = convert(image, "-f", "NHWC", "-c", scripts.parent)
    assert failed.status == 26
    assert "expected numpy.ndarray" in failed.stderr


def overflow_dump(directory):
    """Two records, the older of the old kind, and the operators they name."""
    directory.mkdir()
    old = bytearray(2048)
    old[256:304] = np.uint64([9, 7, 42, 0, 5, 6]).tobytes()
    old[1024:1048] = np.uint64([77, 1, 32]).tobytes()
    new = (
        np.uint32([0x5A5A5A5A, 0, 1, 0, 0, 88]).tobytes()
        + np.uint64([1, 7, 43, 0, 65535, 0, 7, 8, 9, 10, 32]).tobytes()
    )
    for name, record in (("3.2.1700000000000001", bytes(old)), ("4.2.1700000000000003", new)):
        (directory / f"Opdebug.Node_OpDebug.{name}").write_bytes(cann.container((), [np.frombuffer(record, np.uint8)]))
    (directory / "Add.add1.42.7.1700000000000000").write_bytes(
        cann.container([np.float16([65504, 1])], [np.float32([[np.inf, 0.5]])], "net/add1")
    )


def test_overflow_names_the_operator_and_its_tensors(sonde, tmp_path):
    dump, out = tmp_path / "dump", tmp_path / "out"
    overflow_dump(dump)
    done = sonde("msaccucmp", "overflow", "-d", dump, "-out", out, "-n", "2")
    assert done.status == 0, done.stderr
    summary = next(out.glob("overflow_summary_*.txt")).read_text()
    assert summary == (
        "=================================================[1]==================================================\n"
        "[Add] net/add1\n"
        " [AI Core][TaskId:42][StreamId:7][Status:32]\n"
        " [timestamp:1700000000000001]\n"
        " Add.add1.42.7.1700000000000000.input.0.npy\n"
        " -[Format: ND] [Shape: (2,)] [Dtype: float16] [Max: 65500.0] [Min: 1.0] [Mean: 32750.0]\n"
        " Add.add1.42.7.1700000000000000.output.0.npy\n"
        " -[Format: ND] [Shape: (1, 2)] [Dtype: float32] [Max: inf] [Min: 0.5] [Mean: inf]\n"
        "=================================================[2]==================================================\n"
        " [AIC][TaskId:43][StreamId:7][Status:32]\n"
        " [timestamp:1700000000000003]\n"
    )
    record = json.loads((out / "Opdebug.Node_OpDebug.3.2.1700000000000001.output.0.json").read_text())
    assert list(record) == ["DHA Atomic Add", "L2 Atomic Add", "AI Core"]
    assert record["AI Core"]["kernel_code"] == "0x4d"
    assert sonde("msaccucmp", "overflow", "-d", tmp_path / "out", "-out", out).status == 0
    assert sonde("msaccucmp", "overflow", "-d", dump, "-out", out, "-n", "9").status == 2


def test_msaccucmp_py_is_found_by_name_and_runs(tmp_path):
    import sonde

    script = Path(sonde.__file__).parent / "msaccucmp.py"
    (tmp_path / "A.a.1.2.1700000000000000").write_bytes(cann.container([np.float32([1])]))
    command = [sys.executable, "-I", script, "convert", "-d", tmp_path / "A.a.1.2.1700000000000000", "-out", tmp_path]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert (tmp_path / "A.a.1.2.1700000000000000.input.0.npy").exists()
    assert subprocess.run([sys.executable, script], capture_output=True, check=False).returncode == 6
    assert os.access(script, os.R_OK)


def test_a_bias_lies_the_same_in_every_order_of_axes(convert):
    image = cann.Tensor(np.ones((1, 2, 3, 3), np.float32), cann_format=cann.NHWC)
    done = convert(cann.container([image, np.float32([1, 2])], [image]), "-f", "NCHW")
    assert done.status == 0, done.stderr
    assert set(done.files) == {"input.0.1x3x2x3.npy", "input.1.2.npy", "output.0.1x3x2x3.npy"}
    assert np.load(done.files["input.1.2.npy"]).tolist() == [1, 2]
