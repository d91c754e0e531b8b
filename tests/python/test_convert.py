"""`sonde convert`: containers and raw files become .npy files with the same values."""

import json

import numpy as np

TYPES = """
    import torch
    from torch import nn

    torch.manual_seed(0)
    network = nn.Linear(3, 2)
    values = torch.tensor([[-1.5, 0.25, 3.0]])
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn, torch.int8,
             torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128]
    for step in range(2):
        network(values)
        for kind in kinds:
            values.to(kind).clone()
"""
# The results of values.to(kind).clone(), in the order of `kinds`: NumPy's type, and the values.
KEPT = [-1.5, 0.25, 3.0]
EXPECTED = [
    ("float64", KEPT), ("float16", KEPT), ("float32", KEPT), ("float32", KEPT), ("float32", KEPT), ("int8", [-1, 0, 3]),
    ("int16", [-1, 0, 3]), ("int32", [-1, 0, 3]), ("int64", [-1, 0, 3]), ("bool", [True] * 3), ("complex64", KEPT),
    ("complex128", KEPT),
]  # fmt: skip


def dumped(train, config, layout, iteration="0"):
    run = train(
        TYPES, config(saved_data="tensor", iteration=iteration, sonde_settings={"layout": layout}, file_format="bin")
    )
    assert run.status == 0, run.stderr
    return run.dump


def clones(directory):
    """The results of the clones, in the order of their calls: the number of the op, then of its task."""
    found = [path for path in directory.rglob("*output*.npy") if path.name.startswith(("clone", "Default--clone"))]
    return sorted(found, key=lambda path: int(path.name.split("clone-op")[1].split(".")[0].split("_")[0]))


def test_every_type_of_a_container_keeps_its_values(train, config, sonde, tmp_path):
    dump = dumped(train, config, "o2")
    out = tmp_path / "npy"
    done = sonde("convert", dump, "--out", out)
    assert done.status == 0, done.stderr
    files = clones(out)
    assert len(files) == len(EXPECTED)
    for path, (dtype, values) in zip(files, EXPECTED, strict=True):
        array = np.load(path)
        assert (str(array.dtype), array.shape) == (dtype, (1, 3)), path
        assert array[0].tolist() == values, path


def test_raw_files_of_version_1_2_take_type_and_shape_from_their_names(train, config, sonde, tmp_path):
    dump = dumped(train, config, "mindspore-1.2", iteration="1")  # where steps count from 1
    out = tmp_path / "npy"
    done = sonde("convert", dump, "--out", out, "--jsonl")
    assert done.status == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["to"] for row in rows} == {str(path) for path in out.rglob("*.npy")}
    weight = next(out.rglob("weight_output_0_shape_2_3_Float32_DefaultFormat.npy"))
    assert np.load(weight).shape == (2, 3)


def test_a_truncated_container_is_named_and_the_others_are_converted(train, config, sonde, tmp_path):
    dump = dumped(train, config, "o2")
    broken = next(dump.rglob("linear.*"))
    whole = broken.read_bytes()
    broken.chmod(0o600)
    broken.write_bytes(whole[:-1])
    done = sonde("convert", dump, "--out", tmp_path / "npy")
    assert done.status == 3
    assert broken.name in done.stderr
    assert "1 file could not be read" in done.stdout
    assert len(clones(tmp_path / "npy")) == len(EXPECTED)


def test_says_when_there_is_nothing_to_convert(sonde, tmp_path):
    nothing = sonde("convert", tmp_path, "--out", tmp_path / "npy")
    assert nothing.status == 3
    assert "holds no binary tensor files" in nothing.stderr
    missing = sonde("convert", tmp_path / "absent", "--out", tmp_path / "npy")
    assert missing.status == 3
    assert "absent" in missing.stderr


def test_a_raw_file_is_put_into_the_format_and_shape_that_were_asked_for(sonde, tmp_path):
    dump, out = tmp_path / "dump", tmp_path / "npy"
    dump.mkdir()
    image = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    padded = np.zeros((2, 16, 4, 5), np.float32)
    padded[:, :3] = image
    blocked = padded.reshape(2, 1, 16, 4, 5).transpose(0, 1, 3, 4, 2)
    (dump / "conv_output_0_shape_2_1_4_5_16_Float32_NC1HWC0.bin").write_bytes(blocked.tobytes())
    (dump / "conv_input_0_shape_2_3_4_5_Float32_NCHW.bin").write_bytes(image.tobytes())
    done = sonde("convert", dump, "--out", out, "--format", "NHWC", "--shape", "2,4,5,3", "--output", "0")
    assert done.status == 0, done.stderr
    (path,) = out.iterdir()
    assert path.name == "conv_output_0_shape_2_1_4_5_16_Float32_NC1HWC0.2x4x5x3.npy"
    assert np.array_equal(np.load(path), image.transpose(0, 2, 3, 1))
